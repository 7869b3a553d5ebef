"""What a seller states that departs from what was approved, and what the media buy comes to then. Without a
database, so that a mutation tester can try it many times over."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from orders.departures import MOST_NAMED, counted, departures_told, uncounted
from orders.models import Deal
from tasks_app import clock
from tasks_app.approvals.plain import shortened
from tests.orders.rows import BUDGET, END, START, deal, difference, line, package


def told(buy: dict[str, Any], **fields: Any) -> tuple[list[dict[str, Any]], Decimal | None]:
    """What is found of a whole record, and its gross, beside a deal of one line."""
    lines = fields.pop("lines", [line()])
    with clock.injected(lambda: START):
        found = departures_told(deal(*lines, **fields), buy)
    return found.found, found.gross


def one(buy: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The one departure of a record."""
    found, _ = told(buy, **fields)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    "buy",
    [
        {"packages": [package()]},
        {"packages": [package()], "total_budget": 10000, "currency": "USD"},
        {"packages": [package(budget=None)], "total_budget": 10000},
        {"packages": [package(start_time="asap", end_time="", bid_price=12, canceled=False)]},
        {"packages": [package(currency="USD")], "start_time": START.isoformat(), "end_time": None},
        {"packages": [package(product_id=None, pricing_option_id=None)]},
    ],
    ids=["amounts", "total", "total-alone", "no-dates", "stated-anew", "unnamed"],
)
def test_as_approved_nothing_departs(buy: dict[str, Any]) -> None:
    assert told(buy) == ([], BUDGET)


@pytest.mark.parametrize(
    ("buy", "found"),
    [
        ({"product_id": "other"}, difference("product_id", "prod", "other", of=1)),
        ({"pricing_option_id": "flat"}, difference("pricing_option_id", "cpm", "flat", of=1)),
        ({"budget": "a lot"}, difference("stated_budget", "10000", "a lot", of=1)),
        ({"currency": "EUR"}, difference("stated_budget", "10000", "EUR 10000", of=1)),
        ({"bid_price": "much"}, difference("stated_rate", "12", "much", of=1)),
        ({"canceled": "soon"}, difference("stated_canceled", "no", "soon", of=1)),
        ({"start_time": "soon"}, difference("stated_start", START.isoformat(), "soon", of=1)),
        ({"end_time": "later"}, difference("stated_end", END.isoformat(), "later", of=1)),
    ],
    ids=lambda value: next(iter(value)) if "field" not in value else value["field"],
)
def test_what_a_package_states_otherwise_departs(buy: dict[str, Any], found: dict[str, Any]) -> None:
    ours = line()
    stated = package(**buy, context={"line_id": str(ours.pk)})
    assert one({"packages": [stated]}, lines=[ours]) == found


@pytest.mark.parametrize(
    ("buy", "found"),
    [
        ({"currency": "EUR", "packages": []}, difference("currency", "USD", "EUR")),
        ({"start_time": "soon"}, difference("stated_start", START.isoformat(), "soon")),
        ({"end_time": "later"}, difference("stated_end", END.isoformat(), "later")),
        ({"total_budget": 9000}, difference("total_budget", "10000", "9000")),
        ({"total_budget": "a lot"}, difference("total_budget", "10000", "a lot")),
    ],
    ids=["currency", "start", "end", "total", "unreadable"],
)
def test_what_the_media_buy_states_otherwise_departs(buy: dict[str, Any], found: dict[str, Any]) -> None:
    assert one(buy) == found


def test_a_total_in_another_currency_is_shown_with_it_and_confirms_nothing() -> None:
    found, gross = told({"currency": "EUR", "total_budget": 10000})
    assert found == [
        difference("currency", "USD", "EUR"),
        difference("total_budget", "10000", "EUR 10000"),
    ]
    assert gross is None
    assert told({"currency": "EUR", "total_budget": 1}, confirmed_gross=Decimal(7))[1] == 7


@pytest.mark.parametrize(("status", "early"), [("completed", True), ("active", False)])
def test_a_flight_that_is_ahead_is_not_over(status: str, early: bool) -> None:
    ahead = deal(line(), start_at=END)
    with clock.injected(lambda: START):
        found = departures_told(ahead, {"media_buy_status": status, "total_budget": 10000}).found
    departs = difference("media_buy_status", "pending_start", "completed")
    assert found == ([departs] if early else [])


