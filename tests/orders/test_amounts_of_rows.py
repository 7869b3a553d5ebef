"""What a deal comes to, and what counts as accepted of it, from its rows alone. Without a database, so that a
mutation tester can try it many times over."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from orders.accepted import accepted_after, accepted_beside, departures_known, key_of, standing, taken
from orders.amounts import (
    amount_after,
    approved_after,
    approved_of,
    approved_shown,
    confirmed_of,
    deal_amounts,
    departs_by,
    gross_of,
    is_unapproved,
    line_amounts,
    line_budget,
    lines_confirmed,
    lines_ordered,
    lines_wanted,
    unstated,
)
from orders.models import Deal
from tasks_app.sellers.models import Seller
from tests.orders.rows import BUDGET, END, START, deal, difference, line

FIVE, SIX, SEVEN = Decimal(5), Decimal(6), Decimal(7)
UNAPPROVED = difference("approval", "nothing", "all of it")
BUDGET_TAKEN = difference("budget", "10000", "9000", of=1)
EXTRA = difference("package", "nothing", "500", product="x")
TOTAL = difference("total_budget", "10000", "12000")


@pytest.mark.parametrize(
    ("status", "told", "committed", "outstanding"),
    [
        ("quoted", None, 0, 0),
        ("accepted", None, 10000, 10000),
        ("booking", None, 10000, 10000),
        ("booked", FIVE, 10000, 0),
        ("booked", Decimal(12000), 12000, 0),
        ("completed", None, 10000, 10000),
        ("failed", FIVE, 0, 0),
        ("cancelled", FIVE, 0, 0),
    ],
)
def test_committed_is_the_larger_of_confirmed_and_approved(
    status: str, told: Decimal | None, committed: int, outstanding: int
) -> None:
    confirmed = told if status in ("booked", "delivering", "completed") else None
    own = line(confirmed_budget=told)
    whole = deal(own, status=status, confirmed_gross=told)
    whole.answered = None
    for found in (deal_amounts(whole), line_amounts(whole, own)):
        assert (found.approved, found.confirmed, found.committed) == (10000, confirmed, committed)
        assert found.outstanding == outstanding
    assert confirmed_of(whole) == confirmed


def test_what_nobody_approved_counts_nothing_of_a_line_and_is_shown_as_unknown() -> None:
    own = line()
    adopted = deal(own, differences=[UNAPPROVED], accepted_gross=Decimal(0))
    assert is_unapproved(adopted)
    assert not is_unapproved(deal(own, differences=[TOTAL]))
    assert line_amounts(adopted, own).approved == 0
    assert approved_shown(adopted) is None
    assert approved_shown(deal(own)) == BUDGET


def test_a_line_counts_as_it_was_accepted() -> None:
    own, other = line(), line(2)
    whole = deal(own, other, accepted=[BUDGET_TAKEN])
    assert (line_budget(whole, own), line_budget(whole, other)) == (9000, 10000)
    unreadable = deal(own, accepted=[{**BUDGET_TAKEN, "confirmed": "?"}])
    assert line_budget(unreadable, own) == BUDGET
    other_field = deal(own, accepted=[difference("rate", "12", "13", of=1)])
    assert line_budget(other_field, own) == BUDGET


def test_lines_are_summed_as_ordered_wanted_and_confirmed() -> None:
    lines = [line(1, budget=FIVE), line(2, budget=SIX, confirmed_budget=Decimal(0))]
    accepted = [difference("budget", "5", "7", of=1), EXTRA, {**EXTRA, "confirmed": "?"}]
    assert lines_ordered(lines) == 11
    assert lines_confirmed(lines) == 5
    assert lines_wanted(lines, iter(accepted)) == 7 + 6 + 500
    assert [lines_ordered([]), lines_wanted([], []), lines_confirmed([])] == [0, 0, 0]


@pytest.mark.parametrize(
    ("status", "media_buy_id", "answered", "accepted_gross", "approved"),
    [
        ("booking", "", SIX, FIVE, SIX),
        ("booking", "", None, FIVE, FIVE),
        ("booking", "", None, None, BUDGET),
        ("failed", "", SIX, None, SIX),
        ("cancelled", "", SIX, None, SIX),
        ("failed", "mb-1", SIX, None, BUDGET),
        ("booked", "mb-1", SIX, None, BUDGET),
        ("booked", "mb-1", None, Decimal(0), Decimal(0)),
    ],
)
def test_until_it_is_confirmed_an_answer_says_what_is_approved(
    status: str, media_buy_id: str, answered: Any, accepted_gross: Any, approved: Decimal
) -> None:
    whole = deal(line(), status=status, media_buy_id=media_buy_id, accepted_gross=accepted_gross)
    whole.answered = answered
    assert approved_of(whole, BUDGET) == approved
    assert gross_of(whole, [line()]) == approved
    whole.confirmed_gross = SEVEN
    assert gross_of(whole, [line()]) == max(SEVEN, approved)
    assert (departs_by(whole, FIVE), departs_by(deal(), FIVE)) == (2, 0)


def test_a_seller_that_confirms_without_amounts_is_named() -> None:
    said = unstated(deal(seller=Seller(name="Harbour")))
    assert said.startswith("Harbour states no amounts in USD, ")
    assert said.endswith("nobody knows whether it booked what was approved")
    assert unstated(deal(confirmed_gross=Decimal(0))) == ""
    assert unstated(deal(status="booking")) == ""


def change(**budgets: Any) -> dict[str, Any]:
    return {"packages": [{"package_id": name, "budget": budget} for name, budget in budgets.items()]}


def two(**fields: Any) -> Deal:
    lines = [
        line(1, package_id="a", budget=FIVE, confirmed_budget=fields.pop("a", None)),
        line(2, package_id="b", budget=SIX, confirmed_budget=fields.pop("b", None)),
    ]
    return deal(*lines, **fields)


@pytest.mark.parametrize(
    ("whole", "asked", "after"),
    [
        (two(), change(), 11),
        (two(), {}, 11),
        (two(), change(a=7), 13),
        (two(), change(a=0, b=0), 0),
        (two(a=FIVE, b=SIX, confirmed_gross=Decimal(11)), change(a=8), 14),
        (two(a=FIVE, b=SIX, confirmed_gross=Decimal(21)), change(a=8), 24),
        (two(a=FIVE, b=SIX, confirmed_gross=Decimal(21)), change(a=8, b=1), 19),
        (two(confirmed_gross=Decimal(21)), change(a=8), 24),
        (two(confirmed_gross=Decimal(21)), change(a=8, b=1), 9),
        (two(confirmed_gross=Decimal(21), accepted=[EXTRA]), change(a=8, b=1), 19),
        (two(confirmed_gross=Decimal(21), differences=[EXTRA]), change(a=8, b=1), 19),
        (two(), change(a=None), 11),
    ],
)
def test_what_a_deal_comes_to_after_changes(whole: Deal, asked: dict[str, Any], after: int) -> None:
    assert amount_after(whole, asked) == after


@pytest.mark.parametrize(
    ("whole", "asked", "after"),
    [
        (two(), change(a=7), 13),
        (two(accepted_gross=Decimal(20)), change(a=7), 22),
        (two(accepted_gross=Decimal(0)), change(a=7), 2),
        (two(accepted_gross=Decimal(0), differences=[UNAPPROVED]), change(a=7), 13),
        (two(accepted=[difference("budget", "5", "9", of=1)], accepted_gross=Decimal(15)), change(a=7), 13),
        (two(), {}, 11),
        (two(), change(c=99), 11),
    ],
)
def test_what_counts_as_approved_after_a_change(whole: Deal, asked: dict[str, Any], after: int) -> None:
    assert approved_after(whole, asked) == after


def test_packages_nobody_ordered_are_told_apart_by_name_and_nothing_else_is() -> None:
    assert key_of(EXTRA) == (0, "package", "x")
    assert key_of(TOTAL) == (0, "total_budget", "")


def test_what_is_known_is_beside_what_was_ordered() -> None:
    again = difference("budget", "9000", "9500", of=1)
    whole = deal(accepted=[BUDGET_TAKEN], differences=[again, TOTAL])
    assert list(departures_known(whole).values()) == [{**again, "approved": "10000"}, TOTAL]


def stands(
    found: list[dict[str, Any]], *accepted: dict[str, Any], **fields: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Decimal | None]:
    as_ordered = line(confirmed_rate=Decimal(12))
    whole = deal(as_ordered, accepted=[*accepted], **fields)
    now = standing(whole, [as_ordered], found)
    assert now.changes["differs"] == bool(now.differences)
    columns = ("differences", "accepted", "accepted_gross")
    assert [now.changes[name] for name in columns] == [now.differences, now.accepted, now.gross]
    return now.differences, now.accepted, now.gross


def test_what_was_accepted_departs_no_more_and_anything_else_departs_from_it() -> None:
    known = {"confirmed_gross": Decimal(9000), "accepted_gross": Decimal(9000)}
    assert stands([BUDGET_TAKEN], BUDGET_TAKEN, **known) == ([], [BUDGET_TAKEN], 9000)
    more = difference("budget", "10000", "9500", of=1)
    departs = {**more, "approved": "9000"}
    assert stands([more], BUDGET_TAKEN, **known) == ([departs], [BUDGET_TAKEN], 9000)
    assert stands([more], **known)[0] == [more]
    assert stands([]) == ([], [], None)


def test_a_total_is_beside_what_was_accepted() -> None:
    found = stands([BUDGET_TAKEN, TOTAL], BUDGET_TAKEN, accepted_gross=Decimal(9000))
    assert found[0] == [{**TOTAL, "approved": "9000"}]
    assert stands([TOTAL])[0] == [TOTAL]


@pytest.mark.parametrize(
    ("accepted", "risen"),
    [
        (BUDGET_TAKEN, {**BUDGET_TAKEN, "approved": "9000", "confirmed": "10000"}),
        (difference("rate", "12", "11", of=1), difference("rate", "11", "12", of=1)),
        (difference("budget", "10000", "11000", of=1), None),
        (difference("budget", "10000", "10000", of=1), None),
        (difference("start", "b", "a", of=1), None),
        (difference("budget", "10000", "?", of=1), None),
        (difference("budget", "?", "9000", of=1), None),
    ],
    ids=["budget", "rate", "less", "equal", "no-amount", "unread", "unread-order"],
)
def test_what_goes_back_to_more_than_was_accepted_departs(
    accepted: dict[str, Any], risen: dict[str, Any] | None
) -> None:
    differences, kept, _ = stands([], accepted, confirmed_gross=BUDGET, accepted_gross=Decimal(9000))
    assert differences == ([risen] if risen else [])
    assert kept == ([accepted] if risen else [])


def test_a_rate_that_was_accepted_stays_while_none_is_confirmed() -> None:
    let_go, silent = difference("rate", "12", "11", of=1), line()
    now = standing(deal(silent, accepted=[let_go]), [silent], [])
    assert (now.differences, now.accepted) == ([], [let_go])


def test_a_total_goes_back_to_what_is_confirmed_now() -> None:
    less = difference("total_budget", "10000", "9000")
    back, kept, _ = stands([], less, confirmed_gross=Decimal(9500), accepted_gross=Decimal(9000))
    assert back == [{**less, "approved": "9000", "confirmed": "9500"}]
    assert kept == [less]
    assert stands([], less, accepted_gross=Decimal(9000))[0] == []


def test_what_nobody_approved_stays_so_until_it_is_decided() -> None:
    known = {"differences": [UNAPPROVED, TOTAL], "accepted_gross": Decimal(0), "confirmed_gross": FIVE}
    assert stands([BUDGET_TAKEN], **known) == ([BUDGET_TAKEN, UNAPPROVED], [], 0)


@pytest.mark.parametrize(
    ("found", "accepted", "gross"),
    [
        ([BUDGET_TAKEN, difference("rate", "12", "13", of=1)], [BUDGET_TAKEN], 9000),
        ([EXTRA, difference("rate", "12", "13", of=1)], [EXTRA], 10500),
        ([{**TOTAL, "confirmed": "12500"}], [TOTAL], 12000),
        ([EXTRA, {**TOTAL, "confirmed": "13000"}], [EXTRA, TOTAL], 12000),
        ([{**TOTAL, "confirmed": "12500"}], [EXTRA, TOTAL], 11500),
    ],
    ids=["line", "extra", "total", "total-and-extra", "extra-gone"],
)
def test_what_a_deal_comes_to_while_something_departs(
    found: list[dict[str, Any]], accepted: list[dict[str, Any]], gross: int
) -> None:
    known = {"accepted_gross": Decimal(12000), "confirmed_gross": Decimal(12500)}
    assert stands(found, *accepted, **known)[2] == gross


def test_accepting_takes_what_is_done_now_beside_what_was_ordered() -> None:
    again = difference("budget", "9000", "9500", of=1)
    words = difference("stated_start", "a", "b", of=1)
    now = taken(
        deal(accepted=[BUDGET_TAKEN, EXTRA], differences=[again, words, UNAPPROVED], confirmed_gross=FIVE)
    )
    assert now.accepted == [EXTRA, {**again, "approved": "10000"}, words]
    assert (now.differences, now.gross) == ([], FIVE)


@pytest.mark.parametrize("field", ["budget", "rate", "total_budget"])
def test_accepting_what_is_as_ordered_again_leaves_nothing_accepted(field: str) -> None:
    whole = deal(
        accepted=[difference(field, "10", "9", of=1)],
        differences=[difference(field, "9", "10", of=1)],
        confirmed_gross=FIVE,
    )
    assert (taken(whole).accepted, taken(whole).gross) == ([], None)


def test_words_that_are_cut_to_the_same_are_accepted_all_the_same() -> None:
    same = difference("stated_start", "a", "a", of=1)
    assert taken(deal(differences=[same])).accepted == [same]


FIELDS = ("budget", "stated_budget", "start", "stated_start", "end", "stated_end", "targeting", "rate")
OF_THE_LINE = [difference(field, "a", "b", of=1) for field in FIELDS]
OF_ALL = [difference(field, "a", "b") for field in ("stated_start", "stated_end", "total_budget")]


@pytest.mark.parametrize(
    ("asked", "decided"),
    [
        ({}, set()),
        (
            {"packages": [{"package_id": "a", "budget": 1}]},
            {(1, "budget"), (1, "stated_budget"), (0, "total_budget")},
        ),
        ({"packages": [{"package_id": "a", "targeting_overlay": {}}]}, {(1, "targeting")}),
        ({"packages": [{"package_id": "a", "bid_price": 1}]}, set()),
        ({"packages": [{"package_id": "b", "budget": 1}]}, set()),
        ({"start_time": "x"}, {(0, "stated_start"), (1, "start"), (1, "stated_start")}),
        ({"end_time": "x"}, {(0, "stated_end"), (1, "end"), (1, "stated_end")}),
    ],
)
def test_a_change_decides_what_it_names(asked: dict[str, Any], decided: set[tuple[int, str]]) -> None:
    own = line(package_id="a")
    whole = deal(own, accepted=[*OF_THE_LINE, *OF_ALL])
    kept = accepted_beside(whole, [own], asked)
    gone = {(one["line"], one["field"]) for one in whole.accepted if one not in kept}
    assert gone == decided


@pytest.mark.parametrize(
    ("edge", "asked", "field"), [("start_at", "start_time", "start"), ("end_at", "end_time", "end")]
)
def test_a_line_with_dates_of_its_own_does_not_move_with_the_whole(edge: str, asked: str, field: str) -> None:
    own = line(**{edge: END if edge == "start_at" else START})
    kept = accepted_beside(deal(own, accepted=OF_THE_LINE), [own], {asked: "x"})
    assert field in {one["field"] for one in kept}


def after(deal: Deal, kept: list[dict[str, Any]]) -> dict[str, Any]:
    return accepted_after(deal, kept, before=Decimal(0), after=Decimal(7))


def test_after_a_change_what_is_left_counts_with_what_it_costs_more() -> None:
    whole = deal(accepted_gross=Decimal(12000))
    raised = {**TOTAL, "approved": "10007", "confirmed": "12007"}
    assert after(whole, [TOTAL, EXTRA]) == {
        "accepted": [raised, EXTRA],
        "accepted_gross": 12007,
    }
    assert after(whole, []) == {"accepted": [], "accepted_gross": None}
    unread = after(whole, [{**TOTAL, "confirmed": "?"}])
    assert unread["accepted"] == [{**TOTAL, "approved": "10007", "confirmed": "?"}]
    assert after(deal(), [TOTAL]) == {"accepted": [TOTAL], "accepted_gross": None}
    unapproved = deal(accepted_gross=Decimal(0), differences=[UNAPPROVED])
    assert after(unapproved, [TOTAL]) == {}


def test_a_total_whose_packages_are_all_said_anew_is_what_they_come_to() -> None:
    whole = deal(accepted=[TOTAL, EXTRA], accepted_gross=Decimal(12000))
    assert after(whole, [EXTRA]) == {"accepted": [EXTRA], "accepted_gross": 7}
