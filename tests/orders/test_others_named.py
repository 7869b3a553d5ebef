"""A media buy that another team's, or another client's, deal holds: people are told so, and not which one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from orders.adopt import AdoptionRefusedError, media_buy_adopt
from orders.following import named_to
from orders.models import Deal
from orders.questions import LATE
from orders.services import deal_book
from tasks_app.approvals.models import Approval
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.conflicts import choice_words, take_refusal
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tasks_app.people.models import Team
from tasks_app.sellers.models import Account, Seller
from tests.factories import (
    approve_deal,
    make_account,
    make_advertiser,
    make_deal,
    make_seller,
    make_team,
    make_user,
)
from tests.orders.late import decide, fresh, overdue, say
from tests.orders.live import packages

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


def account_of(name: str, seller: Seller, team: Team) -> Account:
    return make_account(make_advertiser(name, team=team), seller)


@pytest.fixture(params=["team", "client"])
def two(request: pytest.FixtureRequest) -> tuple[Deal, Deal]:
    """A deal and another one at the same seller, of another team or of the same team's other client."""
    seller = make_seller(slots=9)
    ours = make_team("Ours")
    other = make_team("Theirs") if request.param == "team" else ours
    made = [account_of(name, seller, team) for name, team in (("A", ours), ("B", other))]
    first, second = (
        make_deal(seller=seller, account=one, team=one.advertiser.team, advertiser=one.advertiser)
        for one in made
    )
    return first, second


def bought(deal: Deal, media_buy_id: str) -> Operation:
    operation = sent(deal)
    return ends(operation, deal, media_buy_id)


def sent(deal: Deal) -> Operation:
    approve_deal(deal, approver=make_user("Approver", team=deal.team))
    operation = deal_book(deal=deal)
    claim_one(operation_id=operation.pk)
    say(operation, "submitted", channel="reply")
    return operation


def ends(operation: Operation, deal: Deal, media_buy_id: str) -> Operation:
    told = {"media_buy_id": media_buy_id, "media_buy_status": "pending_start", "packages": packages(deal)}
    say(operation, "completed", told)
    return operation


def adopt(account: Account | None) -> Deal:
    assert account is not None
    now = timezone.now()
    told = {
        "media_buy_id": "mb-9",
        "status": "active",
        "currency": "USD",
        "total_budget": 5000,
        "start_time": now.isoformat(),
        "end_time": (now + timedelta(days=90)).isoformat(),
    }
    person = make_user("Ad Ops", team=account.advertiser.team)
    return media_buy_adopt(account=account, told=told, user=person, reason="ours")


def told_of(deal: Deal) -> str:
    reasons = AuditEntry.objects.filter(entity_id=deal.pk).values_list("reason", flat=True)
    approvals = Approval.objects.filter(subject_id=deal.pk)
    voided = AuditEntry.objects.filter(entity_id__in=approvals.values("pk")).values_list("reason", flat=True)
    return " ".join([*reasons, *voided])


def test_in_a_purchase_that_is_answered_with_it(two: tuple[Deal, Deal]) -> None:
    mine, theirs = two
    bought(theirs, "mb-9")
    bought(mine, "mb-9")
    assert (fresh(mine).status, fresh(theirs).status) == ("failed", "booked")
    assert "Answered with mb-9, which another" in told_of(mine)
    assert theirs.reference not in told_of(mine)


def test_in_a_late_purchase_whose_question_is_taken_back(two: tuple[Deal, Deal]) -> None:
    mine, theirs = two
    late = sent(mine)
    overdue(late)
    decide("overdue", "reject", user=make_user("Approver", team=mine.team))
    publish(operation_id=late.pk)
    ends(late, mine, "mb-9")
    assert Approval.objects.filter(kind=LATE, subject_id=mine.pk, status="open").exists()
    held = adopt(theirs.account)
    assert not Approval.objects.filter(kind=LATE, subject_id=mine.pk, status="open").exists()
    assert "holds mb-9" in told_of(mine)
    assert held.reference not in told_of(mine)


def test_in_a_contradiction(two: tuple[Deal, Deal]) -> None:
    mine, theirs = two
    bought(theirs, "mb-9")
    ends(bought(mine, "mb-1"), mine, "mb-9")
    conflict = Conflict.objects.get(operation__subject_id=mine.pk)
    words = " ".join([*choice_words(conflict), take_refusal(conflict)])
    assert f"mb-9 is the media buy of {named_to(mine, theirs)}" in words
    assert theirs.reference not in words


def test_in_an_adoption(two: tuple[Deal, Deal]) -> None:
    mine, theirs = two
    bought(theirs, "mb-9")
    with pytest.raises(AdoptionRefusedError, match="of another") as refused:
        adopt(mine.account)
    assert theirs.reference not in str(refused.value)
    assert adopt(theirs.account).pk == theirs.pk


def test_ones_own_is_named() -> None:
    deal = make_deal()
    other = make_deal(seller=deal.seller, account=deal.account, team=deal.team, advertiser=deal.advertiser)
    assert named_to(deal, other) == other.reference
