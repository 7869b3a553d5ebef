"""Columns of a deal and its lines that hold what the seller says of the media buy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from orders.models import Deal, DealLine
from orders.terms.compare import PACKAGE, differences, unreadable_values
from orders.terms.stated import MAX_IDENTITY, stated_terms
from orders.terms.terms import CONFIRMED_COLUMNS, Terms, Unreadable, approved_terms
from tasks_app import clock
from tasks_app.adcp.values import identity_of, parse_time
from tasks_app.desk import text
from tasks_app.money import amount_of

# What the columns hold; a seller's value beyond it is no value.
_MAX_STATUS, _MAX_REVISION = 40, 2**31
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


def record_confirmed(lines: Sequence[DealLine], stated: Terms) -> None:
    """Set the confirmed columns of lines to what a seller states; what is not stated stays as it was.

    The lines are not saved. A cancelled package costs 0.
    """
    known = {line.position: line for line in lines}
    for package in stated.packages:
        line = known.get(package.line)
        if line is None:
            continue
        line.package_id = package.package_id or line.package_id
        if package.canceled is False and line.confirmed_canceled:
            line.confirmed_budget = None  # it runs again
        for term, column in CONFIRMED_COLUMNS.items():
            value = getattr(package, term)
            if value is not None and not isinstance(value, Unreadable):
                setattr(line, column, value)
        if line.confirmed_canceled:
            line.confirmed_budget = Decimal(0)


def confirmed_gross(lines: Sequence[DealLine], differences: Iterable[Mapping[str, Any]]) -> Decimal | None:
    """Return what a seller confirms in all, in the deal's currency; None if it states no amount.

    A package without a stated amount counts as approved. Packages that nobody ordered are included.
    """
    extra = [amount_of(one["confirmed"]) for one in differences if one["field"] == PACKAGE]
    if not extra and all(line.confirmed_budget is None for line in lines):
        return None
    told = [line.budget if line.confirmed_budget is None else line.confirmed_budget for line in lines]
    return amount_of(sum((amount for amount in (*told, *extra) if amount is not None), Decimal(0)))


def stated_amount(
    deal: Deal, buy: Mapping[str, Any], *, whole: bool = True
) -> tuple[Decimal | None, list[str]]:
    """Return what a record of a media buy comes to, and what is unreadable. The deal is not written.

    The amount is in the deal's currency, None if the record states none.
    """
    lines = [copy(line) for line in deal.lines.all()]
    stated = stated_terms(deal, lines, buy, whole=whole)
    record_confirmed(lines, stated)
    found = differences(approved_terms(deal, lines), stated)
    return confirmed_gross(lines, found), unreadable_values(found)


def save_confirmed(lines: Sequence[DealLine]) -> None:
    """Write the confirmed columns of lines that changed since they were read."""
    columns = ["package_id", *CONFIRMED_COLUMNS.values()]
    rows = DealLine.objects.filter(pk__in=[line.pk for line in lines]).values("pk", *columns)
    stored = {row["pk"]: row for row in rows}
    changed = [
        line for line in lines if any(getattr(line, name) != stored[line.pk][name] for name in columns)
    ]
    DealLine.objects.bulk_update(changed, columns)


def unconfirm(line: DealLine) -> None:
    """Clear the confirmed columns. The line is not saved."""
    line.package_id = ""
    for column in CONFIRMED_COLUMNS.values():
        setattr(line, column, None)
