"""Terms of a media buy: packages are paired, a record is read, differences are found. Without a database."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orders.models import DealLine
from orders.terms.compare import differences
from orders.terms.matching import match_packages, packages_of
from orders.terms.stated import stated_terms
from orders.terms.terms import approved_terms
from tests.orders.rows import END, deal, line, package

Record = dict[str, Any]
LATER = END + timedelta(days=3)


def paired(lines: list[DealLine], packages: list[Record]) -> dict[int, str]:
    """The name of the package of each line, by position."""
    found = match_packages(lines, packages)
    assert len(found.pairs) + len(found.lines) == len(lines)
    assert len(found.pairs) + len(found.packages) == len(packages)
    return {one.position: stated["name"] for one, stated in found.pairs}


def test_packages_are_paired_by_context_then_id_then_product_and_option() -> None:
    first, second, third = line(1), line(2, package_id="pkg-2"), line(3, product_id="other")
    stated = [
        package(name="product", product_id="other"),
        package(name="id", package_id="pkg-2", product_id="something else"),
        package(name="context", product_id="else", context={"line_id": str(first.pk)}, package_id="pkg-2"),
    ]
    assert paired([first, second, third], stated) == {1: "context", 2: "id", 3: "product"}


def test_a_product_or_option_that_is_not_stated_fits_any_line() -> None:
    for unstated in ({"pricing_option_id": None}, {"product_id": None}, dict.fromkeys(package())):
        assert paired([line()], [package(name="fits", **unstated)]) == {1: "fits"}
    for other in ({"pricing_option_id": "flat"}, {"product_id": "other", "pricing_option_id": None}):
        assert paired([line()], [package(name="other", **other)]) == {}


@pytest.mark.parametrize("stated", [None, "none", {"a": 1}, [None, 7, "x"], [{}] * 1_001])
def test_packages_in_no_known_form_are_not_read(stated: Any) -> None:
    assert packages_of({"packages": stated}) == []


def found(lines: list[DealLine], *, whole: bool = True, **buy: Any) -> list[Record]:
    whole_deal = deal(*lines)
    stated = stated_terms(whole_deal, lines, buy, whole=whole)
    return differences(approved_terms(whole_deal, lines), stated)


def fields(lines: list[DealLine], **buy: Any) -> list[tuple[int, str, Any]]:
    return [(one["line"], one["field"], one["confirmed"]) for one in found(lines, **buy)]


def test_each_term_that_is_stated_otherwise_is_a_difference() -> None:
    two = [line(1), line(2, product_id="b")]
    assert fields(two, packages=[package(), package(product_id="b")], total_budget=20000) == []
    named = {"context": {"line_id": str(two[0].pk)}}
    for told, expected in (
        ({"product_id": "c"}, ("product_id", "c")),
        ({"pricing_option_id": "flat"}, ("pricing_option_id", "flat")),
        ({"budget": 9000.5}, ("budget", "9000.5")),
        ({"bid_price": 13}, ("rate", "13")),
        ({"start_time": LATER.isoformat()}, ("start", LATER.isoformat())),
        ({"end_time": LATER.isoformat()}, ("end", LATER.isoformat())),
        ({"targeting_overlay": {"geo_countries": ["CA"]}}, ("targeting", {"geo_countries": ["CA"]})),
        ({"paused": True}, ("paused", "yes")),
        ({"canceled": True, "budget": 0}, ("canceled", "yes")),
    ):
        assert fields(two, packages=[package(**named, **told), package(product_id="b")]) == [(1, *expected)]


def test_what_is_left_over_on_either_side_is_a_difference() -> None:
    two = [line(1), line(2, product_id="b")]
    assert fields(two, packages=[package()]) == [(2, "canceled", "yes")]
    assert fields(two, packages=[]) == [(1, "canceled", "yes"), (2, "canceled", "yes")]
    assert fields(two, packages=[package()], whole=False) == [], "an answer names what changed"
    (extra,) = found(two[:1], packages=[package(), package(product_id="x", package_id="p-9", budget=7)])
    assert (extra["field"], extra["product"], extra["confirmed"]) == ("package", "p-9", "7")
    assert extra["package"] | {"product_id": "x", "budget": "7"} == extra["package"]


@pytest.mark.parametrize(
    ("told", "buy"),
    [
        ({"budget": "a lot"}, {}),
        ({"budget": 9, "currency": "EUR"}, {}),
        ({"budget": 9}, {"currency": "EUR"}),
        ({"canceled": "maybe"}, {}),
        ({"paused": "maybe"}, {}),
        ({"start_time": "soon"}, {}),
        ({}, {"total_budget": -1}),
        ({}, {"end_time": "soon"}),
    ],
)
def test_what_cannot_be_read_is_a_difference_as_stated(told: Record, buy: Record) -> None:
    lines = [line()]
    assert all(one["unreadable"] for one in found(lines, packages=[package(**told)], **buy))
    assert found(lines, packages=[package(**told)], **buy)


def unpriced(**told: Any) -> Record:
    return {name: value for name, value in package(**told).items() if name != "budget"}


def test_a_total_is_shared_out_among_packages_without_a_budget() -> None:
    two = [line(1, budget=Decimal(10000)), line(2, product_id="b", budget=Decimal(20000))]
    stated = [unpriced(), unpriced(product_id="b")]
    assert fields(two, packages=stated) == []
    assert fields(two, packages=stated, total_budget=30000) == []
    assert fields(two, total_budget=36000) == [(1, "budget", "12000"), (2, "budget", "24000")]
    assert fields(two, packages=[package(budget=9000), stated[1]], total_budget=29000) == [
        (1, "budget", "9000")
    ]


def test_what_a_total_states_beyond_its_packages_is_a_package_by_itself() -> None:
    one = [line()]
    assert fields(one, packages=[package()], total_budget=10500) == [(0, "package", "500")]
    rest = line(2, product_id="", budget=Decimal(500))
    assert fields([*one, rest], packages=[package()], total_budget=10500) == []
    assert fields([*one, rest], packages=[package()], total_budget=10000) == [(2, "budget", "0")]


@given(
    approved=st.lists(st.integers(1, 10**9), min_size=1, max_size=5),
    total=st.integers(0, 10**10),
    is_named=st.booleans(),
)
def test_shares_of_a_total_add_up_to_it(approved: list[int], total: int, is_named: bool) -> None:
    lines = [line(n, product_id=f"p{n}", budget=Decimal(cents) / 100) for n, cents in enumerate(approved, 1)]
    named = {"packages": [unpriced(product_id=one.product_id) for one in lines]} if is_named else {}
    buy = {"total_budget": total / 100, **named}
    stated = stated_terms(deal(*lines), lines, buy, whole=True)
    budgets = [one.budget for one in stated.packages]
    assert sum(budget for budget in budgets if isinstance(budget, Decimal)) == Decimal(total) / 100


def test_terms_that_an_open_change_asks_for_are_no_difference() -> None:
    now, after = [line()], [line(budget=Decimal(12000))]
    whole = deal(*now)
    for budget, expected in ((10000, 0), (12000, 0), (11000, 1)):
        stated = stated_terms(whole, now, {"packages": [package(budget=budget)]}, whole=True)
        asked = [approved_terms(whole, after)]
        assert len(differences(approved_terms(whole, now), stated, asked=asked)) == expected


@pytest.mark.parametrize(
    ("buy", "paused"),
    [
        ({"status": "paused"}, True),
        ({"status": "active"}, False),
        ({"status": "pending_start"}, None),
        ({"status": "pending_start", "paused": True}, True),
        ({"status": "completed"}, None),
        ({"status": "active", "packages": [package(paused="yes")]}, True),
    ],
)
def test_a_package_is_paused_by_itself_or_with_the_whole(buy: Record, paused: bool | None) -> None:
    lines = [line()]
    (stated,) = stated_terms(deal(*lines), lines, buy, whole=True).packages
    assert stated.paused is paused
