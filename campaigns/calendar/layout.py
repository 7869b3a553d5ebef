"""Where things stand on the calendar's pages, in the viewer's zone: four weeks as lanes, a month as days."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from campaigns.calendar.entries import Calendar, Entry, Lane
from tasks_app import days
from tasks_app.desk import text

DAYS = 28
_WEEK = 7


@dataclass(frozen=True, kw_only=True)
class Day:
    """One day of the head: `x` and `width` in percent of the time shown."""

    day: date
    x: str
    width: str
    weekend: bool
    today: bool


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A date on a lane, `x` in percent; `said` is the same in words."""

    entry: Entry
    x: str
    said: str


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A lane: its bar from `x`, `width` wide, in percent (None: the flight is outside); whether the flight
    goes on beyond either end; its marks; all of it in words."""

    lane: Lane
    x: str | None
    width: str
    before: bool
    after: bool
    marks: tuple[Mark, ...]
    label: str


def monday(day: date) -> date:
    """The first day of its week."""
    return day - timedelta(days=day.weekday())


def percent(at: datetime, first: date, *, zone: str = "") -> float:
    """How far into the four weeks from `first` a moment is, in percent by the clocks of `zone` (the viewer's
    without one); may be outside 0 to 100."""
    begin = datetime(first.year, first.month, first.day)  # noqa: DTZ001 (compared with a wall clock)
    return (days.wall(at, zone) - begin) / timedelta(days=DAYS) * 100


def days_of(first: date, count: int = DAYS) -> list[Day]:
    """The days of the head."""
    width, today = 100 / count, days.today()
    return [
        Day(
            day=(day := first + timedelta(days=index)),
            x=f"{index * width:.4f}",
            width=f"{width:.4f}",
            weekend=day.weekday() >= 5,
            today=day == today,
        )
        for index in range(count)
    ]


def drawn(calendar: Calendar, first: date) -> list[Drawn]:
    """The lanes that have something to show in the four weeks from `first`."""
    found = [_drawn(lane, first) for lane in calendar.lanes]
    return [one for one in found if one.x is not None or one.marks]


def _drawn(lane: Lane, first: date) -> Drawn:
    deal = lane.deal
    start, end = (percent(at, first, zone=deal.zone) for at in (deal.start_at, deal.end_at))
    inside = start < 100 and end > 0
    left, right = max(start, 0.0), min(end, 100.0)
    marks = tuple(
        Mark(entry=entry, x=f"{at:.4f}", said=_said(entry))
        for entry in sorted(lane.entries, key=lambda entry: entry.at)
        if entry.kind not in ("start", "end") and 0 <= (at := percent(entry.at, first, zone=entry.zone)) < 100
    )
    return Drawn(
        lane=lane,
        x=f"{left:.4f}" if inside else None,
        width=f"{right - left:.4f}" if inside else "0",
        before=start < 0,
        after=end > 100,
        marks=marks,
        label="; ".join([f"{lane.name}: {_LOOKS[lane.look]}", *(mark.said for mark in marks)]),
    )


_LOOKS = {"firm": "booked", "soft": "out with the seller", "ask": "not approved yet"}


def _said(entry: Entry) -> str:
    return f"{entry.label} {text.weekday(entry.day)}, {entry.hour}"


def by_day(entries: Iterable[Entry]) -> dict[date, list[Entry]]:
    """Entries under their day, in the order they have."""
    found: dict[date, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.day, []).append(entry)
    return found


def month_days(month: date) -> tuple[date, int]:
    """The Monday that the month's sheet begins with, and how many days it shows (whole weeks)."""
    first = monday(month.replace(day=1))
    last = next_month(month) - timedelta(days=1)
    return first, ((last - first).days // _WEEK + 1) * _WEEK


def next_month(month: date) -> date:
    """The first of the month after."""
    return (month.replace(day=28) + timedelta(days=4)).replace(day=1)


def weeks_of(entries: Iterable[Entry], month: date) -> list[list[tuple[Day, list[Entry], bool]]]:
    """The month's sheet: weeks of (day, its entries, whether it belongs to the month)."""
    first, count = month_days(month)
    found = by_day(entries)
    cells = [
        (day, found.get(day.day, []), (day.day.year, day.day.month) == (month.year, month.month))
        for day in days_of(first, count)
    ]
    return [cells[at : at + _WEEK] for at in range(0, count, _WEEK)]


def next_days(entries: Sequence[Entry], count: int = 4) -> list[tuple[date, list[Entry]]]:
    """The first days from today on with something to see to."""
    coming = by_day(entry for entry in entries if entry.day >= days.today())
    return sorted(coming.items())[:count]
