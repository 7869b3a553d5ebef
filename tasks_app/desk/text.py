"""Numbers, money and times as people read them (design: tabular figures, ISO decimals, true minus)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.utils import timezone

from tasks_app import clock, days
from tasks_app.money import decimal_of, exponent, is_currency

SPACE = "\N{NO-BREAK SPACE}"
MINUS = "\N{MINUS SIGN}"
_WRITABLE = 24  # digits; a seller may state 1e999999
_LONGEST_STATED = 80
_MOMENT = timedelta(seconds=0.1)
DASH = "\N{EN DASH}"
_iso: ContextVar[bool] = ContextVar("iso_dates", default=False)


@contextmanager
def iso_dates() -> Iterator[None]:
    """Within the block, write every date in full as ISO 8601 has it, for spreadsheets."""
    before = _iso.set(True)
    try:
        yield
    finally:
        _iso.reset(before)


def number(value: Any, places: int | None = None) -> str:
    """Thousands separated, `places` decimals (None: as many as it has, no trailing zeros); – for none."""
    exact = decimal_of(value)
    if exact is None:
        return DASH
    if abs(exact.adjusted()) > _WRITABLE:
        return f"{exact:.3e}".replace("-", MINUS)
    if places is None:
        exact = exact.normalize()
        text = f"{exact.quantize(Decimal(1)) if exact == exact.to_integral() else exact:,f}"
    else:
        text = f"{exact:,.{places}f}"
    return text.replace("-", MINUS)


def amount(value: Any, currency: str, places: int | None = None) -> str:
    """An amount without its currency code; `places` None means the currency's own (2 for USD, 0 for JPY), as
    many as it has in what is no currency."""
    if places is None and is_currency(currency):
        places = exponent(currency)
    return number(value, places)


def amount_plain(value: Any, currency: str) -> str:
    """35200.00: an amount as a spreadsheet reads it; empty for none."""
    return "" if value is None else amount(value, currency).replace(",", "").replace(MINUS, "-")


def stated(value: Any) -> str:
    """What a stranger wrote, as it stands: on one line, cut; empty for nothing."""
    said = "" if value is None else " ".join(str(value).split())
    return said if len(said) <= _LONGEST_STATED else f"{said[:_LONGEST_STATED]}…"


def number_stated(value: Any) -> str:
    """A stranger's number, and as it was stated where nobody can read it; empty for nothing."""
    return stated(value) if decimal_of(value) is None else number(value)


def amounts(pairs: Iterable[tuple[str, Decimal | None]]) -> list[tuple[str, Decimal]]:
    """(currency, sum) per currency, the largest first: different currencies are never added."""
    totals: dict[str, Decimal] = {}
    for currency, value in pairs:
        if value is not None and currency:
            totals[currency] = totals.get(currency, Decimal(0)) + value
    return sorted(totals.items(), key=lambda pair: (-pair[1], pair[0]))


