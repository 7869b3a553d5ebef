"""Numbers from outside are bounded before they are kept; what people type says one thing or is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from orders.questions import ask_deal
from tasks_app.money import amount_of, decimal_of, rate_of, typed_amount
from tests.factories import make_deal, make_line, make_user


@pytest.mark.parametrize(
    ("stated", "read"),
    [
        (0, 0), (-3, -3), (0.1, "0.1"), ("12.50", "12.50"), ("1e3", 1000), (2**70, 2**70), (" 7 ", 7),
        (".5", "0.5"), ("0" * 63 + "1", 1), ("0" * 64 + "1", None),
        (10**24 - 1, 10**24 - 1), (10**24, None), ("1e24", None), ("1e-24", "1e-24"), ("9e-25", None),
        ("0e-900", 0), (None, None), (True, None), ("", None), ([], None), ("NaN", None), ("Infinity", None),
        ("1_000", None), ("١٢٣", None), ("1,000", None), ("1" * 65, None),
        ("1e-20000", None), ("1e999999", None), (1e300, None), (1e-300, None), (float("nan"), None),
    ],
)  # fmt: skip
def test_a_number_from_outside_is_exact_and_bounded(stated: Any, read: Any) -> None:
    assert decimal_of(stated) == (None if read is None else Decimal(read))


def test_a_price_is_bounded_as_its_column_is() -> None:
    assert (rate_of(10**12 - 1), rate_of(10**12), rate_of("999999999999.9999996")) == (10**12 - 1, None, None)
    assert rate_of("0.0000014") == Decimal("0.000001")


@pytest.mark.parametrize(
    ("stated", "amount"),
    [
        (0, 0), (-1, None), (9_000_000_000_000, 9_000_000_000_000), (10**14, None),
        ("99999999999999.99999", None),
        (1100.10 + 2200.20 + 3300.30 + 470.11, "7070.71"), ("1e-20", 0), ("x", None),
    ],
)  # fmt: skip
def test_an_amount_is_what_the_columns_hold(stated: Any, amount: Any) -> None:
    assert amount_of(stated) == (None if amount is None else Decimal(amount))


def test_an_integer_too_long_to_write_out_is_none() -> None:
    assert decimal_of(10**5000) is None


def test_a_rate_is_finer_and_smaller() -> None:
    assert (rate_of("14.2000001"), rate_of(10**12)) == (Decimal("14.2"), None)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("4500.50", "4500.50"), ("4 500.50", "4500.50"), ("4\u202f500", 4500), ("1,234.50", "1234.50"),
        ("1,234,567", 1234567), ("0", 0), (" 12 ", 12), ("-5", -5),
        ("0.500", "0.5"), ("1234.500", "1234.5"), ("1,234.500", "1234.5"), ("1 234.500", "1234.5"),
        ("12.5000", "12.5"),
    ],
)  # fmt: skip
def test_what_people_type_says_one_thing(typed: str, meant: Any) -> None:
    assert typed_amount(typed) == Decimal(meant)


@pytest.mark.parametrize(
    "typed",
    ["450,50", "1,234", "1.234,50", "1.234.567", "12,34,567", "1 23", "45 50.00", "1_000", "1,23.50", "", "x",
     "NaN", "1e3", "1e99"],
)  # fmt: skip
def test_what_could_be_two_amounts_is_none(typed: str) -> None:
    with pytest.raises(ValueError, match=r"amount|can be read"):
        typed_amount(typed)


@pytest.mark.parametrize("typed", ["12.500", "100.000", "1.000", " 999.001 ", "-1.500"])
def test_a_point_and_three_digits_are_two_amounts_but_where_the_currency_has_three(typed: str) -> None:
    for currency in ("", "USD", "JPY"):
        with pytest.raises(ValueError, match="can be read as"):
            typed_amount(typed, currency)
    assert typed_amount(typed, "BHD") == Decimal(typed.strip())


def test_a_refusal_shows_both_readings() -> None:
    with pytest.raises(ValueError, match=r"can be read as 12\.50 or as 12500: write it without the point"):
        typed_amount("12.500")
    with pytest.raises(ValueError, match=r"can be read as 450\.50 or as 45050: write it with"):
        typed_amount("450,50")


@pytest.mark.django_db
def test_a_decimal_comma_approves_nothing(client: Client) -> None:
    deal = make_deal(make_line(budget=Decimal(500), minimum=None))
    question = ask_deal(deal)
    client.force_login(make_user("Approver", is_staff=True))
    said = {"decision": "approve", "digest": question.evidence_digest, "budget-1": "450,50"}
    page = client.post(reverse("admin:tasks_app_approval_change", args=[question.pk]), said, follow=True)
    deal.refresh_from_db()
    assert (deal.status, deal.lines.get().budget) == ("quoted", 500)
    assert "450.50 or as 45050" in page.content.decode()
