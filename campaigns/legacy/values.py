"""Values of a legacy row, checked one by one: SQLite keeps whatever type it was given."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tasks_app import clock, days, money
from tasks_app.lifecycle.transitions import exact
from tasks_app.storable import is_storable

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
Values = Mapping[str, Any]
_MOST = Decimal(10) ** 12 - 1


class Written(str):
    """A fraction as JSON writes it, which is no text of somebody's."""


class UnmappableError(ValueError):
    """A row cannot become anything of ours. `field` says which column, `problem` why."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field, self.problem = field, problem


def text(values: Values, name: str, *, limit: int = 255) -> str:
    """A column's text, "" where there is none. Raises UnmappableError for another type, NUL or a
    half of a surrogate pair, or length."""
    value = values.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UnmappableError(name, f"is no text but {_kind(value)}")
    if not is_storable(value):
        raise UnmappableError(name, "holds a character that cannot be kept (U+0000, a surrogate)")
    if len(value) > limit:
        raise UnmappableError(name, f"is {len(value)} characters long, more than {limit}")
    return value.strip()


def required(values: Values, name: str, *, limit: int = 255) -> str:
    """A column's text that may not be empty. Raises UnmappableError."""
    found = text(values, name, limit=limit)
    if not found:
        raise UnmappableError(name, "is missing")
    return found


def number(values: Values, name: str) -> Decimal | None:
    """A column's number exactly as its shortest text, None where there is none. Raises UnmappableError."""
    value = values.get(name)
    if value is None:
        return None
    found = None if isinstance(value, str | bytes) else money.decimal_of(value)
    if found is None:
        raise UnmappableError(name, f"is no number but {_kind(value)}")
    if not 0 <= found <= _MOST:
        raise UnmappableError(name, f"is {found:g}, which no price, amount or volume is")
    return found


def moment(values: Values, name: str) -> datetime:
    """A column's moment, UTC (the reference writes UTC). Raises UnmappableError."""
    found = _moment(name, required(values, name), "UTC")
    if found > clock.now() + timedelta(days=1):
        raise UnmappableError(name, "lies in the future")
    return found


def flight(values: Values, start: str, end: str, zone: str) -> tuple[datetime, datetime]:
    """A flight as [start, end); a day given as its end is the last one of it. Raises UnmappableError."""
    first, last = required(values, start), required(values, end)
    begins, ends = _moment(start, first, zone), _moment(end, last, zone)
    if _DAY.fullmatch(last):
        ends = days.end_of(days.day_of(ends, zone), zone)
    if ends <= begins:
        raise UnmappableError(end, f"the flight ends on {last}, not after it starts on {first}")
    return begins, ends


def parsed(values: Values, name: str) -> Any:
    """What a column's JSON says, None where it holds none or none that can be read."""
    value = values.get(name)
    if not isinstance(value, str):
        return None
    try:
        return json.loads(value, parse_float=Written, parse_constant=Written)
    except (ValueError, RecursionError):
        return None


def kept(values: Values) -> dict[str, Any]:
    """The whole row as JSON, for whoever looks later: what is empty left out, fractions as text."""
    return {
        name: repr(value) if isinstance(value, float) else exact(value)
        for name, value in values.items()
        if value is not None
    }


def _moment(name: str, told: str, zone: str) -> datetime:
    try:
        found = (
            days.start_of(date.fromisoformat(told), zone)
            if _DAY.fullmatch(told)
            else datetime.fromisoformat(told)
        )
        found = found if found.tzinfo else days.placed(found, zone)
    except ValueError:
        raise UnmappableError(name, f"{told[:40]!r} is no ISO 8601 date or time") from None
    if not clock.EARLIEST <= found <= clock.LATEST:
        raise UnmappableError(name, f"{told[:40]!r} is not between 2000 and 2199")
    return found


def _kind(value: object) -> str:
    if isinstance(value, bytes):
        return "bytes"
    if isinstance(value, str):
        return "text"
    return "a number out of range" if isinstance(value, float) and value - value != 0 else "a number"
