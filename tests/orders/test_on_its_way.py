"""What people let go counts before its seller has answered: in its campaign, at gates and to policies."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from campaigns.commitments import money_of
from campaigns.rooms import room_for
from orders.ask import Ask
from orders.changes import change_ask
from orders.coming import coming_by, committed_beside
from orders.models import Deal
from orders.questions import CHANGE_NOT_SHOWN, DIFFERENT, ask_deal
from orders.services import deal_book
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Account, Seller
from tests.factories import approve_deal, make_deal, make_line, make_user
from tests.operations.making import not_sent, observed
from tests.orders import late
from tests.orders.live import booked, packages, says
from tests.orders.test_amounts import DOUBTS, campaign_of, settled, two, wanted

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
D = Decimal


def let_go(deal: Deal, package: str, budget: int) -> Operation:
    """A change of one package, approved."""
    operation = change_ask(wanted(deal, {"package_id": package, "budget": budget}))
    while Approval.objects.filter(kind="deal_change", status="open").exists():
        late.decide("deal_change", "approve")
    return operation


def on_its_way(deal: Deal, budget: int) -> None:
    """A change of the first package, with the seller."""
    Seller.objects.update(slots=9)
    operation = let_go(deal, "pkg-1", budget)
    claim_one(operation_id=operation.pk)
    seen = Seen(kind="answer", status="submitted", task_id="t-9")
    observed(operation_id=operation.pk, seen=seen, channel="reply")


def beside(deal: Deal, budget: int) -> Deal:
    other = make_deal(
        make_line(budget=D(budget)), campaign_id=deal.campaign_id, seller=deal.seller, account=False
    )
    Deal.objects.filter(pk=other.pk).update(account=deal.account)
    return late.fresh(other)


def not_at_all(operation: Operation) -> None:
    """Its first call did not leave, and it is about to be made again."""
    assert claim_one(operation_id=operation.pk) is not None
    observed(operation_id=operation.pk, seen=not_sent(), channel="reply")


def outside(deal: Deal, does: Callable[[], None]) -> None:
    """Done while it belongs to no campaign, so that it has room."""
    own = Deal.objects.filter(pk=deal.pk)
    own.update(campaign_id=None)
    does()
    own.update(campaign_id=deal.campaign_id)


def sent_again(operation: Operation) -> bool:
    Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
    return bool(claim_sends(limit=5))


def raised(deal: Deal) -> None:
    on_its_way(deal, 40_000)


WAYS: dict[str, Callable[[Deal], None]] = {
    "with the seller": raised,
    **{name: way for name, (way, comes_to) in DOUBTS.items() if comes_to == 80_000},
}


@pytest.mark.parametrize("way", WAYS)
def test_a_raise_counts_in_its_campaign_and_beside_it(way: str) -> None:
    deal = two(campaign_id=campaign_of(100_000).pk)
    settled(deal, packages(deal))
    WAYS[way](late.fresh(deal))
    campaign = deal.campaign_id
    assert campaign is not None
    other = beside(deal, 1000)
    room = room_for(other)
    assert room is not None
    found = {
        "its own": coming_by(Deal.objects.filter(pk=deal.pk)),
        "ceiling": committed_beside(other),
        "room": room.left,
        "campaign": money_of([campaign])[campaign].confirmed,
    }
    assert found == {"its own": {deal.pk: 30_000}, "ceiling": 90_000, "room": 10_000, "campaign": 90_000}


def test_what_was_decided_is_on_its_way_no_more() -> None:
    deal = two(campaign_id=campaign_of(100_000).pk)
    settled(deal, packages(deal))
    DOUBTS["not shown"][0](late.fresh(deal))
    late.decide(CHANGE_NOT_SHOWN, "reject")
    assert coming_by(Deal.objects.filter(pk=deal.pk)) == {}


def test_a_repeated_purchase_does_not_fit_beside_a_raise() -> None:
    deal = two(campaign_id=campaign_of(100_000).pk)
    settled(deal, packages(deal))
    other = beside(deal, 40_000)
    approve_deal(other)
    operation = deal_book(deal=other)
    Seller.objects.update(slots=9)
    not_at_all(operation)
    outside(deal, lambda: on_its_way(late.fresh(deal), 40_000))
    assert not sent_again(operation)
    asked = Approval.objects.get(kind="risk_gate", status="open")
    assert "would come to 130000" in asked.evidence["why"]


def test_a_repeated_change_counts_the_one_before_it() -> None:
    deal = two(campaign_id=campaign_of(125_000).pk)
    settled(deal, packages(deal))
    on_its_way(deal, 40_000)
    outside(deal, lambda: not_at_all(let_go(late.fresh(deal), "pkg-2", 90_000)))
    operation = Operation.objects.filter(task_type="update_media_buy").latest("id")
    assert not sent_again(operation)
    asked = Approval.objects.get(kind="risk_gate", status="open")
    assert "would come to 130000" in asked.evidence["why"]


def test_an_order_beside_a_raise_is_caught_as_split() -> None:
    deal = make_deal(make_line(budget=D(10_000)))
    settled(deal, packages(deal))
    on_its_way(deal, 70_000)
    other = make_deal(make_line(budget=D(60_000)), seller=deal.seller, account=False)
    assert ask_deal(other).quorum == 2


def test_a_flight_moved_beside_its_other_part_is_caught_as_split() -> None:
    first = booked(line=make_line(budget=D(60_000)))
    start = first.end_at + timedelta(days=60)
    moved = booked(
        first.seller,
        media_buy_id="mb-2",
        line=make_line(budget=D(60_000)),
        start_at=start,
        end_at=start + timedelta(days=10),
    )
    to = first.end_at + timedelta(hours=1)
    dates = {"start_time": to.isoformat(), "end_time": (to + timedelta(days=10)).isoformat()}
    arguments = {"media_buy_id": "mb-2", **dates}
    asker = make_user("Integration")
    change_ask(Ask(user=asker, task="update_media_buy", seller=moved.seller, arguments=arguments))
    asked = Approval.objects.get(kind="deal_change", status="open")
    assert asked.quorum == 2, asked.policies


def test_a_gate_asks_about_a_large_purchase_as_the_purchase_was_asked_about() -> None:
    deal = make_deal(make_line(budget=D(200_000)))
    approve_deal(deal)
    operation = deal_book(deal=deal)
    not_at_all(operation)
    Account.objects.filter(pk=deal.account_id).update(billing_party="Somebody Else Ltd")
    assert not sent_again(operation)
    asked = Approval.objects.get(kind="risk_gate", status="open")
    assert (asked.quorum, asked.amount, asked.currency) == (2, 200_000, "USD")
    assert asked.evidence["sent"]["packages"][0]["product_id"] == deal.lines.get().product_id
    late.decide("risk_gate", "approve")
    late.decide("risk_gate", "approve")
    assert claim_sends(limit=5)


def refused() -> tuple[Deal, Operation]:
    """Booked for more than approved, which people refused; the cancellation is with the seller."""
    deal = make_deal(make_line(budget=D(10_000)))
    settled(deal, packages(deal, budget=12_000))
    late.decide(DIFFERENT, "reject")
    operation = late.cancellation()
    claim_one(operation_id=operation.pk)
    late.say(operation, "submitted", channel="reply")
    return late.fresh(deal), operation


def told(deal: Deal, *budgets: int) -> Any:
    for revision, budget in enumerate(budgets, start=2):
        says(deal, "pending_start", revision=revision, packages=packages(deal, budget=budget))
    return Approval.objects.filter(kind=DIFFERENT, status="open")


def test_a_refused_deal_is_not_asked_about_while_its_cancellation_is_with_the_seller() -> None:
    deal, _ = refused()
    asked = told(deal, 13_000, 12_000)
    assert (asked.exists(), late.fresh(deal).differs) == (False, True)


def test_a_refused_deal_is_asked_about_again_once_it_was_not_cancelled() -> None:
    deal, operation = refused()
    asked = told(deal, 13_000)
    late.say(operation, "rejected")
    assert asked.get().amount == 13_000
