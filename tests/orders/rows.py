"""Deals and lines that no database knows, for rules that read and write none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from orders.models import Deal, DealLine
from tests.unsaved import unsaved

START, END = datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
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
    return unsaved(DealLine, **given)


def deal(*lines: DealLine, **fields: Any) -> Deal:
    """One whose lines are these, as if they had been read with it."""
    given = {"currency": "USD", "status": "booked", "start_at": START, "end_at": END, **fields}
    return with_lines(unsaved(Deal, **given), lines)


def with_lines(made: Deal, lines: Sequence[DealLine]) -> Deal:
    rows = DealLine.objects.none()
    rows._result_cache = [*lines]
    made._prefetched_objects_cache = {"lines": rows}
    return made


def package(**fields: Any) -> dict[str, Any]:
    return {
        "product_id": "prod",
        "pricing_option_id": "cpm",
        "budget": 10000,
        "start_time": START.isoformat(),
        "end_time": END.isoformat(),
        **fields,
    }


def difference(
    field: str, approved: Any, confirmed: Any, *, of: int = 0, product: str = ""
) -> dict[str, Any]:
    """As one is kept; of the media buy where no line is named."""
    named = product or ("Bumper" if of else "The media buy")
    return {"line": of, "product": named, "field": field, "approved": approved, "confirmed": confirmed}
