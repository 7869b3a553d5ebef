"""A purchase that is answered without a media buy of its own: another deal holds it, or none is named."""

from __future__ import annotations

from decimal import Decimal

import pytest

from campaigns.commitments import money_of
from orders.amounts import deal_amounts
from orders.models import Deal
from orders.questions import DIFFERENT, LATE
from tasks_app.approvals.models import Approval
from tasks_app.approvals.presenters import effects_of
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller
from tests.orders.late import BUY, adopted, booking, bought, cancellation, decide, fresh, say
from tests.orders.live import booked
from tests.orders.test_amounts import campaign_of
from tests.orders.test_one_door import comes, ended_without_a_result

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


def test_two_purchases_answered_with_one_media_buy_count_once() -> None:
    first = booked(media_buy_id=BUY)
    Seller.objects.update(slots=9)
    deal, operation = booking(first.seller)
    say(operation, "completed", bought(deal))
    drain()
    deal = fresh(deal)
    assert (deal.status, deal.media_buy_id) == ("failed", "")
    assert deal_amounts(deal).committed == 0
    said = AuditEntry.objects.filter(entity_id=deal.pk).latest("seq").reason
    assert said == f"Answered with {BUY}, which {first.reference} holds"
    assert not Approval.objects.filter(status="open").exists()


def test_what_was_adopted_before_its_purchase_was_answered_counts_once() -> None:
    campaign_id = campaign_of(100_000).pk
    deal, operation = booking()
    Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign_id)
    kept = adopted(fresh(deal))
    say(operation, "completed", bought(deal))
    assert (fresh(deal).status, kept.status) == ("failed", "booked")
    assert money_of([campaign_id])[campaign_id].confirmed == kept.confirmed_gross


def nameless() -> Deal:
    """Booked, though its seller names no media buy."""
    deal, operation = booking()
    say(operation, "completed", {"packages": bought(deal)["packages"]})
    deal = fresh(deal)
    assert (deal.status, deal.media_buy_id, deal.differs) == ("booked", "", True)
    return deal


@pytest.mark.parametrize(("verdict", "status"), [("approve", "booked"), ("reject", "cancelled")])
def test_both_answers_about_a_deal_without_a_media_buy_have_an_effect(verdict: str, status: str) -> None:
    deal = nameless()
    decide(DIFFERENT, verdict)
    deal = fresh(deal)
    assert (deal.status, deal.differs) == (status, False)
    assert (deal_amounts(deal).committed > 0) is (verdict == "approve")
    assert not Operation.objects.filter(task_type="update_media_buy").exists()
    assert not Approval.objects.filter(status="open").exists()


def test_what_refusing_it_does_is_said_before() -> None:
    nameless()
    asked = Approval.objects.get(kind=DIFFERENT, status="open")
    assert "Calls the deal off" in effects_of(asked)["reject"]


@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_a_media_buy_named_after_the_deal_was_refused_is_put_to_people(verdict: str) -> None:
    deal, operation, _ = ended_without_a_result()
    decide(DIFFERENT, "reject")
    assert comes(operation, bought(deal)) == "applied"
    decide(LATE, verdict)
    if verdict == "approve":
        kept = Deal.objects.get(follows=deal)
        assert (kept.status, kept.media_buy_id) == ("booked", BUY)
    else:
        assert cancellation().request["media_buy_id"] == BUY
    assert (fresh(deal).status, fresh(deal).media_buy_id) == ("cancelled", "")


def test_it_is_asked_for_what_it_was_bought_for() -> None:
    deal, operation, _ = ended_without_a_result()
    decide(DIFFERENT, "reject")
    comes(operation, bought(deal, budget=99_000.0))
    assert Approval.objects.get(kind=LATE, status="open").amount == Decimal(99_000)
