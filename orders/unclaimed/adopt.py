"""Import of a media buy that was made without Flightdeck, as a deal in its real status.

Nothing is sent: the seller runs it already. Nobody has approved what it spends, so an approver, another
person, accepts it or has it cancelled. It is then mirrored and compared like any other deal.
Source: AdCP media-buy/specification "Account Ownership vs. Creation Surface".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import IntegrityError, transaction

from orders.accounts import account_zone
from orders.confirmation import confirmed_gross, mirror, record_confirmed
from orders.evidence import as_text
from orders.mirror import mirror_read_now
from orders.models import Deal, DealLine, DealStatus
from orders.questions import ask_booked_differently
from orders.successors import anonymous_name
from orders.terms.compare import UNAPPROVED, differences, sorted_differences
from orders.terms.matching import is_cancelled, packages_of
from orders.terms.stated import MAX_IDENTITY, TOTAL, stated_terms
from orders.terms.targeting import TARGETING
from orders.terms.terms import THE_BUY, approved_terms
from tasks_app import clock, ids, money
from tasks_app.adcp.account_keys import other_brand
from tasks_app.adcp.values import identity_of, parse_time
from tasks_app.desk.items import raised
from tasks_app.lifecycle.imports import create_imported, import_record
from tasks_app.lifecycle.references import next_reference
from tasks_app.money import amount_of, rate_of
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tasks_app.people.scope import visible
from tasks_app.sellers.accounts import names_another
from tasks_app.sellers.models import Account

_STATUSES = {
    "pending_creatives": DealStatus.BOOKED,
    "pending_start": DealStatus.BOOKED,
    "active": DealStatus.DELIVERING,
    "paused": DealStatus.DELIVERING,
    "completed": DealStatus.COMPLETED,
}
_FACTS = ("media_buy_id", "status", "media_buy_status", "revision", "total_budget", "context")
_WHOLE = "The whole media buy"  # the name of the one line of what is adopted by its total


class AdoptionRefusedError(Exception):
    """The media buy cannot become a deal; the text says what is wanting. Nothing has changed."""


@dataclass(frozen=True, kw_only=True)
class _Line:
    """One package as the seller states it, with its budget or its part of the total."""

    package: Mapping[str, Any]
    budget: Decimal
    start_at: datetime
    end_at: datetime


def media_buy_adopt(*, account: Account, told: Mapping[str, Any], user: User, reason: str) -> Deal:
    """Return the deal of a media buy as get_media_buys states it, with a line per package.

    A repeated call returns the same deal. Raises AdoptionRefusedError if the account is not the person's, the
    brand is another one, the media buy has ended, or something that a deal needs is missing.
    """
    if not visible(Account.objects.filter(pk=account.pk), user, team="advertiser__team").exists():
        raise AdoptionRefusedError("The account is none of your teams'.")
    if other_brand(told, account.advertiser.brand_domain):
        raise AdoptionRefusedError(f"{raised(names_another(told, account))}: adopt it for that brand.")
    named = identity_of(told.get("media_buy_id"), longest=MAX_IDENTITY)
    if named is None:
        raise AdoptionRefusedError("The seller gives it no id that can be kept.")
    try:
        with transaction.atomic():
            return _held(account, named) or _adopt(account, told, user, reason)
    except IntegrityError:  # somebody adopted it meanwhile
        held = _held(account, named)
        if held is None:
            raise
        return held


def _held(account: Account, named: str) -> Deal | None:
    """The account's deal that has a media buy. Raises AdoptionRefusedError where it is somebody else's."""
    held = Deal.objects.filter(seller=account.seller_id, media_buy_id=named).first()
    if held is not None and held.advertiser_id != account.advertiser_id:
        whose = anonymous_name(held, team_id=account.advertiser.team_id)
        raise AdoptionRefusedError(f"It is the media buy of {whose} already.")
    return held


def _adopt(account: Account, told: Mapping[str, Any], user: User, reason: str) -> Deal:
    currency = told.get("currency")
    if not isinstance(currency, str) or not money.is_currency(currency):
        raise AdoptionRefusedError("The seller states no currency for it.")
    lines = _lines(told, currency)
    gross = amount_of(sum(line.budget for line in lines))
    if any(line.start_at >= line.end_at for line in lines) or gross is None:
        raise AdoptionRefusedError("Its flight ends before it starts, or its budget is beyond all measure.")
    columns, now = mirror(told), clock.now()
    deal = Deal(
        id=ids.new_id(),
        reference=next_reference("DEAL"),
        status=_status(columns, min(line.start_at for line in lines)),
        team=account.advertiser.team,
        advertiser=account.advertiser,
        seller=account.seller,
        account=account,
        requested_by=actor_key(user),
        currency=currency,
        start_at=min(line.start_at for line in lines),
        end_at=max(line.end_at for line in lines),
        zone=account_zone(account),
        reasons={"adopted": reason, "lines": [], "passed_over": []},
        created_at=now,
        status_since=now,
        **columns,
    )
    rows = [_row(deal, line, position) for position, line in enumerate(lines, start=1)]
    _compare(deal, rows, told, account)
    recorded = import_record(source=f"media buy of {account.seller.slug}", actor=user, rows=1)
    create_imported(
        deal,
        actor=user,
        reason=f"Adopted: {reason}"[:500],
        import_row=recorded,
        history=[{"media_buy": as_text(_facts(told))}],
    )
    DealLine.objects.bulk_create(rows)
    ask_booked_differently(deal)
    mirror_read_now(deal=deal)
    return deal


def _compare(deal: Deal, lines: Sequence[DealLine], told: Mapping[str, Any], account: Account) -> None:
    """Set what the seller states beside the deal, and that nobody has approved it."""
    stated = stated_terms(deal, lines, told, whole=True)
    record_confirmed(lines, stated)
    runs = ", ".join(filter(None, ["runs at the seller", names_another(told, account)]))
    unapproved = {
        "line": 0,
        "product": THE_BUY,
        "field": UNAPPROVED,
        "approved": "nothing",
        "confirmed": runs,
    }
    found = differences(approved_terms(deal, lines), stated)
    deal.differences = sorted_differences([unapproved, *found])
    deal.confirmed_gross = confirmed_gross(lines, deal.differences)
    deal.differs = deal.unapproved = True


def _status(columns: Mapping[str, Any], start_at: datetime) -> DealStatus:
    there = str(columns.get("media_buy_status", ""))
    status = _STATUSES.get(there)
    if status is None:
        raise AdoptionRefusedError(f"The seller says {there or 'no status'}: there is nothing to adopt.")
    return DealStatus.BOOKED if there == "paused" and start_at > clock.now() else status


def _lines(told: Mapping[str, Any], currency: str) -> list[_Line]:
    """Return a line per package. Packages without a budget share what the others leave of the total.

    A media buy whose packages are not listed has one line.
    """
    packages = [p for p in packages_of(told) if not is_cancelled(p)] or [{}]
    budgets = {str(n): _budget(package, currency) for n, package in enumerate(packages)}
    without = {n: Decimal(1) for n, budget in budgets.items() if budget is None}
    total = amount_of(told.get(TOTAL))
    if without and total is not None:
        rest = total - sum(budget for budget in budgets.values() if budget is not None)
        budgets |= money.split(max(rest, Decimal(0)), without, currency)
    if not any(budgets.values()) or None in budgets.values():
        raise AdoptionRefusedError("The seller states no budget for it.")
    return [
        _Line(
            package=package,
            budget=budgets[str(n)] or Decimal(0),
            start_at=_moment("start_time", package, told),
            end_at=_moment("end_time", package, told),
        )
        for n, package in enumerate(packages)
    ]


def _budget(package: Mapping[str, Any], currency: str) -> Decimal | None:
    return amount_of(package.get("budget")) if package.get("currency") in (None, currency) else None


def _moment(name: str, package: Mapping[str, Any], told: Mapping[str, Any]) -> datetime:
    moment = parse_time(package.get(name)) or parse_time(told.get(name))
    if moment is None:
        raise AdoptionRefusedError(f"The seller states no {name.replace('_', ' ')} for it.")
    return moment


def _row(deal: Deal, line: _Line, position: int) -> DealLine:
    package = line.package
    product_id = str(package.get("product_id") or "")[:255]
    package_id = identity_of(package.get("package_id"), longest=MAX_IDENTITY) or ""
    rate = rate_of(package.get("bid_price"))
    targeting = package.get(TARGETING)
    return DealLine(
        id=ids.new_id(),
        deal=deal,
        position=position,
        product_id=product_id,
        product_name=product_id or package_id or _WHOLE,
        pricing_option_id=str(package.get("pricing_option_id") or "")[:255],
        is_fixed=rate is None,
        rate=rate,
        budget=line.budget,
        start_at=line.start_at,
        end_at=line.end_at,
        targeting=targeting if isinstance(targeting, dict) else {},
        package_id=package_id,
        confirmed_budget=line.budget,
        confirmed_rate=rate,
        confirmed_start_at=line.start_at,
        confirmed_end_at=line.end_at,
        confirmed_targeting=targeting if isinstance(targeting, dict) else None,
    )


def _facts(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: told[name] for name in _FACTS if name in told}
