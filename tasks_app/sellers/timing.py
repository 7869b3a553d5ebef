"""The numbers by which a seller is asked, waited for and left alone: the defaults, or the seller's own.

`Seller.timing` holds only what somebody changed for that seller; everything else is the default below. Each
names its source: a part of document 000 where that states the number, else it is Flightdeck's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError

from tasks_app.adcp.values import number_of
from tasks_app.sellers.models import Seller

_HANDLER, _MONITORING = "document 000, Async Operation Handler", "document 000, Task Monitoring"
_WEBHOOKS, _RECOVERY = "document 000, Webhook Support", "document 000, Error Recovery"
_OURS = "Flightdeck's own"


@dataclass(frozen=True, kw_only=True)
class Number:
    """One number that may be set per seller: unit `s` (seconds), `times`, or `x` (a factor)."""

    label: str
    unit: str
    default: float
    least: float
    most: float
    source: str


def _seconds(label: str, default: float, source: str, most: float = 86_400) -> Number:
    return Number(label=label, unit="s", default=default, least=0.5, most=most, source=source)


def _times(label: str, default: int, source: str, most: int = 100_000) -> Number:
    return Number(label=label, unit="times", default=default, least=1, most=most, source=source)


NUMBERS: Mapping[str, Number] = {
    "submitted_s": _seconds("Submitted: look every", 60, _HANDLER),
    "submitted_polls": _times("Submitted: so often, then as when overdue", 1440, _HANDLER),
    "working_s": _seconds("Working: look every", 5, _HANDLER),
    "working_polls": _times("Working: so often, then as submitted", 24, _HANDLER),
    "webhook_first_s": _seconds("With webhooks: first look after", 120, _WEBHOOKS),
    "webhook_next_s": _seconds("With webhooks: then again after, doubling", 30, _OURS),
    "webhook_cap_s": _seconds("With webhooks: at most", 120, _OURS),
    "webhook_until_s": _seconds("With webhooks: relied on until", 600, _WEBHOOKS),
    "input_first_s": _seconds("Input or credentials wanted: first look after", 30, _MONITORING),
    "input_factor": Number(
        label="Input or credentials wanted: growing by",
        unit="x",
        default=1.5,
        least=1,
        most=10,
        source=_MONITORING,
    ),
    "input_cap_s": _seconds("Input or credentials wanted: at most", 300, _MONITORING),
    "overdue_s": _seconds("Overdue: look every", 900, _OURS),
    "jitter": Number(label="Each wait longer by up to", unit="x", default=0.1, least=0, most=1, source=_OURS),
    "call_attempts": _times("Calls: attempts", 3, _RECOVERY, most=20),
    "call_first_s": _seconds("Calls: again after, doubling", 1, _RECOVERY),
    "call_cap_s": _seconds("Calls: at most", 60, _RECOVERY),
    "repeat_floor_s": _seconds("Calls: never sooner than after, whatever the seller says", 6, _OURS),
    "unclear_cap_s": _seconds("Purchases of unknown outcome: at most", 900, _OURS),
    "breaker_failures": _times("Left alone after failures in a row", 5, _OURS, most=1000),
    "breaker_reset_s": _seconds("Left alone for", 30, _OURS),
}
# Deadlines by type: their defaults are settings.OPERATION_DEADLINES.
_DEADLINES = {
    "create_media_buy": "Deadline of a purchase",
    "update_media_buy": "Deadline of a change",
    "creative_approval": "Deadline of creatives' approval",
    "read": "Deadline of a read",
}
_MOST_DEADLINE_S = 90 * 86_400


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One number as it stands for a seller: `own` where somebody set it for this seller, with its source."""

    name: str
    label: str
    unit: str
    value: float
    default: float
    own: bool
    source: str


def timing_numbers() -> dict[str, Number]:
    """Every number that may be set per seller, deadlines included."""
    deadlines = {
        f"deadline_{task}_s": Number(
            label=label,
            unit="s",
            default=settings.OPERATION_DEADLINES[task].total_seconds(),
            least=1,
            most=_MOST_DEADLINE_S,
            source="document 000, Timeout Handling" if task != "read" else _OURS,
        )
        for task, label in _DEADLINES.items()
    }
    return {**NUMBERS, **deadlines}


def timing(seller: Seller | None, name: str) -> float:
    """One number for a seller: its own, else the default (also for None)."""
    own = seller.timing.get(name) if seller is not None else None
    return float(own) if own is not None else NUMBERS[name].default


def timing_deadline(seller: Seller | None, kind: str) -> timedelta:
    """How long an operation of `kind` (a key of settings.OPERATION_DEADLINES) may take at a seller."""
    own = seller.timing.get(f"deadline_{kind}_s") if seller is not None else None
    return timedelta(seconds=own) if own is not None else settings.OPERATION_DEADLINES[kind]


def timing_settings(seller: Seller) -> list[Setting]:
    """Every number as it stands for a seller, with its source, for people."""
    return [
        Setting(
            name=name,
            label=number.label,
            unit=number.unit,
            value=float(seller.timing.get(name, number.default)),
            default=number.default,
            own=name in seller.timing,
            source="this seller's own" if name in seller.timing else number.source,
        )
        for name, number in timing_numbers().items()
    ]


def timing_clean(given: Mapping[str, Any]) -> dict[str, float]:
    """`given` as it is kept: known names, finite numbers within their limits, what equals its default left
    out. Raises ValidationError naming every problem by its field (`timing_<name>`)."""
    numbers = timing_numbers()
    problems: dict[str, str] = {}
    kept: dict[str, float] = {}
    for name, value in given.items():
        number = numbers.get(name)
        if number is None:
            raise ValidationError(f"{name[:60]}: there is no such number")
        if value is None:
            continue
        problem = _problem(number, value)
        if problem:
            problems[f"timing_{name}"] = problem
        elif float(value) != number.default:
            kept[name] = int(value) if number.unit == "times" else float(value)
    if problems:
        raise ValidationError(problems)
    return kept


def _problem(number: Number, value: Any) -> str:
    if number_of(value) is None:
        return "is no number"
    if not number.least <= value <= number.most:
        return f"must be from {number.least:g} to {number.most:g}"
    if number.unit == "times" and value != int(value):
        return "must be a whole number"
    return ""
