"""A package that is to be bought outside of its media buy's flight, or without one of its own, is refused
wherever somebody says so: asked for, corrected, or answered."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from orders.ask import Ask, AskRefusedError
from orders.models import Deal
from orders.purchases import purchase_ask
from orders.services import deal_book
from tasks_app import clock
from tasks_app.operations.models import Operation
from tasks_app.operations.steered import SteeringRefusedError
from tests.factories import (
    approve_deal,
    make_account,
    make_advertiser,
    make_deal,
    make_line,
    make_seller,
    make_user,
)
from tests.orders.late import answered, fresh, paused
from tests.orders.refusing import correct, corrected, refused

pytestmark = pytest.mark.django_db
Package = dict[str, Any]
_BUY = {"product_id": "p", "pricing_option_id": "o", "budget": 1500}

# A flight of 28 days; a package's own days, and what is said of it.
OUTSIDE: dict[str, tuple[dict[str, int], str]] = {
    "before it": ({"start_time": -1}, "would not run within the media buy's flight"),
    "after it": ({"end_time": 29}, "would not run within the media buy's flight"),
    "around it": ({"start_time": -1, "end_time": 29}, "would not run within the media buy's flight"),
    "begins when it is over": ({"start_time": 28}, "ends before it starts"),
    "ends before it begins": ({"end_time": 0}, "ends before it starts"),
    "turned round": ({"start_time": 9, "end_time": 8}, "ends before it starts"),
}
INSIDE: dict[str, dict[str, int]] = {
    "no dates": {},
    "its very own": {"start_time": 0, "end_time": 28},
    "within": {"start_time": 2, "end_time": 20},
    "begins later": {"start_time": 27},
    "ends sooner": {"end_time": 1},
}


def _flight() -> tuple[datetime, datetime]:
    start = clock.now().replace(microsecond=0) + timedelta(days=10)
    return start, start + timedelta(days=28)


def _dated(start: datetime, days: dict[str, int]) -> dict[str, str]:
    return {name: (start + timedelta(days=day)).isoformat() for name, day in days.items()}


def _asked(days: dict[str, int]) -> Operation:
    advertiser, seller = make_advertiser(), make_seller()
    make_account(advertiser, seller)
    start, end = _flight()
    arguments = {
        "brand": {"domain": advertiser.brand_domain},
        "start_time": start.isoformat(),
        "end_time": end.isoformat(),
        "total_budget": {"amount": 3000, "currency": "USD"},
        "packages": [_BUY, {**_BUY, "product_id": "q", **_dated(start, days)}],
    }
    user = make_user("Integration")
    return purchase_ask(Ask(user=user, task="create_media_buy", seller=seller, arguments=arguments))


def _corrected(days: dict[str, int]) -> Operation:
    start, end = _flight()
    _, lost = refused(start_at=start, end_at=end)
    (package,) = corrected(lost)["packages"]
    return correct(lost, packages=[{**package, **_dated(start, days)}])


def _answered(days: dict[str, int]) -> Operation:
    start, end = _flight()
    deal = make_deal(make_line(budget=Decimal(10_000)), start_at=start, end_at=end)
    approve_deal(deal)
    operation = paused(deal_book(deal=fresh(deal)))
    (package,) = operation.request["packages"]
    answered(operation, packages=[{**package, "budget": 9_000, **_dated(start, days)}])
    return operation


DOORS: dict[str, Callable[[dict[str, int]], Operation]] = {
    "asked for": _asked,
    "corrected": _corrected,
    "answered": _answered,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", OUTSIDE)
def test_a_package_outside_of_its_media_buys_flight_is_refused(case: str, door: str) -> None:
    days, said = OUTSIDE[case]
    with pytest.raises((AskRefusedError, SteeringRefusedError), match=said):
        DOORS[door](days)
    assert not Deal.objects.filter(status="quoted").exists()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", INSIDE)
def test_a_package_inside_is_asked_about(case: str, door: str) -> None:
    assert DOORS[door](INSIDE[case]).pk is not None


def test_a_shorter_flight_leaves_no_package_behind() -> None:
    """An answer that moves the media buy alone."""
    start, end = _flight()
    deal = make_deal(make_line(budget=Decimal(10_000)), start_at=start, end_at=end)
    approve_deal(deal)
    operation = paused(deal_book(deal=fresh(deal)))
    (package,) = operation.request["packages"]
    own = [{**package, **_dated(start, {"start_time": 7, "end_time": 14})}]
    with pytest.raises(SteeringRefusedError, match="would not run within the media buy's flight"):
        answered(operation, packages=own, **_dated(start, {"end_time": 10}))
