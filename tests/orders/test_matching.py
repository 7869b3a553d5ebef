"""Which package of a seller's is which line of ours, and what it confirms. Without a database, so that a
mutation tester can try it many times over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from orders.confirmation import (
    differences,
    in_words,
    is_in_currency,
    mirror,
    packages_take,
    stated_at,
    unconfirm,
    values_unread,
)
from orders.matching import Matched, packages_match, packages_of
from orders.models import Deal, DealLine
from tasks_app import clock

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
START, END = datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
LATER = END + timedelta(days=3)
BUDGET = Decimal(10000)


def line(position: int = 1, **fields: Any) -> DealLine:
    given: dict[str, Any] = {
        "position": position,
        "product_id": "prod",
        "product_name": "Bumper",
        "pricing_option_id": "cpm",
        "budget": BUDGET,
        "rate": Decimal(12),
        "start_at": START,
        "end_at": END,
        "targeting": {"geo_countries": ["US"]},
        **fields,
    }
    return DealLine(**given)


def package(**fields: Any) -> dict[str, Any]:
    return {
        "product_id": "prod",
        "pricing_option_id": "cpm",
        "budget": 10000,
        "start_time": START.isoformat(),
        "end_time": END.isoformat(),
        **fields,
    }


def paired(lines: list[DealLine], packages: list[dict[str, Any]]) -> dict[int, str]:
    """Line's position to the name of its package; every line and every package is somewhere, once."""
    found = packages_match(lines, packages)
    names = [one["name"] for one in packages]
    assert sorted([p["name"] for _, p in found.pairs] + [p["name"] for p in found.packages]) == sorted(names)
    positions = [one.position for one, _ in found.pairs] + [one.position for one in found.lines]
    assert sorted(positions) == [one.position for one in lines]
    return {one.position: told["name"] for one, told in found.pairs}


def context(one: DealLine) -> dict[str, Any]:
    return {"context": {"line_id": str(one.pk)}}


def test_our_own_context_comes_first_then_the_sellers_id_then_the_likest() -> None:
    first, second, third = line(1), line(2, package_id="pkg-2"), line(3, product_id="other")
    told = [
        package(name="likest", product_id="other"),
        package(name="id", package_id="pkg-2", product_id="something else"),
        package(name="ours", product_id="nothing like it", budget=1, package_id="pkg-2", **context(first)),
    ]
    assert paired([first, second, third], told) == {1: "ours", 2: "id", 3: "likest"}


@pytest.mark.parametrize("odd", [None, "x", [], {}, {"line_id": None}, {"line_id": "another"}])
def test_a_context_that_is_not_ours_names_nothing(odd: Any) -> None:
    assert paired([line()], [package(name="of another product", product_id="other", context=odd)]) == {}


def test_an_id_that_the_seller_never_gave_names_nothing() -> None:
    assert paired([line(package_id="")], [package(name="x", product_id="other", package_id="")]) == {}


def test_one_package_confirms_one_line_and_the_rest_is_left_over() -> None:
    one, two = line(1), line(2)
    assert paired([one, two], [package(name="a", **context(one))]) == {1: "a"}
    assert paired([one], [package(name="a", **context(one)), package(name="b", **context(one))]) == {1: "a"}
    assert packages_match([one, two], []) == Matched(pairs=(), lines=(one, two), packages=())


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        ({"product_id": None}, {}),
        ({"pricing_option_id": "flat"}, {"budget": 9}),
        ({"budget": 9}, {"start_time": None, "end_time": None}),
        ({"start_time": None}, {}),
        ({"end_time": LATER.isoformat()}, {}),
        ({"start_time": None, "end_time": None}, {"end_time": None}),
    ],
    ids=["product", "option", "amount", "start", "end", "one-date-beats-none"],
)
@pytest.mark.parametrize("order", [1, -1], ids=["worse-first", "better-first"])
def test_the_likest_is_taken_by_product_option_amount_and_dates(
    worse: dict[str, Any], better: dict[str, Any], order: int
) -> None:
    told = [package(name="worse", **worse), package(name="better", **better)][::order]
    assert paired([line()], told) == {1: "better"}


