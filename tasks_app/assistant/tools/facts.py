"""Rows of facts, each of which is a row of the table for people and an object of JSON for models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from tasks_app import days
from tasks_app.assistant.tools.answer_text import money, plain, status_word
from tasks_app.assistant.tools.registry import Table
from tasks_app.desk import text

MOST_ROWS = 25
_LONGEST_CELL = 300
_TABLE_ONLY = object()


@dataclass(frozen=True)
class Fact:
    """The text of a cell, and the same value for JSON."""

    shown: str
    value: Any


#: A row by the titles of its columns. A bare value is shown as it is, and None as a dash.
Row = Mapping[str, Fact | str | int | None]


def amount_fact(amount: Decimal | None, currency: str) -> Fact:
    """Return an amount: "USD 35,200.50" in the table, "35200.5 USD" in JSON."""
    if amount is None:
        return Fact(text.DASH, None)
    return Fact(money(amount, currency), f"{amount.normalize():f} {currency}")


def amounts_data(amounts: Iterable[tuple[str, Decimal]]) -> list[Any]:
    """Return (currency, amount) pairs for JSON."""
    return [amount_fact(amount, currency).value for currency, amount in amounts]


def status_fact(status: str) -> Fact:
    """Return a status: its word in the table, as stored in JSON."""
    return Fact(status_word(status), status)


def flight_fact(start: datetime | None, end: datetime | None, zone: str) -> Fact:
    """Return a flight of [start, end), by its first and last day in its own zone."""
    if start is None or end is None:
        return Fact(text.DASH, None)
    shown = f"{text.flight(start, end, zone)}, {text.zone_name(zone)}"
    first, last = days.day_of(start, zone), days.last_day(end, zone)
    return Fact(shown, {"first_day": first.isoformat(), "last_day": last.isoformat(), "zone": zone})


def duration_fact(span: timedelta | None) -> Fact:
    """Return a duration: in words in the table, in seconds in JSON."""
    return Fact(text.DASH, None) if span is None else Fact(text.duration(span), round(span.total_seconds()))


def foreign_fact(words: object) -> Fact:
    """Return text that a seller or a brief wrote: in the table alone."""
    said = "" if words is None else plain(str(words))
    cut = said if len(said) <= _LONGEST_CELL else f"{said[: _LONGEST_CELL - 1]}…"
    return Fact(cut or text.DASH, _TABLE_ONLY)


def table_of(rows: Sequence[Row]) -> Table | None:
    """Return a table of the first 25 rows; None without rows. All rows have the same columns."""
    if not rows:
        return None
    cells = [[_fact(value).shown for value in row.values()] for row in rows[:MOST_ROWS]]
    return Table(columns=list(rows[0]), rows=cells)


def rows_data(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the first 25 rows as JSON, without the text that sellers and briefs wrote."""
    return [
        {
            title.lower().replace(" ", "_"): _fact(value).value
            for title, value in row.items()
            if _fact(value).value is not _TABLE_ONLY
        }
        for row in rows[:MOST_ROWS]
    ]


def rows_not_shown(total: int, shown: int = MOST_ROWS) -> str:
    """Return a sentence that says how many rows the table leaves out; empty if it has all of them."""
    return f"The table leaves out {total - shown} more." if total > shown else ""


def _fact(value: Fact | str | int | None) -> Fact:
    if isinstance(value, Fact):
        return value
    return Fact(text.DASH if value is None else str(value), value)