@pytest.mark.parametrize(
    ("extra", "shown", "gross"),
    [
        ({"budget": 500}, "500", 10500),
        ({"budget": "500.50", "currency": "USD"}, "500.5", Decimal("10500.5")),
        ({"budget": None}, "not stated", 10000),
        ({"budget": None, "canceled": True}, "0", 10000),
        ({"budget": 500, "canceled": True}, "0", 10000),
        ({"budget": 500, "currency": "EUR"}, "EUR 500", 10000),
        ({"budget": "a lot"}, "a lot", 10000),
    ],
    ids=[
        "amount",
        "stated-currency",
        "none",
        "cancelled-of-none",
        "cancelled",
        "another-currency",
        "unreadable",
    ],
)
def test_a_package_that_nobody_ordered_counts_what_it_states(
    extra: dict[str, Any], shown: str, gross: Any
) -> None:
    ours = line()
    context = {"context": {"line_id": str(ours.pk)}}
    buy = {"packages": [package(**context), package(**{"package_id": "x", "product_id": "y", **extra})]}
    found, comes_to = told(buy, lines=[ours])
    assert found == [difference("package", "nothing", shown, product="x")]
    assert comes_to == gross


@pytest.mark.parametrize(
    ("total", "unknown"), [({}, ["not stated"]), ({"total_budget": 10500}, [])], ids=["neither", "in-all"]
)
def test_what_states_no_amount_is_no_zero_unless_a_total_holds_it(
    total: dict[str, Any], unknown: list[str]
) -> None:
    ours = line()
    mine = package(context={"line_id": str(ours.pk)})
    extra = package(package_id="x", product_id="y", budget=None)
    found, _ = told({"packages": [mine, extra], **total}, lines=[ours])
    assert uncounted(found) == unknown


def test_packages_of_one_name_are_told_apart_the_largest_first() -> None:
    ours = line()
    mine = package(context={"line_id": str(ours.pk)})
    others = [package(product_id="y", budget=n) for n in (1, 3, 2)]
    found, gross = told({"packages": [mine, *others]}, lines=[ours])
    assert [(row["product"], row["confirmed"]) for row in found] == [
        ("y", "3"),
        ("y (2)", "2"),
        ("y (3)", "1"),
    ]
    assert gross == 10006
    nameless, _ = told({"packages": [mine, {"budget": 1}]}, lines=[ours])
    assert nameless[0]["product"] == "without a name"


def test_a_long_name_keeps_what_tells_it_apart() -> None:
    mine = line()
    others = [package(product_id="y", package_id="n" * 90, budget=n) for n in (1, 2)]
    found, _ = told({"packages": [package(context={"line_id": str(mine.pk)}), *others]}, lines=[mine])
    name = shortened("n" * 90, 70)
    assert [row["product"] for row in found] == [name, f"{name} (2)"]
    longer, _ = told({"packages": [package(product_id="y", package_id="n" * 91, budget=1)]}, lines=[])
    assert longer[0]["product"] not in (name, f"{name} (2)")


@pytest.mark.parametrize("unknown", [False, True], ids=["counted", "uncounted"])
def test_of_many_packages_that_nobody_ordered_the_rest_is_one_with_its_sum(unknown: bool) -> None:
    mine = line()
    others = [package(product_id="y", package_id=f"p{n:02}", budget=2) for n in range(MOST_NAMED + 1)]
    if unknown:
        others += [package(product_id="y", package_id=f"q{n:02}", budget="?") for n in range(MOST_NAMED)]
    mine_too = package(context={"line_id": str(mine.pk)})
    found, _ = told({"packages": [mine_too, *others]}, lines=[mine])
    assert len(found) == MOST_NAMED
    last = found[-1]
    if unknown:
        assert [row["confirmed"] for row in found[:-1]] == ["?"] * (MOST_NAMED - 1)
        assert last["confirmed"] == "102 and amounts that cannot be counted"
        assert (last["product"], last["many"]) == ("52 more", 52)
    else:
        assert (last["product"], last["confirmed"], last["many"]) == ("2 more", "4", 2)
    exactly, _ = told({"packages": [mine_too, *others[:MOST_NAMED]]}, lines=[mine])
    assert len(exactly) == MOST_NAMED
    assert not any("many" in row for row in exactly)