@pytest.mark.parametrize("unsaid", ["absent", "null"])
def test_an_option_that_is_not_named_is_ours_and_among_equals_the_first_is_taken(unsaid: str) -> None:
    unnamed = package(name="unnamed", pricing_option_id=None)
    if unsaid == "absent":
        del unnamed["pricing_option_id"]
    assert paired([line()], [package(name="another", pricing_option_id="flat"), unnamed]) == {1: "unnamed"}
    assert paired([line(1), line(2)], [package(name="a"), package(name="b")]) == {1: "a", 2: "b"}
    assert paired([line()], [package(name="of no named product", product_id=None)]) == {
        1: "of no named product"
    }


def test_all_pairs_are_weighed_at_once() -> None:
    """What is likest to the second line is not taken by the first that it also fits."""
    lines = [line(1, budget=Decimal(500)), line(2, budget=Decimal(700))]
    told = [package(name="seven", budget=700), package(name="five", budget=500)]
    assert paired(lines, told) == {1: "five", 2: "seven"}


@pytest.mark.parametrize("told", [None, "none", {"a": 1}, 3, []])
def test_packages_in_no_known_form_are_none(told: Any) -> None:
    assert packages_of({"packages": told}) == []


def test_of_a_list_the_objects_are_packages() -> None:
    assert packages_of({"packages": [{"a": 1}, "x", None, {"b": 2}]}) == [{"a": 1}, {"b": 2}]
    assert packages_of({}) == []


def taken(told: dict[str, Any], *, whole: bool = True, buy: dict[str, Any] | None = None) -> DealLine:
    """A line after this one package of its media buy was taken for it."""
    one = line()
    packages_take(Deal(currency="USD"), {"packages": [told], **(buy or {})}, _of(one, told), whole=whole)
    return one


def _of(one: DealLine, told: dict[str, Any]) -> Matched:
    return Matched(pairs=((one, told),), lines=(), packages=())


def test_what_a_package_states_stands_beside_what_was_approved() -> None:
    found = taken(package(package_id="p" * 300, budget="9000", bid_price=13.5, targeting_overlay={"a": 1}))
    assert (found.package_id, found.confirmed_budget, found.confirmed_rate) == (
        "p" * 255,
        9000,
        Decimal("13.5"),
    )
    assert (found.confirmed_start_at, found.confirmed_end_at) == (START, END)
    assert found.confirmed_targeting == {"a": 1}
    assert (found.budget, found.rate) == (BUDGET, 12)


@pytest.mark.parametrize(
    ("told", "buy"),
    [({"currency": "EUR"}, {}), ({}, {"currency": "EUR"}), ({"budget": "a lot", "bid_price": "much"}, {})],
    ids=["its-own-currency", "the-buys-currency", "unreadable"],
)
def test_amounts_of_another_currency_confirm_nothing(told: dict[str, Any], buy: dict[str, Any]) -> None:
    found = taken(
        package(bid_price=13, package_id=["7"], **told) if "bid_price" not in told else package(**told),
        buy=buy,
    )
    assert (found.confirmed_budget, found.confirmed_rate, found.package_id) == (None, None, "")
    assert found.confirmed_end_at == END


def test_amounts_in_the_deals_own_currency_are_taken() -> None:
    assert taken(package(currency="USD"), buy={"currency": "USD"}).confirmed_budget == BUDGET
    assert is_in_currency(Deal(currency="USD"), {"currency": None})
    assert not is_in_currency(Deal(currency="USD"), {"currency": "usd"})


@pytest.mark.parametrize(
    ("told", "budget"), [(True, 0), (False, 10000), ("true", 0), ("soon", 10000), (None, 10000)]
)
def test_a_package_that_is_cancelled_counts_nothing(told: Any, budget: int) -> None:
    assert taken(package(canceled=told)).confirmed_budget == budget
    assert taken(package(canceled=True), buy={"currency": "EUR"}).confirmed_budget == 0


def test_what_a_later_package_does_not_state_stays() -> None:
    one = line(confirmed_rate=Decimal(9), confirmed_start_at=LATER, confirmed_end_at=LATER, package_id="p")
    one.confirmed_budget = Decimal(7)
    told = {"start_time": "asap", "end_time": None}
    packages_take(Deal(currency="USD"), {"packages": [told]}, _of(one, told), whole=True)
    assert (one.confirmed_rate, one.confirmed_start_at, one.confirmed_end_at) == (9, LATER, LATER)
    assert (one.package_id, one.confirmed_budget, one.confirmed_targeting) == ("p", 7, None)


