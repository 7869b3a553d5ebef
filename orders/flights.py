"""Rules of flights: none that has begun is bought, and packages run within their media buy's flight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from orders.changes.open_changes import cancels_all
from orders.models import Deal, lines_read_once
from tasks_app import clock, days
from tasks_app.adcp.values import parse_time

_Date = TypeVar("_Date", datetime, datetime | None)
_NOTICE_DAYS = 2  # new dates are offered from the second day after today, so that people can decide
_NOT_WITHIN = "would not run within the media buy's flight: move both"
BEGUN, OVER = "Its flight has begun", "Its flight is over"


@dataclass(frozen=True, kw_only=True)
class Named:
    """[start, end), as far as it is named."""

    start: datetime | None
    end: datetime | None


_NOTHING = Named(start=None, end=None)


@dataclass(frozen=True, kw_only=True)
class Flight(Named):
    """[start, end)."""

    start: datetime
    end: datetime


def flight_passed(flights: Iterable[Named]) -> str:
    """Why what runs then is not bought any more, in words; empty while it can be."""
    known, now = list(flights), clock.now()
    if any(one.end is not None and one.end <= now for one in known):
        return OVER
    return BEGUN if any(one.start is not None and one.start <= now for one in known) else ""


def deal_passed(deal: Deal) -> str:
    """The same of a deal and each of its lines."""
    whole = Flight(start=deal.start_at, end=deal.end_at)
    return flight_passed([whole, *(Flight(start=one.start_at, end=one.end_at) for one in deal.lines.all())])


def deal_begins(deal: Deal) -> datetime:
    """When the first of a deal's lines begins: from then on it is not bought as it stands."""
    return min([deal.start_at, *(line.start_at for line in deal.lines.all())])


def request_passed(request: Mapping[str, Any]) -> str:
    """The same of every date that a request names, as it would leave."""
    return flight_passed(_named(request))


def change_passed(deal: Deal, request: Mapping[str, Any]) -> str:
    """The same of update_media_buy: of the dates that it moves."""
    if cancels_all(request):
        return ""
    held: set[datetime | None] = {deal.start_at, deal.end_at}
    for line in deal.lines.all():
        held |= {line.start_at, line.end_at, line.confirmed_start_at, line.confirmed_end_at}
    moved = [
        Named(start=None if one.start in held else one.start, end=None if one.end in held else one.end)
        for one in _named(request)
    ]
    return flight_passed(moved)


def offered_flight(deal: Deal) -> Flight:
    """Return the flight that a copy of the deal is offered: as many days, from the second day after today."""
    first = max(days.today(deal.zone) + timedelta(days=_NOTICE_DAYS), days.day_of(deal.start_at, deal.zone))
    length = days.last_day(deal.end_at, deal.zone) - days.day_of(deal.start_at, deal.zone)
    start = days.utc(days.start_of(first, deal.zone))
    return Flight(start=start, end=days.utc(days.end_of(first + length, deal.zone)))


def line_flight(line: Flight, before: Flight, after: Flight, zone: str) -> Flight:
    """A line's within its deal's new one: as it is where it lies within that, else so much later, by the
    clocks of `zone`. What ran with the whole still does."""
    if after.start <= line.start and line.end <= after.end:
        return line
    later = days.between(before.start, after.start, zone)
    start = after.start if line.start == before.start else days.after(line.start, later, zone)
    end = after.end if line.end == before.end else min(days.after(line.end, later, zone), after.end)
    return Flight(start=start, end=end) if start < end else after


def change_crossing(deal: Deal, change: Mapping[str, Any]) -> str:
    """Return why a change would leave something of a media buy without a flight, empty if it does not."""
    after = _flights_after(deal, change)
    if _crosses(after.whole):
        return "the flight would end before it starts"
    crossed = [name for name, line in after.lines if _crosses(line)]
    return f"{', '.join(crossed)} would end before it starts" if crossed else ""


def package_problem(dates: Named, whole: Named) -> str:
    """Why a package that is to be bought with its own `dates` has no flight within its media buy's; empty
    where it has. What it does not name is the media buy's."""
    own = Named(start=dates.start or whole.start, end=dates.end or whole.end)
    if _crosses(own):
        return "it ends before it starts"
    return f"it {_NOT_WITHIN}" if _is_outside(own, whole) else ""


@lines_read_once
def change_outside(deal: Deal, change: Mapping[str, Any]) -> str:
    """Return why a change would leave packages outside of the media buy's flight, empty if it does not.

    By AdCP's package-request a package's dates fall within the media buy's. One that runs with the media buy
    follows it.
    """
    before, after = _flights_after(deal, {}), _flights_after(deal, change)
    now = zip(before.lines, after.lines, strict=True)
    touched = [line for was, line in now if line != was or after.whole != before.whole]
    outside = [name for name, line in touched if _is_outside(line, after.whole)]
    named = ", ".join(outside)
    return f"{named} {_NOT_WITHIN}" if outside else ""


def flight_after(deal: Deal, request: Mapping[str, Any]) -> Flight:
    """Return a deal's flight after a request (of its purchase or of a change)."""
    start = parse_time(request.get("start_time")) or deal.start_at
    end = parse_time(request.get("end_time")) or deal.end_at
    return Flight(start=start, end=end)


@dataclass(frozen=True, kw_only=True)
class _Flights:
    """Of a media buy, and of each package by its id."""

    whole: Named
    lines: tuple[tuple[str, Named], ...]


def _flights_after(deal: Deal, change: Mapping[str, Any]) -> _Flights:
    whole = Named(start=deal.start_at, end=deal.end_at)
    to, *named = _named(change)
    packages = change.get("packages") or ()
    own = {str(one.get("package_id")): dates for one, dates in zip(packages, named, strict=True)}
    lines = [
        (
            line.package_id,
            _line_after(
                Named(start=line.start_at, end=line.end_at), whole, to, own.get(line.package_id, _NOTHING)
            ),
        )
        for line in deal.lines.all()
    ]
    return _Flights(whole=Named(start=to.start or whole.start, end=to.end or whole.end), lines=tuple(lines))


def _line_after(line: Named, whole: Named, to: Named, own: Named) -> Named:
    """A line that ran with the whole media buy still does, unless it is moved itself."""
    start, end = moved(line.start, whole.start, to.start), moved(line.end, whole.end, to.end)
    return Named(start=own.start or start, end=own.end or end)


def moved(own: _Date, whole: _Date, to: datetime | None) -> _Date:
    """A line's date once the whole media buy's becomes `to` (None: it stays): it moves along where it was the
    same."""
    return own if to is None or own != whole else to


def _is_outside(line: Named, whole: Named) -> bool:
    early = line.start is not None and whole.start is not None and line.start < whole.start
    return early or (line.end is not None and whole.end is not None and line.end > whole.end)


def _crosses(dates: Named) -> bool:
    return dates.start is not None and dates.end is not None and dates.start >= dates.end


def _named(request: Mapping[str, Any]) -> Iterator[Named]:
    packages = request.get("packages")
    for part in (request, *(packages if isinstance(packages, list) else ())):
        if isinstance(part, Mapping):
            yield Named(start=parse_time(part.get("start_time")), end=parse_time(part.get("end_time")))
