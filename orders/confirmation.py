"""Booked means confirmed: what the seller says it booked, beside what was approved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from orders.evidence import as_text
from orders.matching import Matched, is_cancelled, packages_of
from orders.models import Deal, DealLine
from orders.targeting import is_targeted, targeting_told
from tasks_app import clock
from tasks_app.adcp.values import identity_of, parse_time
from tasks_app.desk import text
from tasks_app.money import amount_of, rate_of

# What the columns hold; a seller's value beyond it is no value.
MAX_IDENTITY, _MAX_STATUS, _MAX_REVISION = 255, 40, 2**31
_CONFIRMED = [
    "package_id",
    "confirmed_budget",
    "confirmed_rate",
    "confirmed_start_at",
    "confirmed_end_at",
    "confirmed_targeting",
]
OVER_THERE = "completed"  # of a media buy that has delivered, in its seller's word
_MAX_AHEAD = timedelta(minutes=5)  # a clock further ahead would make all later news look old


def mirror(buy: Mapping[str, Any], *, asked_at: datetime | None = None) -> dict[str, Any]:
    """The Deal's mirror columns out of a media buy as create_media_buy or get_media_buys tells it.

    `media_buy_status` and `status` are the same thing under two names; what is not told is left out. As of:
    the seller's word, else `asked_at` (now).
    """
    told: dict[str, Any] = {"as_of": stated_at(buy) or asked_at or clock.now()}
    identity = identity_of(buy.get("media_buy_id"), longest=MAX_IDENTITY)
    if identity is not None:
        told["media_buy_id"] = identity
    for name in ("media_buy_status", "status"):
        if "media_buy_status" not in told and isinstance(buy.get(name), str):
            told["media_buy_status"] = buy[name][:_MAX_STATUS]
    revision = _revision(buy.get("revision"))
    if revision is not None:
        told["revision"] = revision
    if isinstance(buy.get("valid_actions"), list):
        told["valid_actions"] = [a for a in buy["valid_actions"] if isinstance(a, str)]
    for column in ("confirmed_at", "creative_deadline"):
        moment = parse_time(buy.get(column))
        if moment is not None:
            told[column] = moment
    return told


def _revision(value: Any) -> int | None:
    is_one = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_REVISION
    return value if is_one else None


# What is kept as stated where nobody can read it, by its AdCP name, with what reads it.
_READ: dict[str, Callable[[Any], object]] = {
    **dict.fromkeys(("confirmed_at", "creative_deadline", "status_as_of"), parse_time),
    "revision": _revision,
}


def values_unread(known: Mapping[str, str], buy: Mapping[str, Any]) -> dict[str, str]:
    """Moments and the revision of a media buy that nobody can read, as stated; `known` before, of which stays
    what this record says nothing about."""
    told = {name: buy[name] for name in _READ if buy.get(name) is not None}
    unread = {name: text.stated(value) for name, value in told.items() if _READ[name](value) is None}
    return {name: said for name, said in {**known, **unread}.items() if name in unread or name not in told}


def stated_at(buy: Mapping[str, Any]) -> datetime | None:
    """The seller's `status_as_of`; None where it states none, or one that lies ahead of us."""
    moment = parse_time(buy.get("status_as_of"))
    return moment if moment is not None and moment <= clock.now() + _MAX_AHEAD else None


def is_ended_early(deal: Deal, status: object) -> bool:
    """Whether a seller says of a flight that is still ahead that it is over, which cannot be."""
    return status == OVER_THERE and clock.now() < deal.start_at


def packages_take(deal: Deal, buy: Mapping[str, Any], found: Matched, *, whole: bool) -> None:
    """Put what the seller confirms of each line beside what was approved of it, not saved yet. `whole`: the
    record is the media buy's own, and a line that it has no package for comes to nothing; an answer may just
    be brief. Where either names no packages, dates of the whole media buy are theirs."""
    ours = is_in_currency(deal, buy)
    named = bool(packages_of(buy))
    for line, package in found.pairs:
        _confirm(line, package, priced=ours and is_in_currency(deal, package), whole=whole)
        _confirm_flight(deal, line, package, buy)
    for line in found.lines:
        if whole and named:
            line.confirmed_budget = Decimal(0)
        elif not named:
            _confirm_flight(deal, line, {}, buy)