@pytest.mark.parametrize(
    ("before", "told", "whole", "after"),
    [
        ({"a": 1}, None, True, {}),
        ({"a": 1}, None, False, {"a": 1}),
        (None, None, True, None),
        ({"a": 1}, "unreadable", True, {"as stated": "unreadable"}),
        ({"a": 1}, [], False, {}),
        ({"a": 1}, {"b": 2}, False, {"b": 2}),
    ],
    ids=["dropped", "brief-answer", "never-named", "unreadable", "empty", "another"],
)
def test_targeting_that_a_seller_stops_naming_is_gone(
    before: Any, told: Any, whole: bool, after: Any
) -> None:
    one, stated = line(confirmed_targeting=before), package(targeting_overlay=told)
    packages_take(Deal(currency="USD"), {"packages": [stated]}, _of(one, stated), whole=whole)
    assert one.confirmed_targeting == after


@pytest.mark.parametrize(
    ("whole", "packages", "confirmed"),
    [(True, [{"package_id": "x"}], 0), (False, [{"package_id": "x"}], None), (True, [], None)],
    ids=["whole", "an-answer", "no-packages"],
)
def test_a_line_without_a_package_comes_to_nothing_in_a_whole_record(
    whole: bool, packages: list[dict[str, Any]], confirmed: int | None
) -> None:
    one = line()
    left = Matched(pairs=(), lines=(one,), packages=())
    packages_take(Deal(currency="USD"), {"packages": packages}, left, whole=whole)
    assert one.confirmed_budget == confirmed


def test_a_line_is_unconfirmed_whole() -> None:
    one = taken(package(package_id="p", bid_price=1, targeting_overlay={"a": 1}))
    unconfirm(one)
    assert one.package_id == ""
    names = ("budget", "rate", "start_at", "end_at", "targeting")
    assert {getattr(one, f"confirmed_{name}") for name in names} == {None}


def test_as_approved_nothing_differs_and_each_departure_is_named() -> None:
    same = line(confirmed_budget=Decimal("10000.00"), confirmed_rate=Decimal(12), confirmed_start_at=START)
    same.confirmed_end_at, same.confirmed_targeting = END, {"geo_countries": ["US"], "axe": "more"}
    assert differences(Deal(), [same, line()]) == []
    other = line(
        2,
        confirmed_budget=Decimal(0),
        confirmed_rate=Decimal("12.50"),
        confirmed_start_at=LATER,
        confirmed_end_at=LATER,
        confirmed_targeting={},
    )
    found = differences(Deal(), [same, other])
    shown = {"line": 2, "product": "Bumper"}
    assert found == [
        {**shown, "field": "budget", "approved": "10000", "confirmed": "0"},
        {**shown, "field": "start", "approved": START.isoformat(), "confirmed": LATER.isoformat()},
        {**shown, "field": "end", "approved": END.isoformat(), "confirmed": LATER.isoformat()},
        {**shown, "field": "rate", "approved": "12", "confirmed": "12.5"},
        {**shown, "field": "targeting", "approved": {"geo_countries": ["US"]}, "confirmed": {}},
    ]
    assert in_words(Decimal("10000.0")) == "10000"


_ZONES = [{"system": "us_zip", "values": ["10001", "94105"]}, {"system": "gb_outward", "values": ["SW1"]}]


@pytest.mark.parametrize(
    ("told", "differ"),
    [
        ([_ZONES[1], {"values": ["94105", "10001"], "system": "us_zip"}], False),
        ([_ZONES[0]], True),
        ([_ZONES[1], {**_ZONES[0], "values": ["10001", "10001"]}], True),
        ([*_ZONES, _ZONES[0]], True),
    ],
    ids=["in another order", "one left out", "one twice for two", "one twice"],
)
def test_lists_of_targeting_have_no_order(told: list[Any], differ: bool) -> None:
    one = line(targeting={"geo_postal_areas": _ZONES}, confirmed_targeting={"geo_postal_areas": told})
    assert bool(differences(Deal(), [one])) is differ


_PLACE = [{"geometry": {"type": "Polygon", "coordinates": [[[10.7, 59.9], [11.0, 60.1], [10.7, 59.9]]]}}]


