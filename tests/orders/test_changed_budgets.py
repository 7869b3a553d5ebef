"""A changed budget is shown by an amount that could be confirmed, and by no other: in the deal's currency,
not below zero, and a sum of floats for what it means."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from orders.changes import change_ask
from orders.effects import misses
from tasks_app.approvals.models import Approval
from tasks_app.operations.models import Operation
from tests.orders import late, rows
from tests.orders.live import packages
from tests.orders.test_amounts import settled, two, wanted

Record = dict[str, Any]
NOISE = 10000.000000000002  # what a sum of floats may come to


def first(**told: Any) -> Record:
    return {"packages": [{"package_id": "pkg-1", **told}, {"package_id": "pkg-2"}]}


# What a seller states after pkg-1 of 10,000 beside 50,000 was to have 9,000; what is shown otherwise.
SHOWN: dict[str, Record] = {
    "as asked": first(budget=9000),
    "as asked, in floats": first(budget=9000.000000000002),
    "as asked, its currency named": {**first(budget="9000.00", currency="USD"), "currency": "USD"},
    "the total": {"total_budget": 59000},
    "the total, in floats": {"total_budget": 59000.00000000001},
    "the total, its currency named": {"total_budget": 59000, "currency": "USD"},
}
NOT_SHOWN: dict[str, tuple[Record, str | None, bool]] = {
    "nothing": ({}, None, False),
    "as before": (first(budget=10000), "10000", False),
    "as before, in floats": (first(budget=NOISE), "10000", False),
    "another amount": (first(budget=9500), "9500", True),
    "nothing is spent": (first(budget=0), "0", True),
    "in another currency": (first(budget=9000, currency="EUR"), None, False),
    "in a record of another currency": ({**first(budget=9000), "currency": "EUR"}, None, False),
    "another amount in another currency": (first(budget=9500, currency="EUR"), None, False),
    "below zero": (first(budget=-5), None, False),
    "beyond any purchase": (first(budget=1e300), None, False),
    "the total in another currency": ({"total_budget": 59000, "currency": "EUR"}, None, False),
    "the total before": ({"total_budget": 60000}, None, False),
    "the total below zero": ({"total_budget": -59000}, None, False),
    "the total beside another currency": (
        {**first(budget=9000, currency="EUR"), "total_budget": 59000},
        None,
        False,
    ),
    "the total beside less than nothing": ({**first(budget=-5), "total_budget": 59000}, None, False),
}


def missed(told: Record) -> list[tuple[str, str, str | None, bool]]:
    lines = rows.line(package_id="pkg-1"), rows.line(2, package_id="pkg-2", budget=Decimal(50000))
    change = {"media_buy_id": "mb-9", "packages": [{"package_id": "pkg-1", "budget": 9000}]}
    found = misses(change, {"media_buy_id": "mb-9", **told}, rows.deal(*lines), whole=True)
    return [(one.where, one.field, one.shown, one.otherwise) for one in found]


@pytest.mark.parametrize("case", SHOWN)
def test_what_shows_a_changed_budget(case: str) -> None:
    assert missed(SHOWN[case]) == []


@pytest.mark.parametrize("case", NOT_SHOWN)
def test_what_shows_none(case: str) -> None:
    told, shown, otherwise = NOT_SHOWN[case]
    assert missed(told) == [("pkg-1", "budget", shown, otherwise)]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "told", [{"budget": NOISE}, {"budget": 9000, "currency": "EUR"}, {"budget": -5}], ids=str
)
def test_a_change_that_is_not_shown_is_read_back_and_not_taken(told: Record) -> None:
    deal = two()
    settled(deal, packages(deal))
    operation = change_ask(wanted(late.fresh(deal), {"package_id": "pkg-1", "budget": 9000}))
    late.decide("deal_change", "approve")
    answer = {"media_buy_id": "mb-9", "revision": 2, "affected_packages": [{"package_id": "pkg-1", **told}]}

    late.ended(operation, "completed", answer)

    assert deal.lines.get(position=1).budget == 10000
    assert Operation.objects.filter(purpose=f"{operation.purpose}:read_back").exists()
    assert not Approval.objects.filter(kind="booked_differently", status="open").exists()
