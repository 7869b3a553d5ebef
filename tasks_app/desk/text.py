"""Numbers, money and times as people read them (design: tabular figures, ISO decimals, true minus)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.utils import timezone

from tasks_app import clock
from tasks_app.money import decimal_of, exponent

SPACE = "\N{NO-BREAK SPACE}"
MINUS = "\N{MINUS SIGN}"
_WRITABLE = 24  # digits; a seller may state 1e999999
_MOMENT = timedelta(seconds=0.1)
DASH = "\N{EN DASH}"


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
    """An amount without its currency code; `places` None means the currency's own (2 for USD, 0 for JPY)."""
    return number(value, exponent(currency) if places is None else places)


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


def zone_of(name: str) -> ZoneInfo:
    """The zone of that name, UTC for one that nobody knows."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")


def zone_name(name: str = "") -> str:
    """New York for America/New_York; without a name, the viewer's zone."""
    return (name or timezone.get_current_timezone_name()).rpartition("/")[2].replace("_", " ")


def day(at: datetime | None, zone: str = "") -> str:
    """Wed 18 Nov, with the year where it is not this one."""
    if at is None:
        return DASH
    local = _local(at, zone)
    year = f"{SPACE}{local.year}" if local.year != _local(clock.now(), zone).year else ""
    return f"{local:%a}{SPACE}{local.day}{SPACE}{local:%b}{year}"


def moment(at: datetime | None, zone: str = "") -> str:
    """Wed 18 Nov, 12:00 in the viewer's zone, or in `zone`."""
    return DASH if at is None else f"{day(at, zone)}, {_local(at, zone):%H:%M}"


def moment_short(at: datetime | None) -> str:
    """12:00 today, tomorrow 12:00 or yesterday 12:00, Wed 18 Nov, 12:00 else; in the viewer's zone."""
    if at is None:
        return DASH
    local, today = timezone.localtime(at), timezone.localtime(clock.now()).date()
    near = {0: "today", 1: "tomorrow", -1: "yesterday"}.get((local.date() - today).days)
    return f"{near}{SPACE}{local:%H:%M}" if near else moment(at)


def flight(start: datetime | None, end: datetime | None, zone: str) -> str:
    """1 – 31 Dec 2026: [start, end) with the inclusive last day, in the flight's own zone."""
    if start is None or end is None:
        return DASH
    first, last = _local(start, zone), _local(end - timedelta(microseconds=1), zone)
    until = f"{last.day}{SPACE}{last:%b}{SPACE}{last.year}"
    if first.date() == last.date():
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
    local = timezone.localtime(due)
    days = (local.date() - timezone.localtime(now).date()).days
    if abs(days) < 2:
        right = f"{local:%H:%M}"
    else:
        right = f"{local:%a}{SPACE}{local:%H:%M}" if abs(days) < 7 else day(due)
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


def _local(at: datetime, zone: str) -> datetime:
    return at.astimezone(zone_of(zone)) if zone else timezone.localtime(at)
