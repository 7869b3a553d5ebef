"""Days and moments: whose day it is.

A flight's days are days of its own zone; "today" is the viewer's, or of a zone that is named, never UTC's by
accident. Nothing else turns a moment into a day or a day into a moment (tests/desk/test_days.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from django.db.models.functions import TruncDate
from django.utils import timezone

from tasks_app import clock

_INSTANT = timedelta(microseconds=1)


def time_zones() -> Iterator[tuple[str, str]]:
    """Return the choices of a form's field for an IANA time zone."""
    return ((name, name.replace("_", " ")) for name in sorted(available_timezones()))


def zone_of(name: str) -> ZoneInfo:
    """The zone of that name, UTC for one that nobody knows."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")


def local(at: datetime, zone: str = "") -> datetime:
    """The same moment as clocks in `zone` show it; without a zone, the viewer's. At the calendar's very ends,
    where clocks there have no day for it, in UTC."""
    try:
        return at.astimezone(zone_of(zone)) if zone else timezone.localtime(at)
    except OverflowError:
        return utc(at)


def wall(at: datetime, zone: str = "") -> datetime:
    """What clocks there show, without a zone: to be computed with as days of 24 hours, or edited."""
    return local(at, zone).replace(tzinfo=None)


def placed(wall: datetime, zone: str) -> datetime:
    """The moment at which clocks there show `wall`, which names no zone."""
    return wall.replace(tzinfo=zone_of(zone))


def utc(at: datetime) -> datetime:
    """The same moment in UTC."""
    return at.astimezone(UTC)


def day_of(at: datetime, zone: str = "") -> date:
    """The day that a moment is on there."""
    return local(at, zone).date()


def day_of_column(moment: str) -> TruncDate:
    """Which day the moment in a column falls on for the viewer: for what is counted in the database."""
    return TruncDate(moment, tzinfo=timezone.get_current_timezone())


def last_day(end: datetime, zone: str = "") -> date:
    """The last day of what is over at `end` (exclusive)."""
    return day_of(end - _INSTANT, zone)


def today(zone: str = "") -> date:
    """The day it is there now."""
    return day_of(clock.now(), zone)


def start_of(day: date, zone: str = "") -> datetime:
    """The first moment of a day there."""
    return datetime.combine(day, time(), zone_of(zone) if zone else timezone.get_current_timezone())


def before(at: datetime, span: timedelta, zone: str = "") -> datetime:
    """So long before a moment, whole days by the clocks there: midnight stays midnight when they change."""
    whole = timedelta(days=span.days)
    return local(local(at, zone) - whole, zone) - (span - whole)


def between(start: datetime, end: datetime, zone: str = "") -> timedelta:
    """How long from one moment to another by the clocks there: from midnight to midnight, whole days."""
    return wall(end, zone) - wall(start, zone)


def after(at: datetime, span: timedelta, zone: str = "") -> datetime:
    """So long after a moment, whole days by the clocks there."""
    return before(at, -span, zone)


def end_of(day: date, zone: str = "") -> datetime:
    """The moment after a day there."""
    return start_of(day + timedelta(days=1), zone)
