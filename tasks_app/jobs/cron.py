"""When a cron expression is due in a time zone, clock changes included (pure).

An hour that is written out ("30 2 * * *") is a person's: where the clocks skip it, it comes as much later;
where they show it twice, it counts once, the first time. An hour of "*" or "*/n" is a beat: it goes on
through both. (The rule of Vixie cron, cron(8).)
"""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

from croniter import CroniterError, croniter

_FIELDS = 5
_NAMES = {*calendar.month_abbr, *calendar.day_abbr} - {""}
_TICK = timedelta(seconds=1)
_AROUND_A_CHANGE = timedelta(hours=3)
_BACK = tuple(timedelta(hours=hours) for hours in (1, 24, 32 * 24, 366 * 24, 8 * 366 * 24))


class CronError(ValueError):
    """No cron expression that is ever due, or no time zone; the text says why, for people."""


def zone_read(name: str) -> ZoneInfo:
    """The IANA zone of that name. Raises CronError."""
    if name not in available_timezones():
        raise CronError(f"There is no time zone {name!r}.")
    return ZoneInfo(name)


def cron_read(expression: str) -> str:
    """The expression with single blanks. Raises CronError: not five fields, or never due."""
    fields = expression.split()
    if len(fields) != _FIELDS:
        raise CronError("Write five fields: minute, hour, day of month, month, day of week.")
    text = " ".join(fields)
    words = set(re.findall(r"[A-Za-z]+", text.upper())) - {name.upper() for name in _NAMES}
    if words or not re.fullmatch(r"[0-9A-Za-z*,/ -]+", text):
        raise CronError(f"{text!r} is no cron expression: numbers, names of months and days, * , - and /.")
    try:
        croniter(text, datetime(2000, 1, 1)).get_next(datetime)  # noqa: DTZ001 (a wall clock's)
    except (CroniterError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CronError(f"{text!r}: {error}") from error
    return text


def due_after(expression: str, zone: ZoneInfo, after: datetime) -> datetime:
    """The first moment (UTC) after `after` at which the expression is due."""
    beat = expression.split()[1].startswith("*")
    return _beat_after(expression, zone, after) if beat else _clock_after(expression, zone, after)


def due_last(expression: str, zone: ZoneInfo, until: datetime) -> datetime | None:
    """The last moment at or before `until` at which it was due; None for none in eight years."""
    for back in _BACK:
        found = None
        due = due_after(expression, zone, until - back)
        while due <= until:
            found, due = due, due_after(expression, zone, due)
        if found is not None:
            return found
    return None


def _clock_after(expression: str, zone: ZoneInfo, after: datetime) -> datetime:
    """By the wall clock: each reading once, one that is skipped as much later (PEP 495, fold 0)."""
    # From a little before: what the clocks skipped comes later than it reads.
    readings = croniter(expression, _wall(after, zone) - _AROUND_A_CHANGE)
    while True:
        due = _fold_0(readings.get_next(datetime), zone)
        if due > after:
            return due


def _beat_after(expression: str, zone: ZoneInfo, after: datetime) -> datetime:
    """By real time: every moment whose wall clock the expression matches."""
    wall, offset = _wall(after, zone), _offset(after, zone)
    while True:
        due = (croniter(expression, wall).get_next(datetime) - offset).replace(tzinfo=UTC)
        if _offset(due, zone) == offset:
            return due
        # The clocks change before that: look on from there, by the new time.
        after = _change(zone, after, due)
        wall, offset = _wall(after, zone) - _TICK, _offset(after, zone)


def _change(zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """The first second in (low, high] with another offset than `low`'s."""
    offset = _offset(low, zone)
    while high - low > _TICK:
        middle = low + (high - low) / 2
        low, high = (middle, high) if _offset(middle, zone) == offset else (low, middle)
    return high.replace(microsecond=0)


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def _fold_0(wall: datetime, zone: ZoneInfo) -> datetime:
    return wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