@pytest.mark.parametrize(
    ("packages", "total", "departs", "gross"),
    [
        ([package()], 10000, None, 10000),
        ([package()], 12000, ("10000", "12000"), 12000),
        ([package()], 9000, ("10000", "9000"), 10000),
        ([package(canceled=True)], 10000, None, 0),
        ([package(canceled=True)], 0, None, 0),
        ([package(canceled=True)], 5000, ("0", "5000"), 5000),
        ([package(budget=None)], 12000, ("10000", "12000"), 12000),
        ([package()], None, None, 10000),
    ],
)
def test_a_total_is_beside_what_its_packages_come_to(
    packages: list[dict[str, Any]], total: Any, departs: tuple[str, str] | None, gross: int
) -> None:
    found, comes_to = told({"packages": packages, "total_budget": total})
    assert found == ([difference("total_budget", *departs)] if departs else [])
    assert comes_to == gross


KNOWN = difference("total_budget", "10000", "12000")


@pytest.mark.parametrize(
    ("buy", "stays"),
    [
        ({"packages": [package(budget=None)]}, True),
        ({"packages": [package()]}, False),
        ({"total_budget": 10000}, False),
    ],
    ids=["nothing-said", "packages-said", "total-said"],
)
def test_a_total_that_departed_stays_until_amounts_are_said(buy: dict[str, Any], stays: bool) -> None:
    found, gross = told(buy, differences=[KNOWN])
    assert found == ([KNOWN] if stays else [])
    assert gross == (12000 if stays else 10000)


def test_a_package_that_nobody_ordered_stays_until_the_packages_are_told_anew() -> None:
    extra = difference("package", "nothing", "500", product="x")
    assert told({"total_budget": None}, differences=[extra]) == ([extra], 10500)
    assert told({"packages": [package()]}, differences=[extra]) == ([], 10000)


def test_what_is_no_stated_thing_is_not_kept_here_and_what_is_comes_in_one_order() -> None:
    kept = [difference("currency", "USD", "EUR"), difference("product_id", "prod", "y", of=1)]
    found, _ = told({}, differences=[difference("rate", "12", "13", of=1), *kept])
    assert found == kept[::-1]


def test_what_is_stated_as_approved_again_departs_no_more() -> None:
    ours = line()
    stated = package(context={"line_id": str(ours.pk)})
    known = [difference("product_id", "prod", "y", of=1), difference("stated_budget", "10000", "?", of=1)]
    assert told({"packages": [stated]}, lines=[ours], differences=known) == ([], BUDGET)


def test_lists_too_long_to_be_read_are_said_so() -> None:
    buy = {"packages": [package(budget=1, product_id="y", package_id=str(n)) for n in range(3000)]}
    found, _ = told(buy)
    beyond = [row for row in found if row["field"] == "packages"]
    assert [row["approved"] for row in beyond] == ["1"]
    assert "more than are counted" in beyond[0]["confirmed"]


@pytest.mark.parametrize(
    ("known", "names"),
    [
        ([difference("package", "nothing", "500")], []),
        ([difference("package", "nothing", "EUR 500")], ["EUR 500"]),
        ([difference("total_budget", "10", "?")], ["?"]),
        ([difference("stated_budget", "10", "?"), difference("stated_budget", "11", "?")], ["?"]),
        ([difference("currency", "USD", "EUR"), difference("packages", "1", "7")], ["EUR", "7"]),
        ([difference("rate", "1", "?"), difference("stated_rate", "1", "?")], []),
    ],
)
def test_what_cannot_be_counted_is_named_once(known: list[dict[str, Any]], names: list[str]) -> None:
    assert uncounted(known) == names
    assert counted(Deal(differences=known), Decimal(5)) == (None if names else 5)
    assert counted(Deal(accepted=known), Decimal(5)) == (None if names else 5)


def test_what_is_cut_to_be_shown_is_not_counted_for_it() -> None:
    stated = f"12{' ' * 300}or so"
    found = one({"total_budget": stated})
    assert found["confirmed"] == shortened(stated, 255)
    assert uncounted([found]) == [found["confirmed"]]
