"""A purchase that is answered after its media buy was adopted, and with another one: there are two, and
people say which is kept."""

from __future__ import annotations

import pytest

from campaigns.commitments import money_of
from orders.amounts import deal_amounts
from orders.models import Deal
from orders.questions import DIFFERENT, LATE
from tasks_app.approvals.models import Approval
from tasks_app.approvals.presenters import effects_of
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller
from tests.orders.late import BUY, adopted, booking, bought, cancellation, decide, ended, fresh, overdue, say
from tests.orders.test_amounts import campaign_of

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
SECOND = "nrl-99999"


def two(channel: str = "poll", *, late: bool = False) -> tuple[Deal, Deal]:
    """A deal whose purchase is answered with a second media buy, and the one adopted in its place."""
    deal, operation = booking()
    Seller.objects.update(slots=9)
    Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign_of(100_000).pk)
    kept = adopted(fresh(deal))
    if late:
        overdue(operation)
    say(operation, "completed", bought(fresh(deal), SECOND), channel=channel)
    return fresh(deal), fresh(kept)


def asked() -> Approval:
    return Approval.objects.get(kind=LATE, status="open")


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("channel", ["reply", "poll", "webhook"])
def test_people_are_asked_about_the_second(channel: str, late: bool) -> None:
    deal, kept = two(channel, late=late)
    assert (deal.status, deal.media_buy_id) == ("booking", "")
    question = asked()
    assert (question.subject_id, question.evidence["media_buy_id"]) == (deal.pk, SECOND)
    assert f"{kept.reference} is in the place of {deal.reference}" in question.evidence["bought_twice"]
    assert effects_of(question)["approve"].startswith("Not possible")
    assert ("after its deadline" in question.title) is late


def test_the_second_is_not_confirmed_beside_the_first() -> None:
    deal, kept = two()
    assert deal.campaign_id is not None
    assert money_of([deal.campaign_id])[deal.campaign_id].confirmed == kept.confirmed_gross
    assert deal_amounts(deal).confirmed is None


@pytest.mark.parametrize("late", [False, True])
def test_both_are_not_kept(late: bool) -> None:
    deal, _ = two(late=late)
    with pytest.raises(DecisionRefusedError, match="would buy twice"):
        decide(LATE, "approve")
    assert (fresh(deal).status, asked().status) == ("booking", "open")


def test_the_second_is_cancelled_at_the_seller_and_its_deal_is_over() -> None:
    deal, kept = two()
    decide(LATE, "reject")
    assert cancellation().request["media_buy_id"] == SECOND
    ended(cancellation(), "completed", {"media_buy_id": SECOND, "media_buy_status": "canceled"})
    assert (fresh(deal).status, fresh(kept).status, kept.media_buy_id) == ("cancelled", kept.status, BUY)
    assert deal_amounts(fresh(deal)).committed == 0


def test_the_second_is_kept_once_the_first_is_called_off() -> None:
    deal, kept = two()
    decide(DIFFERENT, "reject")
    ended(cancellation(), "completed", {"media_buy_id": BUY, "media_buy_status": "canceled"})
    assert fresh(kept).status == "cancelled"
    with pytest.raises(DecisionRefusedError):  # it is asked anew: keeping it would buy nothing twice any more
        decide(LATE, "approve")
    assert "bought_twice" not in asked().evidence
    decide(LATE, "approve")
    assert (fresh(deal).status, fresh(deal).media_buy_id) == ("booked", SECOND)
    assert not Approval.objects.filter(status="open").exists()


def test_what_is_adopted_beside_a_booked_deal_says_so() -> None:
    deal, operation = booking()
    say(operation, "completed", bought(deal, SECOND))
    kept = adopted(fresh(deal))
    question = Approval.objects.get(kind=DIFFERENT, subject_id=kept.pk)
    assert f"{deal.reference} is booked with {SECOND}" in question.evidence["bought_twice"]
    assert Operation.objects.filter(task_type="update_media_buy").count() == 0
