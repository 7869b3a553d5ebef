"""Booked means confirmed: what the seller says it booked, beside what was approved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from orders.evidence import as_text
from orders.models import Deal, DealLine
from tasks_app import clock
from tasks_app.adcp.envelopes import parse_time
from tasks_app.money import decimal_of

# What the columns hold; a seller's value beyond it is no value.
_MAX_IDENTITY, _MAX_STATUS, _MAX_REVISION = 255, 40, 2**31
_MAX_AMOUNT = Decimal(10) ** 12
TOTAL = "total_budget"
_CONFIRMED = [
    "package_id",
    "confirmed_budget",
    "confirmed_rate",
    "confirmed_start_at",
    "confirmed_end_at",
    "confirmed_targeting",
]
_MAX_AHEAD = timedelta(minutes=5)  # a clock further ahead would make all later news look old


def mirror(buy: Mapping[str, Any], *, asked_at: datetime | None = None) -> dict[str, Any]:
    """The Deal's mirror columns out of a media buy as create_media_buy or get_media_buys tells it.

    `media_buy_status` and `status` are the same thing under two names; what is not told is left out. As of:
    the seller's word, else `asked_at` (now).
    """
    told: dict[str, Any] = {"as_of": stated_at(buy) or asked_at or clock.now()}
    identity = buy.get("media_buy_id")
    if isinstance(identity, str) and 0 < len(identity) <= _MAX_IDENTITY:
        told["media_buy_id"] = identity
    for name in ("media_buy_status", "status"):
        if "media_buy_status" not in told and isinstance(buy.get(name), str):
            told["media_buy_status"] = buy[name][:_MAX_STATUS]
    revision = buy.get("revision")
    if isinstance(revision, int) and not isinstance(revision, bool) and 0 <= revision < _MAX_REVISION:
        told["revision"] = revision
    if isinstance(buy.get("valid_actions"), list):
        told["valid_actions"] = [a for a in buy["valid_actions"] if isinstance(a, str)]
    for column in ("confirmed_at", "creative_deadline"):
        moment = parse_time(buy.get(column))
        if moment is not None:
            told[column] = moment
    return told


def stated_at(buy: Mapping[str, Any]) -> datetime | None:
    """The seller's `status_as_of`; None where it states none, or one that lies ahead of us."""
    moment = parse_time(buy.get("status_as_of"))
    return moment if moment is not None and moment <= clock.now() + _MAX_AHEAD else None


def packages_apply(deal: Deal, packages: object) -> list[DealLine]:
    """Write what the seller confirmed beside each line; answers the deal's lines."""
    lines = list(deal.lines.all())
    told = [p for p in packages if isinstance(p, dict)] if isinstance(packages, list) else []
    for line in lines:
        package = _package_of(line, told)
        if package is not None:
            _confirm(line, package)
    DealLine.objects.bulk_update(lines, _CONFIRMED)
    return lines


def unconfirm(line: DealLine) -> None:
    """Take what a seller confirmed off a line that is not saved yet."""
    for name in _CONFIRMED:
        setattr(line, name, "" if name == "package_id" else None)


def differences(deal: Deal, lines: Iterable[DealLine]) -> list[dict[str, Any]]:
    """Every material departure (budget, dates, rate, targeting): line, field, approved, confirmed."""
    return [found for line in lines for found in _line_differences(line)]


def total_differences(deal: Deal, lines: Iterable[DealLine], buy: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The departure of a media buy's `total_budget`, where no package has a budget of its own: AdCP
    core/media-buy has one amount for the whole. What states no total says nothing new about it."""
    lines = list(lines)
    if any(line.confirmed_budget is not None for line in lines):
        return []
    confirmed = _amount(buy.get("total_budget"))
    if confirmed is None:
        return [found for found in deal.differences if found["field"] == TOTAL]
    approved = sum((line.budget for line in lines), Decimal(0))
    if confirmed == approved:
        return []
    said = {"field": TOTAL, "approved": _text(approved), "confirmed": _text(confirmed)}
    return [{"line": 0, "product": "The media buy", **said}]


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
            "approved": _text(approved),
            "confirmed": _text(confirmed),
        }
        for name, approved, confirmed in pairs
        if confirmed is not None and _differs(name, approved, confirmed)
    ]


def _differs(name: str, approved: Any, confirmed: Any) -> bool:
    if name == "targeting":
        # Asked and dropped or changed; what the seller adds of its own is shown, not flagged.
        return any(confirmed.get(key) != value for key, value in approved.items())
    return bool(approved != confirmed)


def _package_of(line: DealLine, packages: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Ours by the context the seller echoes, by the id it gave before, else by product and price."""
    for package in packages:
        context = package.get("context")
        if isinstance(context, dict) and context.get("line_id") == str(line.pk):
            return package
    for package in packages:
        if line.package_id and package.get("package_id") == line.package_id:
            return package
    same = [
        p
        for p in packages
        if p.get("product_id") == line.product_id
        and p.get("pricing_option_id", line.pricing_option_id) == line.pricing_option_id
        and not isinstance(p.get("context"), dict)
    ]
    return same[0] if len(same) == 1 else None


def _confirm(line: DealLine, package: Mapping[str, Any]) -> None:
    if isinstance(package.get("package_id"), str):
        line.package_id = package["package_id"][:255]
    budget = _amount(package.get("budget"))
    if package.get("canceled") is True:
        budget = Decimal(0)  # nothing of it is spent any more: a departure like any other
    if budget is not None:
        line.confirmed_budget = budget
    rate = _amount(package.get("bid_price"))
    if rate is not None:
        line.confirmed_rate = rate
    line.confirmed_start_at = _moment(package, "start_time") or line.confirmed_start_at
    line.confirmed_end_at = _moment(package, "end_time") or line.confirmed_end_at
    if isinstance(package.get("targeting_overlay"), dict):
        line.confirmed_targeting = package["targeting_overlay"]


def _amount(value: Any) -> Decimal | None:
    amount = decimal_of(value)
    return amount if amount is not None and 0 <= amount < _MAX_AMOUNT else None


def _moment(package: Mapping[str, Any], name: str) -> datetime | None:
    return parse_time(package.get(name))


def _text(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    return value.isoformat() if isinstance(value, datetime) else as_text(value)
