"""One reader for each kind of single value that a seller sends; what it cannot read is absent, never an
error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tasks_app import clock, days

_YES, _NO = ("true", "yes", "1"), ("false", "no", "0")
EXACT_FLOAT = 2**53  # below it, whole numbers and floats are the same


def text_of(value: object) -> str | None:
    """A text that says something."""
    return value if isinstance(value, str) and value else None


def first_text(data: Mapping[str, Any], fields: Sequence[str]) -> str | None:
    """The first non-empty text among `fields` of `data`."""
    return next((value for value in map(data.get, fields) if isinstance(value, str) and value), None)


def identity_of(value: object, *, longest: int | None = None) -> str | None:
    """An identifier as text; some sellers number what they have, and A2A makes floats of numbers. One that a
    float cannot tell from its neighbours is none: it could be another's; nor is one of more than `longest`
    characters."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_FLOAT:
        value = int(value)
    try:
        named = str(value) if isinstance(value, str | int) and value != "" else None
    except ValueError:  # more digits than Python writes out
        return None
    return None if named is not None and longest is not None and len(named) > longest else named


def number_of(value: object) -> float | None:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def whole_of(value: object) -> int | None:
    """A whole number, also where it came as a float."""
    number = number_of(value)
    return int(number) if number is not None and number.is_integer() else None


def boolean_of(value: object) -> bool | None:
    """Yes or no, also as the text or the number that some sellers make of a boolean; None for anything
    else."""
    if isinstance(value, bool):
        return value
    said = value.strip().lower() if isinstance(value, str) else str(whole_of(value))
    return True if said in _YES else False if said in _NO else None


def parse_time(value: object) -> datetime | None:
    """An ISO 8601 time with an offset, in UTC; None for anything else, because a local time of unknown zone
    says nothing, and for a moment that nobody means (`clock.EARLIEST`, `clock.LATEST`)."""
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.fromisoformat(value)
        at = days.utc(parsed) if parsed.utcoffset() is not None else None
    except (ValueError, OverflowError):
        return None
    return at if at is not None and clock.EARLIEST <= at < clock.LATEST else None