def confirmed_values(line: DealLine) -> tuple[object, ...]:
    """All that its seller confirmed of a line."""
    return tuple(getattr(line, name) for name in _CONFIRMED)


def lines_save(lines: Sequence[DealLine], before: Sequence[tuple[object, ...]]) -> None:
    """Write what was confirmed of lines, where it is not as it was `before` (`confirmed_values` of each)."""
    pairs = zip(lines, before, strict=True)
    DealLine.objects.bulk_update([line for line, was in pairs if confirmed_values(line) != was], _CONFIRMED)


def is_in_currency(deal: Deal, told: Mapping[str, Any]) -> bool:
    """Whether amounts are told in the deal's currency, or in none that is named."""
    return told.get("currency") in (None, deal.currency)


def unconfirm(line: DealLine) -> None:
    """Take what a seller confirmed off a line that is not saved yet."""
    for name in _CONFIRMED:
        setattr(line, name, "" if name == "package_id" else None)


def differences(deal: Deal, lines: Iterable[DealLine]) -> list[dict[str, Any]]:
    """Every material departure (budget, dates, rate, targeting): line, field, approved, confirmed."""
    return [found for line in lines for found in _line_differences(line)]


def _line_differences(line: DealLine) -> list[dict[str, Any]]:
    pairs: list[tuple[str, Any, Any]] = [
        ("budget", line.budget, line.confirmed_budget),
        ("start", line.start_at, line.confirmed_start_at),
        ("end", line.end_at, line.confirmed_end_at),
        ("rate", line.rate, line.confirmed_rate),
        ("targeting", line.targeting or {}, line.confirmed_targeting),
    ]
    return [
        {
            "line": line.position,
            "product": line.product_name,
            "field": name,
            "approved": in_words(approved),
            "confirmed": in_words(confirmed),
        }
        for name, approved, confirmed in pairs
        if confirmed is not None and _differs(name, approved, confirmed)
    ]


def _differs(name: str, approved: Any, confirmed: Any) -> bool:
    if name == "targeting":
        # Asked and dropped or changed; what the seller adds of its own is shown, not flagged.
        return not is_targeted(confirmed, approved, approved)
    return bool(approved != confirmed)


def _confirm(line: DealLine, package: Mapping[str, Any], *, priced: bool, whole: bool) -> None:
    package_id = identity_of(package.get("package_id"))
    if package_id is not None:
        line.package_id = package_id[:MAX_IDENTITY]
    budget = amount_of(package.get("budget")) if priced else None
    if is_cancelled(package):
        budget = Decimal(0)  # nothing of it is spent any more: a departure like any other
    if budget is not None:
        line.confirmed_budget = budget
    elif line.confirmed_budget == 0 and _is_said_to_run(package, whole=whole):
        line.confirmed_budget = None  # it had come to nothing: what it costs now is not stated
    rate = rate_of(package.get("bid_price")) if priced else None
    if rate is not None:
        line.confirmed_rate = rate
    targeting = targeting_told(package, line.confirmed_targeting, whole=whole)
    if targeting is not None:
        line.confirmed_targeting = targeting


def _is_said_to_run(package: Mapping[str, Any], *, whole: bool) -> bool:
    """A record of the media buy names what runs; an answer may name what it was asked to cancel."""
    return is_cancelled(package) is False and (whole or "canceled" in package)


def _confirm_flight(deal: Deal, line: DealLine, package: Mapping[str, Any], buy: Mapping[str, Any]) -> None:
    """The package's own dates; where it states none, those of the whole media buy that it runs with or is cut
    by."""
    for edge, name in (("start_at", "start_time"), ("end_at", "end_time")):
        whole = parse_time(buy.get(name))
        told = parse_time(package.get(name)) or (_of_the_whole(deal, line, edge, whole) if whole else None)
        if told is not None:
            setattr(line, f"confirmed_{edge}", told)


def _of_the_whole(deal: Deal, line: DealLine, edge: str, whole: datetime) -> datetime | None:
    ours: datetime = getattr(line, edge)
    cuts = whole > ours if edge == "start_at" else whole < ours
    return whole if cuts or ours == getattr(deal, edge) else None


def in_words(value: Any) -> Any:
    """A value as a difference shows it."""
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    return value.isoformat() if isinstance(value, datetime) else as_text(value)
