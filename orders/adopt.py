"""A media buy that nobody here booked becomes a deal of ours: a recorded import, in its real status.

Nothing is sent by it: the seller runs it already. But nobody approved what it spends: an approver, somebody
else, accepts it or has it cancelled. From then on it is mirrored and compared as any other deal.
Source: AdCP media-buy/specification "Account Ownership vs. Creation Surface".
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import IntegrityError, transaction

from orders.booking import UNAPPROVED
from orders.confirmation import mirror
from orders.evidence import as_text
from orders.mirror import mirror_read_now
from orders.models import LIVE, Deal, DealLine, DealStatus
from orders.questions import ask_booked_differently
from tasks_app import clock, ids, money
from tasks_app.adcp.envelopes import parse_time
from tasks_app.lifecycle.imports import create_imported, import_record
from tasks_app.lifecycle.references import next_reference
from tasks_app.money import decimal_of
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tasks_app.people.scope import visible
from tasks_app.sellers.models import Account

_STATUSES = {
    "pending_creatives": DealStatus.BOOKED,
    "pending_start": DealStatus.BOOKED,
    "active": DealStatus.DELIVERING,
    "paused": DealStatus.DELIVERING,
    "completed": DealStatus.COMPLETED,
}
_MOST = Decimal(10) ** 12
_FACTS = ("media_buy_id", "status", "media_buy_status", "revision", "total_budget", "context")
_UNAPPROVED = {
    "line": 0,
    "product": "The media buy",
    "field": UNAPPROVED,
    "approved": "nothing",
    "confirmed": "runs at the seller",
}


class AdoptionRefusedError(Exception):
    """The media buy cannot become a deal; the text says what is wanting. Nothing has changed."""


@dataclass(frozen=True, kw_only=True)
class _Line:
    """One package as the seller tells it."""

    package: Mapping[str, Any]
    budget: Decimal
    start_at: datetime
    end_at: datetime


def media_buy_adopt(
    *, account: Account, told: Mapping[str, Any], user: User, reason: str, in_place_of: Deal | None = None
) -> Deal:
    """The deal of a media buy as get_media_buys told it, in its real status, with a line per package.

    Asked again it answers the deal there is. `in_place_of`: the deal of ours that it was bought for. Raises
    AdoptionRefusedError: not the person's account, over at the seller, or without what a deal needs.
    """
    seller = account.seller
    if not visible(Account.objects.filter(pk=account.pk), user, team="advertiser__team").exists():
        raise AdoptionRefusedError("The account is none of your teams'.")
    named = told.get("media_buy_id")
    if not isinstance(named, str) or not 0 < len(named) <= 255:
        raise AdoptionRefusedError("The seller gives it no id that can be kept.")
    try:
        with transaction.atomic():
            existing = Deal.objects.filter(seller=seller, media_buy_id=named).first()
            return existing or _adopt(account, told, user, reason, in_place_of)
    except IntegrityError:
        return Deal.objects.get(seller=seller, media_buy_id=named)  # somebody adopted it meanwhile


def _adopt(
    account: Account, told: Mapping[str, Any], user: User, reason: str, in_place_of: Deal | None
) -> Deal:
    currency = told.get("currency") or (in_place_of.currency if in_place_of else "")
    if not isinstance(currency, str) or not money.is_currency(currency):
        raise AdoptionRefusedError("The seller states no currency for it.")
    lines = _lines(told, in_place_of)
    if any(line.start_at >= line.end_at for line in lines) or sum(line.budget for line in lines) >= _MOST:
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
        campaign_id=in_place_of.campaign_id if in_place_of else None,
        requested_by=actor_key(user),
        currency=currency,
        start_at=min(line.start_at for line in lines),
        end_at=max(line.end_at for line in lines),
        zone=in_place_of.zone if in_place_of else str(account.reference.get("timezone") or "UTC"),
        reasons={
            "adopted": reason,
            "lines": [],
            "passed_over": [],
            **({"replaces": in_place_of.reference} if in_place_of else {}),
        },
        created_at=now,
        status_since=now,
        **columns,
    )
    if deal.status in LIVE:
        deal.differs, deal.differences = True, [_UNAPPROVED]
    recorded = import_record(source=f"media buy of {account.seller.slug}", actor=user, rows=1)
    create_imported(
        deal,
        actor=user,
        reason=f"Adopted: {reason}"[:500],
        import_row=recorded,
        history=[{"media_buy": as_text(_facts(told))}],
    )
    DealLine.objects.bulk_create(
        _row(deal, line, position, in_place_of) for position, line in enumerate(lines, start=1)
    )
    if deal.status in LIVE:
        ask_booked_differently(deal, requested_by=actor_key(user))
        mirror_read_now(deal=deal)
    return deal


def _status(columns: Mapping[str, Any], start_at: datetime) -> DealStatus:
    there = str(columns.get("media_buy_status", ""))
    status = _STATUSES.get(there)
    if status is None:
        raise AdoptionRefusedError(f"The seller says {there or 'no status'}: there is nothing to adopt.")
    return DealStatus.BOOKED if there == "paused" and start_at > clock.now() else status


def _lines(told: Mapping[str, Any], in_place_of: Deal | None) -> list[_Line]:
    """A line per package; where packages state no budgets of their own, one line for the whole media buy."""
    listed = told.get("packages")
    packages = [p for p in listed if isinstance(p, dict)] if isinstance(listed, list) else []
    packages = [p for p in packages if p.get("canceled") is not True]
    budgets = [_amount(package.get("budget")) for package in packages]
    if not packages or None in budgets:
        total = _amount(told.get("total_budget"))
        if total is None:
            raise AdoptionRefusedError("The seller states no budget for it.")
        packages, budgets = [packages[0] if len(packages) == 1 else {}], [total]
    return [
        _Line(
            package=package,
            budget=budget,
            start_at=_moment("start_time", package, told, in_place_of.start_at if in_place_of else None),
            end_at=_moment("end_time", package, told, in_place_of.end_at if in_place_of else None),
        )
        for package, budget in zip(packages, budgets, strict=True)
        if budget is not None
    ]


def _moment(
    name: str, package: Mapping[str, Any], told: Mapping[str, Any], approved: datetime | None
) -> datetime:
    moment = parse_time(package.get(name)) or parse_time(told.get(name)) or approved
    if moment is None:
        raise AdoptionRefusedError(f"The seller states no {name.replace('_', ' ')} for it.")
    return moment


def _amount(value: Any) -> Decimal | None:
    amount = decimal_of(value)
    return amount if amount is not None and 0 < amount < _MOST else None


def _row(deal: Deal, line: _Line, position: int, in_place_of: Deal | None) -> DealLine:
    package, known = line.package, _approved(line.package, in_place_of)
    product_id = str(package.get("product_id") or (known.product_id if known else ""))[:255]
    rate = _amount(package.get("bid_price"))
    targeting = package.get("targeting_overlay")
    return DealLine(
        id=ids.new_id(),
        deal=deal,
        position=position,
        channel=known.channel if known else "",
        product_id=product_id,
        product_name=known.product_name if known else (product_id or "The whole media buy"),
        pricing_option_id=str(package.get("pricing_option_id") or "")[:255],
        pricing_model=known.pricing_model if known else "",
        is_fixed=rate is None,
        rate=rate,
        budget=line.budget,
        start_at=line.start_at,
        end_at=line.end_at,
        targeting=targeting if isinstance(targeting, dict) else {},
        package_id=str(package.get("package_id") or "")[:255],
        confirmed_budget=line.budget,
        confirmed_rate=rate,
        confirmed_start_at=line.start_at,
        confirmed_end_at=line.end_at,
        confirmed_targeting=targeting if isinstance(targeting, dict) else None,
    )


def _approved(package: Mapping[str, Any], in_place_of: Deal | None) -> DealLine | None:
    """The line of the deal it was bought for that the package's context names, for what is not repeated."""
    context = package.get("context")
    try:
        line_id = uuid.UUID(str(context.get("line_id"))) if isinstance(context, dict) else None
    except ValueError:
        return None
    return DealLine.objects.filter(pk=line_id, deal=in_place_of).first() if line_id and in_place_of else None


def _facts(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: told[name] for name in _FACTS if name in told}
