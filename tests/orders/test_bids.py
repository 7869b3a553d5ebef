"""A bid stands only where there is no fixed price, however a purchase comes to be asked for once more."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from orders.models import Deal, DealLine
from orders.services import deal_book
from tasks_app.operations.models import Operation
from tasks_app.operations.steered import SteeringRefusedError
from tests.factories import approve_deal, make_deal, make_line
from tests.orders.late import answered, bought, decide, fresh, paused, say
from tests.orders.live import packages, says
from tests.orders.refusing import correct, corrected, refused
from tests.orders.test_answering import leaves

pytestmark = pytest.mark.django_db
# How its one line was put to people, and whether a bid may be added to it.
SOLD: dict[str, tuple[dict[str, Any], bool]] = {
    "at a fixed price": ({"is_fixed": True, "rate": Decimal("14.20")}, False),
    "by bids": ({"is_fixed": False, "rate": Decimal("14.20")}, True),
    "at a price that nobody told": ({"is_fixed": True, "rate": None}, True),
}


def _corrected(sold: dict[str, Any]) -> Operation:
    lost, operation = refused()
    lost.lines.update(**sold)
    return correct(operation, packages=_with_bid(corrected(operation)["packages"]))


def _answered(sold: dict[str, Any]) -> Operation:
    deal = make_deal(make_line(**sold))
    approve_deal(deal)
    operation = paused(deal_book(deal=fresh(deal)))
    answered(operation, packages=_with_bid(operation.request["packages"]))
    return operation


def _with_bid(packages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**packages[0], "bid_price": 99.0}]


WAYS: dict[str, Callable[[dict[str, Any]], Operation]] = {"corrected": _corrected, "answered": _answered}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sold", SOLD)
def test_a_bid_is_refused_where_the_price_is_fixed_alone(sold: str, way: str) -> None:
    line, is_free = SOLD[sold]
    if is_free:
        assert WAYS[way](line).pk
        return
    with pytest.raises(SteeringRefusedError, match="its price is fixed: leave bid_price out"):
        WAYS[way](line)
    assert Deal.objects.count() == 1


@pytest.mark.parametrize("sold", [sold for sold, (_, is_free) in SOLD.items() if is_free])
def test_what_is_bid_for_has_no_fixed_price(sold: str) -> None:
    new = _corrected(SOLD[sold][0])
    line = DealLine.objects.get(deal=new.subject_id)
    assert (line.is_fixed, line.rate) == (False, 99)
    assert new.request["packages"][0]["bid_price"] == 99


@pytest.mark.parametrize("named", [True, False], ids=["named", "not named"])
@pytest.mark.parametrize("bid", [99.0, 9.0], ids=["more", "less"])
def test_a_bid_that_people_let_go_in_an_answer_counts_whether_or_not_it_is_confirmed(
    bid: float, named: bool
) -> None:
    deal = make_deal(make_line(**SOLD["by bids"][0]))
    approve_deal(deal)
    operation = paused(deal_book(deal=fresh(deal)))
    answered(operation, packages=[{**operation.request["packages"][0], "bid_price": bid}])
    decide("answer", "approve")
    assert len(leaves()) == 1
    told = {"bid_price": bid} if named else {}
    say(operation, "completed", bought(fresh(deal), **told), channel="reply")
    deal = fresh(deal)
    assert (deal.status, deal.differences) == ("booked", [])

    says(deal, "pending_start", revision=2, packages=packages(deal))
    assert fresh(deal).differences == [], "nothing is said of it"
    says(deal, "pending_start", revision=3, packages=packages(deal, bid_price=bid))
    assert fresh(deal).differences == [], "as people let it go"
    says(deal, "pending_start", revision=4, packages=packages(deal, bid_price=bid + 1))
    (found,) = fresh(deal).differences
    assert (found["field"], Decimal(found["approved"]), Decimal(found["confirmed"])) == ("rate", bid, bid + 1)
