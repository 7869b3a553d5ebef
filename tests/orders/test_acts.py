"""What people do about a deal themselves: withdraw it, have it cancelled by four eyes, have it read again."""

from __future__ import annotations

import pytest

from orders.acts import ActRefusedError, deal_cancel_ask, deal_read_again, deal_withdraw
from orders.changes.send import CHANGE
from orders.models import Deal, DealMirror, DealStatus
from orders.questions import ask_deal
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tests.database import HOUSE
from tests.factories import make_deal, make_team, make_user
from tests.operations.making import observed
from tests.orders.live import booked

pytestmark = pytest.mark.django_db
_ROLES_WITHOUT = ("Approver", "Ad Ops", "Finance", "Auditor")


@pytest.fixture
def buyer() -> User:
    return make_user("Buyer")


def state(deal: Deal) -> tuple[object, ...]:
    """What a refusal must leave as it is."""
    deal.refresh_from_db()
    return (deal.status, deal.version, Approval.objects.count(), Operation.objects.count())


def test_an_undecided_deal_is_withdrawn_with_the_question_about_it(buyer: User) -> None:
    deal = make_deal()
    asked = ask_deal(deal)
    deal_withdraw(deal_id=deal.pk, user=buyer, reason="the client withdrew")
    deal.refresh_from_db()
    asked.refresh_from_db()
    assert (deal.status, asked.status) == (DealStatus.CANCELLED, ApprovalStatus.VOIDED)
    entry = AuditEntry.objects.filter(entity_id=deal.pk).latest("seq")
    assert (entry.actor, entry.reason) == (actor_key(buyer), "the client withdrew")


def test_what_was_decided_is_not_withdrawn(buyer: User) -> None:
    deal = booked()
    before = state(deal)
    with pytest.raises(ActRefusedError, match="decided on meanwhile"):
        deal_withdraw(deal_id=deal.pk, user=buyer, reason="too late")
    assert state(deal) == before


def test_what_was_imported_without_an_account_can_be_cancelled(buyer: User) -> None:
    """As a former system left it. AdCP wants the account of every change: by brand and operator."""
    deal = booked()
    Deal.objects.filter(pk=deal.pk).update(account=None)
    asked = deal_cancel_ask(deal_id=deal.pk, user=buyer, reason="the client withdrew")
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve", comment="So.")
    operation = Operation.objects.get(task_type="update_media_buy")
    assert claim_one(operation_id=operation.pk) is not None
    domain = deal.advertiser.brand_domain
    assert operation.request["account"] == {
        "brand": {"domain": domain},
        "operator": HOUSE["domain"],
    }
    gone = {"media_buy_id": deal.media_buy_id, "media_buy_status": "canceled"}
    observed(
        operation_id=operation.pk, seen=Seen(kind="answer", status="completed", payload=gone), channel="reply"
    )
    publish(operation_id=operation.pk)
    deal.refresh_from_db()
    assert deal.status == DealStatus.CANCELLED


@pytest.mark.parametrize("role", _ROLES_WITHOUT)
def test_who_has_no_right_calls_nothing_off(role: str) -> None:
    held = booked()
    quoted = make_deal(seller=held.seller, account=False)
    user, before = make_user(role), (state(quoted), state(held))
    with pytest.raises(ActRefusedError, match="no right"):
        deal_withdraw(deal_id=quoted.pk, user=user, reason="because")
    with pytest.raises(ActRefusedError, match="no right"):
        deal_cancel_ask(deal_id=held.pk, user=user, reason="because")
    assert (state(quoted), state(held)) == before


def test_another_teams_deal_is_not_there() -> None:
    deal = booked()
    before, stranger = state(deal), make_user("Buyer", team=make_team("Another"), name="stranger")
    for act in (deal_withdraw, deal_cancel_ask):
        with pytest.raises(ActRefusedError, match="no such deal"):
            act(deal_id=deal.pk, user=stranger, reason="because")
    with pytest.raises(ActRefusedError, match="no such deal"):
        deal_read_again(deal_id=deal.pk, user=stranger)
    assert state(deal) == before


@pytest.mark.parametrize("reason", ["", "   ", "x" * 401])
def test_a_reason_is_asked_for(buyer: User, reason: str) -> None:
    deal = booked()
    before = state(deal)
    with pytest.raises(ActRefusedError):
        deal_cancel_ask(deal_id=deal.pk, user=buyer, reason=reason)
    assert state(deal) == before


def test_a_media_buy_is_cancelled_by_four_eyes_and_the_seller(buyer: User) -> None:
    deal = booked()
    asked = deal_cancel_ask(deal_id=deal.pk, user=buyer, reason="the client withdrew")
    assert (asked.kind, asked.title) == (CHANGE, f"Cancel {deal.reference} with {deal.seller}")
    assert "the client withdrew" in str(asked.evidence["sent"])
    operation = Operation.objects.get(pk=asked.evidence["operation_id"])
    assert (operation.status, operation.send_at) == ("requested", None), "nothing leaves before the decision"

    administrator = make_user("Administrator")
    again = pytest.raises(ActRefusedError, match="is open already")
    with again:
        deal_cancel_ask(deal_id=deal.pk, user=administrator, reason="once more")

    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve")
    operation.refresh_from_db()
    assert operation.send_at is not None
    assert operation.request["canceled"] is True
    deal.refresh_from_db()
    assert deal.status == DealStatus.BOOKED, "the seller has not done it yet"
    claim_one(operation_id=operation.pk)
    done = {"media_buy_id": deal.media_buy_id, "media_buy_status": "canceled", "revision": 2}
    observed(
        operation_id=operation.pk,
        seen=Seen(kind="answer", status="completed", payload=done),
        channel="reply",
    )
    publish(operation_id=operation.pk)
    deal.refresh_from_db()
    assert deal.status == DealStatus.CANCELLED


def test_who_asks_for_a_cancellation_does_not_decide_on_it() -> None:
    deal, both = booked(), make_user("Administrator")
    asked = deal_cancel_ask(deal_id=deal.pk, user=both, reason="the client withdrew")
    with pytest.raises(DecisionRefusedError, match="somebody else decides"):
        approval_decide(approval_id=asked.pk, user=both, verdict="approve")


def test_a_media_buy_is_read_again_at_once(buyer: User) -> None:
    deal = booked()
    DealMirror.objects.filter(pk=deal.pk).update(due_at=None)
    deal_read_again(deal_id=deal.pk, user=buyer)
    assert DealMirror.objects.get(pk=deal.pk).due_at is not None
    with pytest.raises(ActRefusedError, match="no right"):
        deal_read_again(deal_id=deal.pk, user=make_user("Finance"))
    with pytest.raises(ActRefusedError, match="holds nothing"):
        deal_read_again(deal_id=make_deal(seller=deal.seller, account=False).pk, user=buyer)
