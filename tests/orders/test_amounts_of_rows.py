"""What a deal comes to, from its rows alone. Without a database."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from orders.amounts import (
    amount_after,
    approved_of,
    approved_shown,
    confirmed_of,
    deal_amounts,
    departs_by,
    gross_of,
    line_amounts,
    unstated,
)
from orders.models import Deal
from tasks_app.sellers.models import Seller
from tests.orders.rows import BUDGET, deal, line

FIVE, SIX, SEVEN = Decimal(5), Decimal(6), Decimal(7)


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
    adopted = deal(own, unapproved=True)
    assert line_amounts(adopted, own).approved == 0
    assert approved_shown(adopted) is None
    assert approved_shown(deal(own)) == BUDGET


@pytest.mark.parametrize(
    ("status", "media_buy_id", "answered", "unapproved", "approved"),
    [
        ("booking", "", SIX, False, SIX),
        ("booking", "", None, False, BUDGET),
        ("failed", "", SIX, False, SIX),
        ("cancelled", "", SIX, False, SIX),
        ("failed", "mb-1", SIX, False, BUDGET),
        ("booked", "mb-1", SIX, False, BUDGET),
        ("booked", "mb-1", None, True, Decimal(0)),
    ],
)
def test_until_it_is_confirmed_an_answer_says_what_is_approved(
    status: str, media_buy_id: str, answered: Any, unapproved: bool, approved: Decimal
) -> None:
    whole = deal(line(), status=status, media_buy_id=media_buy_id, unapproved=unapproved)
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
        (two(), change(a=None), 11),
    ],
)
def test_what_a_deal_comes_to_after_changes(whole: Deal, asked: dict[str, Any], after: int) -> None:
    assert amount_after(whole, asked) == after
