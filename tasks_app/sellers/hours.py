"""A seller's business hours: read and written by people as one line, counted with as a deadline.

Wall-clock times of the seller's own zone: on a day on which the clocks change, an opening of 00:00 to 06:00
is an hour shorter or longer, as it is for the people there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.core.exceptions import ValidationError

from tasks_app import days

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_KEYS = {"zone", "weekdays", "from", "to"}
_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d|24:00")
_LINE = re.compile(
    r"(?P<days>\S+)\s+(?P<opens>\d\d:\d\d)\s*[-\u2013]\s*(?P<closes>\d\d:\d\d)\s+(?P<zone>\S+)"
)
_EXAMPLE = "Mon-Fri 09:00-17:30 America/New_York"


@dataclass(frozen=True, kw_only=True)
class BusinessHours:
    """Open on `weekdays` (ISO, 1 is Monday) from `opens` to `closes`, minutes since midnight, in `zone`."""

    zone: ZoneInfo
    weekdays: frozenset[int]
    opens: int
    closes: int

    def __str__(self) -> str:
        return f"{_days_words(self.weekdays)} {_wall(self.opens)}-{_wall(self.closes)} {self.zone.key}"

    def as_json(self) -> dict[str, Any]:
        """As it is stored: zone, weekdays, from, to."""
        return {
            "zone": self.zone.key,
            "weekdays": sorted(self.weekdays),
            "from": _wall(self.opens),
            "to": _wall(self.closes),
        }


def hours_of(stored: Any) -> BusinessHours | None:
    """What is stored (`{zone, weekdays, from, to}`; empty: none). Raises ValidationError."""
    if stored in (None, {}, ""):
        return None
    if not isinstance(stored, Mapping) or set(stored) != _KEYS:
        raise ValidationError("Business hours are zone, weekdays, from and to.")
    opens, closes = _minutes(stored["from"]), _minutes(stored["to"])
    if opens >= closes:
        raise ValidationError("Business hours end after they begin, on the same day.")
    return BusinessHours(
        zone=_zone(stored["zone"]), weekdays=_weekdays(stored["weekdays"]), opens=opens, closes=closes
    )


def hours_valid(stored: Any) -> None:
    """The model field's validator. Raises ValidationError."""
    hours_of(stored)


def hours_parse(line: str) -> BusinessHours | None:
    """One line of a person ("Mon-Fri 09:00-17:30 America/New_York"; empty: none). Raises ValidationError."""
    if not line.strip():
        return None
    found = _LINE.fullmatch(line.strip())
    if found is None:
        raise ValidationError(f"Write it like {_EXAMPLE}.")
    return hours_of(
        {
            "zone": found["zone"],
            "weekdays": _days_read(found["days"]),
            "from": found["opens"],
            "to": found["closes"],
        }
    )


def deadline_after(start: datetime, span: timedelta, hours: BusinessHours | None) -> datetime:
    """The moment at which `span` of open time has passed since `start` (aware); of any, without hours."""
    if hours is None:
        return start + span
    start, left, openings = days.utc(start), span, _openings(start, hours)
    while True:
        opens, closes = next(openings)
        begin = max(start, opens)
        if closes - begin >= left:
            return begin + left
        left -= max(closes - begin, timedelta())


def _openings(start: datetime, hours: BusinessHours) -> Iterator[tuple[datetime, datetime]]:
    """Openings in UTC, from the day of `start` on."""
    day = start.astimezone(hours.zone).date()
    while True:
        if day.isoweekday() in hours.weekdays:
            yield _at(day, hours.opens, hours.zone), _at(day, hours.closes, hours.zone)
        day += timedelta(days=1)


def _at(day: date, minutes: int, zone: ZoneInfo) -> datetime:
    """A wall-clock time in UTC; one that the clocks skip is as long after the change as it says."""
    wall = datetime.combine(day, time(), tzinfo=zone) + timedelta(minutes=minutes)
    return wall.astimezone(UTC)


def _minutes(value: Any) -> int:
    if not isinstance(value, str) or not _CLOCK.fullmatch(value):
        raise ValidationError("Times of day are written as 09:00.")
    return int(value[:2]) * 60 + int(value[3:])


def _wall(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _zone(name: Any) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError) as error:
        raise ValidationError("There is no such time zone; write it like America/New_York.") from error


def _weekdays(value: Any) -> frozenset[int]:
    days = value if isinstance(value, list) else []
    whole = [day for day in days if isinstance(day, int) and not isinstance(day, bool) and 1 <= day <= 7]
    if not whole or len(whole) != len(days):
        raise ValidationError("Weekdays are numbers from 1 (Monday) to 7.")
    return frozenset(whole)


def _days_read(words: str) -> list[int]:
    """Mon-Fri, or Mon,Wed,Fri. Raises ValidationError."""
    found: list[int] = []
    for part in words.split(","):
        first, _, last = part.partition("-")
        if first not in _DAYS or (last or first) not in _DAYS:
            raise ValidationError(f"Weekdays are {', '.join(_DAYS)}, as in Mon-Fri.")
        begin, end = _DAYS.index(first), _DAYS.index(last or first)
        found += [day % 7 + 1 for day in range(begin, end + 1 if end >= begin else end + 8)]
    return sorted(set(found))


def _days_words(days: frozenset[int]) -> str:
    ordered = sorted(days)
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{_DAYS[ordered[0] - 1]}-{_DAYS[ordered[-1] - 1]}"
    return ",".join(_DAYS[day - 1] for day in ordered)
