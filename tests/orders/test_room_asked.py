"""Whatever asks people for more money of a campaign than is left is refused in words, where it is asked for
and where they let it go; a reduction always has room."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest

from campaigns.rooms import room_for
from orders.ask import Ask, AskRefusedError
from orders.changes.send import change_ask
from orders.models import Deal
from orders.services import deal_book
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.steered import SteeringRefusedError
from tests.factories import approve_deal, make_deal, make_line, make_seller, make_user
from tests.orders.asking import booked
from tests.orders.late import decide, fresh, say
from tests.orders.live import booked as live
from tests.orders.refusing import correct, corrected, refuse, refused
from tests.orders.test_amounts import campaign_of

pytestmark = pytest.mark.django_db
BUDGET = 20_000


def of_campaign(deal: Deal) -> Deal:
    Deal.objects.filter(pk=deal.pk).update(campaign_id=campaign_of(BUDGET).pk)
    return fresh(deal)


def beside(deal: Deal, budget: int) -> Deal:
    """Another deal of the same campaign, approved."""
    other = make_deal(make_line(budget=Decimal(budget)), seller=make_seller("Another"))
    approve_deal(other)
    Deal.objects.filter(pk=other.pk).update(campaign_id=deal.campaign_id)
    return other


def bought(line_budget: int = 10_000) -> Deal:
    return of_campaign(live(line=make_line(budget=Decimal(line_budget))))


def change(deal: Deal, budget: int) -> Operation:
    package = {"package_id": deal.lines.get().package_id, "budget": budget}
    arguments = {"media_buy_id": deal.media_buy_id, "packages": [package]}
    user = make_user("Integration")
    return change_ask(Ask(user=user, task="update_media_buy", seller=deal.seller, arguments=arguments))


def left_beside(deal: Deal) -> Decimal:
    room = room_for(Deal(campaign_id=deal.campaign_id, currency=deal.currency))
    assert room is not None
    return room.left


class Purchase:
    """A corrected purchase, in the place of one of 10,000 that came to nothing."""

    kind = "deal"

    def __init__(self) -> None:
        lost, self.lost = refused()
        self.deal = of_campaign(lost)

    def ask(self, budget: int) -> Operation:
        return correct(self.lost, **corrected(self.lost, budget))


class Change:
    """A change of a booked deal of 10,000."""

    kind = "deal_change"

    def __init__(self) -> None:
        self.deal = bought()

    def ask(self, budget: int) -> Operation:
        return change(self.deal, budget)


class CorrectedChange(Change):
    """A change that its seller refused, corrected."""

    def ask(self, budget: int) -> Operation:
        operation = change(self.deal, 11_000)
        decide("deal_change", "approve")
        operation.refresh_from_db()
        operation = refuse(operation)
        return correct(operation, **corrected(operation, budget))


ASKS: dict[str, Callable[[], Purchase | Change]] = {
    "a corrected purchase": Purchase,
    "a change": Change,
    "a corrected change": CorrectedChange,
}


@pytest.mark.parametrize("what", ASKS)
def test_more_than_is_left_is_refused_where_it_is_asked_for(what: str) -> None:
    asks = ASKS[what]()
    with pytest.raises((SteeringRefusedError, AskRefusedError), match="are left in CMP-2026-900009"):
        asks.ask(BUDGET + 1)
    assert not Approval.objects.filter(status="open").exists()


@pytest.mark.parametrize("what", ASKS)
def test_all_that_is_left_can_be_asked_for_and_let_go(what: str) -> None:
    asks = ASKS[what]()
    beside(asks.deal, 5_000)
    operation = asks.ask(BUDGET - 5_000)
    decide(asks.kind, "approve")
    if asks.kind == "deal":
        operation = deal_book(deal=fresh(Deal.objects.get(pk=operation.subject_id)))
    assert claim_one(operation_id=operation.pk) is not None


@pytest.mark.parametrize("what", ASKS)
def test_what_lost_its_room_meanwhile_is_not_let_go(what: str) -> None:
    asks = ASKS[what]()
    operation = asks.ask(BUDGET)
    beside(asks.deal, 5_000)
    with pytest.raises(DecisionRefusedError, match="are left in CMP-2026-900009"):
        decide(asks.kind, "approve")
    operation.refresh_from_db()
    assert operation.send_at is None
    decide(asks.kind, "reject")


def test_a_reduction_has_room_whatever_is_left() -> None:
    deal = bought()
    beside(deal, BUDGET)
    operation = change(deal, 9_000)
    decide("deal_change", "approve")
    assert claim_one(operation_id=operation.pk) is not None


def test_dates_alone_ask_for_no_room() -> None:
    deal = bought()
    beside(deal, BUDGET)
    end = (deal.end_at + timedelta(days=2)).isoformat()
    arguments = {"media_buy_id": deal.media_buy_id, "end_time": end}
    user = make_user("Integration")
    change_ask(Ask(user=user, task="update_media_buy", seller=deal.seller, arguments=arguments))
    decide("deal_change", "approve")


def test_what_the_seller_took_away_is_kept_for_the_deal_until_that_is_accepted() -> None:
    """Approved for 12,000 and booked for 5,000: people may ask the seller for the rest."""
    deal, _ = booked(make_user("Buyer"), budget=5_000.0)
    deal = of_campaign(deal)
    assert left_beside(deal) == BUDGET - deal.lines.get().budget
    decide("booked_differently", "approve")
    assert left_beside(deal) == BUDGET - 5_000


@pytest.mark.parametrize(("budget", "left"), [(15_000, 5_000), (9_000, 10_000)])
def test_an_open_change_reserves_its_increase(budget: int, left: int) -> None:
    deal = bought()
    assert left_beside(deal) == 10_000
    operation = change(deal, budget)
    assert left_beside(deal) == left, "reserved from when it is asked for"
    decide("deal_change", "approve")
    assert left_beside(deal) == left
    claim_one(operation_id=operation.pk)
    say(operation, "rejected", channel="reply")
    assert left_beside(deal) == 10_000


def test_two_changes_of_one_campaign_do_not_share_what_is_left() -> None:
    deal = bought()
    other = live(line=make_line(budget=Decimal(5_000)), seller=make_seller("Another"))
    Deal.objects.filter(pk=other.pk).update(campaign_id=deal.campaign_id, media_buy_id="mb-other")
    change(deal, 15_000)
    decide("deal_change", "approve")
    with pytest.raises(AskRefusedError, match=r"more than the 5000\.00 that are left"):
        change(fresh(other), 5_001)