def test_coordinates_have_an_order() -> None:
    swapped = [{"geometry": {"type": "Polygon", "coordinates": [[[59.9, 10.7], [60.1, 11.0], [59.9, 10.7]]]}}]
    for told, differ in ((_PLACE, False), (swapped, True)):
        one = line(targeting={"geo_proximity": _PLACE}, confirmed_targeting={"geo_proximity": told})
        assert bool(differences(Deal(), [one])) is differ


@pytest.mark.parametrize(
    ("wanted", "told", "differ"),
    [
        (3, 3, False),
        (3, 3.0, False),
        (3, "3", True),
        (1, True, True),
        (3, None, True),
        (10**29 + 1, 10**29 + 2, True),
        ([], None, False),
        ({}, [], False),
        (["US"], [], True),
    ],
)
def test_values_of_targeting_are_compared_by_what_they_mean(wanted: Any, told: Any, differ: bool) -> None:
    one = line(targeting={"of": wanted}, confirmed_targeting={"of": told})
    assert bool(differences(Deal(), [one])) is differ


def test_targeting_approved_as_none_differs_in_nothing() -> None:
    assert differences(Deal(), [line(targeting=None, confirmed_targeting={"a": 1})]) == []


def told(buy: dict[str, Any], asked_at: datetime | None = None) -> dict[str, Any]:
    with clock.injected(lambda: NOW):
        return mirror(buy, asked_at=asked_at)


def test_the_mirror_takes_what_is_told_within_its_columns() -> None:
    stated = {
        "media_buy_id": "i" * 255,
        "media_buy_status": "active",
        "status": "completed",
        "revision": 2**31 - 1,
        "valid_actions": ["pause", 3, "cancel"],
        "confirmed_at": START.isoformat(),
        "creative_deadline": END.isoformat(),
        "status_as_of": NOW.isoformat(),
    }
    assert told(stated, LATER) == {
        "as_of": NOW,
        "media_buy_id": "i" * 255,
        "media_buy_status": "active",
        "revision": 2**31 - 1,
        "valid_actions": ["pause", "cancel"],
        "confirmed_at": START,
        "creative_deadline": END,
    }
    assert told({"media_buy_id": "1"})["media_buy_id"] == "1"
    assert told({"media_buy_id": 7})["media_buy_id"] == "7"
    assert told({"status": "y" * 300, "revision": 0}) == {
        "as_of": NOW,
        "media_buy_status": "y" * 40,
        "revision": 0,
    }


@pytest.mark.parametrize(
    "odd",
    [
        *({"media_buy_id": ""}, {"media_buy_id": "i" * 256}, {"media_buy_id": ["7"]}, {"media_buy_id": None}),
        *({"revision": -1}, {"revision": 2**31}, {"revision": True}, {"revision": 1.0}, {"revision": "1"}),
        *({"valid_actions": "pause"}, {"status": 7}, {"creative_deadline": "soon"}, {"confirmed_at": 1}),
    ],
    ids=[
        *(
            "no-id",
            "long-id",
            "list-as-id",
            "null-id",
            "negative",
            "too-large",
            "truth",
            "fraction",
            "text",
        ),
        *("actions", "status", "deadline", "confirmed"),
    ],
)
def test_what_the_columns_do_not_hold_is_no_value(odd: dict[str, Any]) -> None:
    assert told(odd, LATER) == {"as_of": LATER}


@pytest.mark.parametrize(
    ("ahead", "believed"),
    [(timedelta(minutes=5), True), (timedelta(minutes=5, seconds=1), False), (-timedelta(days=9), True)],
    ids=["five-minutes", "more", "long-ago"],
)
def test_a_clock_that_is_ahead_is_not_believed(ahead: timedelta, believed: bool) -> None:
    with clock.injected(lambda: NOW):
        assert stated_at({"status_as_of": (NOW + ahead).isoformat()}) == (NOW + ahead if believed else None)


def test_moments_that_nobody_can_read_stay_until_one_can() -> None:
    known = {"creative_deadline": "soon", "confirmed_at": "then"}
    assert values_unread(known, {}) == known
    assert values_unread(known, {"creative_deadline": END.isoformat(), "status_as_of": 3}) == {
        "confirmed_at": "then",
        "status_as_of": "3",
    }
    assert values_unread({}, {"creative_deadline": None, "start_time": "x"}) == {}
    assert values_unread({}, {"confirmed_at": "yesterday"}) == {"confirmed_at": "yesterday"}