def duration(span: timedelta) -> str:
    """6 h 48 m, 1 d 2 h, 38 m, 12 s; never a sign, never a line break."""
    seconds = abs(span.total_seconds())
    if seconds < 10:
        return f"{seconds:.1f}{SPACE}s"
    if seconds < 60:
        return f"{seconds:.0f}{SPACE}s"
    minutes = int(seconds // 60)
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    if days:
        parts = [f"{days}{SPACE}d", f"{hours}{SPACE}h" if hours else ""]
    else:
        parts = [
            f"{hours}{SPACE}h" if hours else "",
            f"{minutes:02d}{SPACE}m" if hours else f"{minutes}{SPACE}m",
        ]
    return SPACE.join(part for part in parts if part)


def lasted(span: timedelta) -> str:
    """A duration that is never none: < 0.1 s for what was over at once."""
    return duration(span) if span >= _MOMENT else f"<{SPACE}{duration(_MOMENT)}"


def zone_name(name: str = "") -> str:
    """New York for America/New_York; without a name, the viewer's zone."""
    return (name or timezone.get_current_timezone_name()).rpartition("/")[2].replace("_", " ")


def day(at: datetime | None, zone: str = "") -> str:
    """Wed 18 Nov, with the year where it is not this one."""
    return DASH if at is None else weekday(days.day_of(at, zone))


def weekday(said: date) -> str:
    """Wed 18 Nov, with the year where it is not this one; 2026-11-18 within `iso_dates`."""
    if _iso.get():
        return said.isoformat()
    year = f"{SPACE}{said.year}" if said.year != days.today().year else ""
    return f"{said:%a}{SPACE}{said.day}{SPACE}{said:%b}{year}"


def moment(at: datetime | None, zone: str = "") -> str:
    """Wed 18 Nov, 12:00 in the viewer's zone, or in `zone`."""
    if at is None:
        return DASH
    comma = "" if _iso.get() else ","
    return f"{day(at, zone)}{comma} {days.local(at, zone):%H:%M}"


def moment_kept(at: datetime) -> str:
    """Wed 18 Nov, 12:00 UTC: for logs, errors and texts that are read in several zones.

    In a notification use `notifications.moments.moment_token`.
    """
    return f"{moment(at, 'UTC')} UTC"


def moment_there(at: datetime | None, zone: str) -> str:
    """Wed 18 Nov, 12:00 New York: by the clocks of `zone`, which is named."""
    return f"{moment(at, zone)} {zone_name(zone)}" if at is not None else DASH


def flight_edge(name: str, at: datetime, zone: str) -> str:
    """A flight's first or last day (the end is exclusive), with the hour where it is not midnight. `name`:
    start or end."""
    first = days.day_of(at, zone)
    if at != days.start_of(first, zone):
        return moment_there(at, zone)
    return weekday(first if name == "start" else days.last_day(at, zone))


def moment_exact(at: datetime) -> str:
    """Wed 18 Nov, 12:00:07 in the viewer's zone."""
    return f"{moment(at)}:{days.local(at):%S}"


def moment_now() -> str:
    """Tue 17 Nov 2026, 09:12 New York: the clock of the viewer's zone."""
    local = days.local(clock.now())
    return f"{local:%a} {local.day} {local:%b} {local.year}, {local:%H:%M} {zone_name()}"


def hour(at: datetime, zone: str = "") -> str:
    """12:00 in the viewer's zone; 12:00 New York in `zone`, where that is another."""
    elsewhere = zone not in ("", timezone.get_current_timezone_name())
    return f"{days.local(at, zone):%H:%M}{f' {zone_name(zone)}' if elsewhere else ''}"


def moment_short(at: datetime | None) -> str:
    """12:00 today, tomorrow 12:00 or yesterday 12:00, Wed 18 Nov, 12:00 else; in the viewer's zone."""
    if at is None:
        return DASH
    if _iso.get():
        return moment(at)
    near = {0: "today", 1: "tomorrow", -1: "yesterday"}.get((days.day_of(at) - days.today()).days)
    return f"{near}{SPACE}{days.local(at):%H:%M}" if near else moment(at)


def flight(start: datetime | None, end: datetime | None, zone: str) -> str:
    """1 – 31 Dec 2026: [start, end) with the inclusive last day, in the flight's own zone."""
    if start is None or end is None:
        return DASH
    first, last = days.day_of(start, zone), days.last_day(end, zone)
    until = f"{last.day}{SPACE}{last:%b}{SPACE}{last.year}"
    if first == last:
        return until
    since = f"{first.day}"
    if (first.year, first.month) != (last.year, last.month):
        since += f"{SPACE}{first:%b}"
    if first.year != last.year:
        since += f"{SPACE}{first.year}"
    return f"{since}{SPACE}{DASH}{SPACE}{until}"


@dataclass(frozen=True)
class Age:
    """Time against a deadline: what is said on the left and right, and how much is used up, in percent."""

    left: str
    right: str
    percent: int

    @property
    def look(self) -> str:
        """near from 75 %, over when the deadline has passed; empty before."""
        return "over" if self.percent >= 100 else "near" if self.percent >= 75 else ""


def time_left(since: datetime, due: datetime, now: datetime | None = None) -> Age:
    """6 h 48 m left | 16:00."""
    now = now or clock.now()
    said = f"{duration(due - now)} {'over' if now >= due else 'left'}"
    local = days.local(due)
    away = (days.day_of(due) - days.day_of(now)).days
    if abs(away) < 2:
        right = f"{local:%H:%M}"
    else:
        right = f"{local:%a}{SPACE}{local:%H:%M}" if abs(away) < 7 else day(due)
    return Age(said, right, _used(since, due, now))


def time_used(since: datetime, due: datetime | None, now: datetime | None = None) -> Age:
    """19 h 42 m | of 24 h."""
    now = now or clock.now()
    if due is None:
        return Age(duration(now - since), "no deadline", 0)
    if now >= due:
        return Age(f"{duration(now - due)} over", f"of{SPACE}{_whole(due - since)}", 100)
    return Age(duration(now - since), f"of{SPACE}{_whole(due - since)}", _used(since, due, now))


def _whole(span: timedelta) -> str:
    """24 h rather than 1 d for limits of up to two days, as the documents state them."""
    hours, rest = divmod(round(span.total_seconds()), 3600)
    return f"{hours}{SPACE}h" if rest == 0 and 0 < hours <= 48 else duration(span)


def _used(since: datetime, due: datetime, now: datetime) -> int:
    if now >= due:
        return 100
    whole = (due - since).total_seconds()
    return max(0, min(99, round(100 * (now - since).total_seconds() / whole))) if whole > 0 else 99
