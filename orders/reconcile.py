"""Sellers' media buys beside our deals: bought and unknown here, booked here and unknown there, in step.

A listing, as `tasks_app.operations.reconcile`: it changes nothing. Without ids get_media_buys tells of active
buys only: the account, all seven statuses and the cursor are given. It also lists what was bought without us;
what carries our `context` and is no deal's is the loudest alarm. Source: AdCP media-buy/get-media-buys.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, get_args

from orders.models import Deal, DealLine, DealStatus
from tasks_app import clock
from tasks_app.adcp.requests import MediaBuyStatus
from tasks_app.operations.models import OPEN, Operation, OperationStatus
from tasks_app.operations.reconcile import (
    Finding,
    Line,
    Reading,
    UnreadableError,
    Verdict,
    account_references,
    line_to,
)
from tasks_app.sellers.models import Seller

_TOOL = "get_media_buys"
_ALL_STATUSES = sorted(get_args(MediaBuyStatus))
_OVER_THERE = ("rejected", "canceled")
_LIVE = (DealStatus.BOOKED, DealStatus.DELIVERING, DealStatus.MAKEGOOD_PENDING, DealStatus.PARTIALLY_CANCELED)
_GIVEN_UP = (DealStatus.FAILED, DealStatus.CANCELLED, DealStatus.EXPIRED)
_BUYING = (DealStatus.ACCEPTED, DealStatus.BOOKING)

Buy = dict[str, Any]


def media_buys_reconcile(*, sellers: Sequence[Seller]) -> list[Reading]:
    """Each seller's media buys against our deals there, all sellers at once.

    What is booked here and not listed there is asked for by its id before any verdict.
    """
    started = clock.now()
    plans = [_plan(seller) for seller in sellers]
    heard = asyncio.run(_hear_all(plans))
    return [_reading(plan, told, started) for plan, told in zip(plans, heard, strict=True)]


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What to ask one seller: `booked` is media_buy_id to account reference."""

    seller: Seller
    line: Line
    accounts: list[dict[str, Any]]
    booked: dict[str, dict[str, Any] | None]

    @property
    def can_ask(self) -> bool:
        return _TOOL in self.seller.tools


@dataclass(kw_only=True)
class _Heard:
    buys: dict[str, Buy] = field(default_factory=dict)
    unread: str = ""


def _plan(seller: Seller) -> _Plan:
    live = Deal.objects.filter(seller=seller, status__in=_LIVE).exclude(media_buy_id="")
    return _Plan(
        seller=seller,
        line=line_to(seller),
        accounts=account_references(seller),
        booked={
            d.media_buy_id: d.account.reference if d.account else None for d in live.select_related("account")
        },
    )


async def _hear_all(plans: Iterable[_Plan]) -> list[_Heard]:
    return list(await asyncio.gather(*map(_hear, plans)))


async def _hear(plan: _Plan) -> _Heard:
    heard = _Heard()
    if not plan.can_ask:
        return heard
    try:
        for account in plan.accounts:
            heard.buys |= await _listed(plan, {"account": account})
        for media_buy_id in plan.booked.keys() - heard.buys.keys():
            heard.buys |= await _looked_up(plan, media_buy_id)
    except UnreadableError as error:
        heard.unread = str(error)
    return heard


async def _listed(plan: _Plan, narrowed: dict[str, Any]) -> dict[str, Buy]:
    asked = {"status_filter": _ALL_STATUSES, **narrowed}
    pages = await plan.line.pages(_TOOL, asked, listed="media_buys")
    every = [buy for page in pages for buy in (page.payload or {})["media_buys"] if isinstance(buy, dict)]
    return {str(buy["media_buy_id"]): buy for buy in every if buy.get("media_buy_id")}


async def _looked_up(plan: _Plan, media_buy_id: str) -> dict[str, Buy]:
    """The media buy by its id; nothing where the seller does not know it."""
    account = plan.booked[media_buy_id]
    narrowed: dict[str, Any] = {"media_buy_ids": [media_buy_id]}
    if account is not None:
        narrowed["account"] = account
    try:
        found = await _listed(plan, narrowed)
    except UnreadableError as error:
        if error.unknown_there:
            return {}
        raise
    return {id_: buy for id_, buy in found.items() if id_ == media_buy_id}


def _reading(plan: _Plan, heard: _Heard, started: datetime) -> Reading:
    reading = Reading(seller=plan.seller, unread=heard.unread)
    if heard.unread:
        return reading
    reading.notes = list(_notes(plan))
    if plan.can_ask:
        wanted = [*plan.booked, *heard.buys]
        ours = {d.media_buy_id: d for d in Deal.objects.filter(seller=plan.seller, media_buy_id__in=wanted)}
        reading.findings = [
            _bought(buy_id, buy, ours.get(buy_id), started) for buy_id, buy in heard.buys.items()
        ]
        gone = [ours[buy_id] for buy_id in plan.booked if buy_id not in heard.buys]
        reading.findings += [_missing(deal, started) for deal in gone]
    return reading


def _notes(plan: _Plan) -> Iterator[str]:
    if not plan.can_ask:
        yield "cannot be asked what was booked"
    elif not plan.accounts:
        yield "no account there: it was not asked what was booked"
    nameless = Deal.objects.filter(seller=plan.seller, status__in=_LIVE, media_buy_id="").order_by("id")
    for reference in nameless.values_list("reference", flat=True):
        yield f"{reference} is booked without a media_buy_id of the seller's: it cannot be compared"


def _bought(media_buy_id: str, buy: Buy, deal: Deal | None, started: datetime) -> Finding:
    there = str(buy.get("media_buy_status") or buy.get("status") or "")
    if deal is None:
        return _unknown_here(media_buy_id, buy, there)
    verdict = Verdict.IN_STEP
    if deal.status in _LIVE and there in _OVER_THERE:
        verdict = Verdict.BEHIND
    elif deal.status in _GIVEN_UP and there not in (*_OVER_THERE, "completed"):
        verdict = Verdict.AHEAD
    return Finding(
        verdict=verdict if deal.status_since < started else Verdict.IN_STEP,
        theirs=media_buy_id,
        here=deal.reference,
        status_there=there,
        status_here=deal.status,
    )


def _missing(deal: Deal, started: datetime) -> Finding:
    ended_meanwhile = deal.status not in _LIVE and deal.status_since >= started
    return Finding(
        verdict=Verdict.IN_STEP if ended_meanwhile else Verdict.MISSING,
        theirs=deal.media_buy_id,
        here=deal.reference,
        status_here=deal.status,
    )


def _unknown_here(media_buy_id: str, buy: Buy, there: str) -> Finding:
    """A media buy that is none of our deals': made without us, on its way to us, or lost by us."""
    deal_id = _our_deal_id(buy)
    if deal_id is None:
        return Finding(verdict=Verdict.EXTERNAL, theirs=media_buy_id, status_there=there)
    deal = Deal.objects.filter(pk=deal_id).first()
    verdict, note = _judge(media_buy_id, deal, there)
    return Finding(
        verdict=verdict,
        theirs=media_buy_id,
        here=deal.reference if deal else "",
        status_there=there,
        status_here=deal.status if deal else "",
        note=note or f"it names the deal {deal_id}, which does not exist here",
    )


def _judge(media_buy_id: str, deal: Deal | None, there: str) -> tuple[Verdict, str]:
    if deal is None:
        return Verdict.BOUGHT_UNKNOWN, ""
    if there in _OVER_THERE and deal.status not in _LIVE:
        return Verdict.IN_STEP, "came to nothing on either side"
    if deal.media_buy_id and deal.media_buy_id != media_buy_id:
        return Verdict.BOUGHT_UNKNOWN, f"bought twice: the deal is booked as {deal.media_buy_id}"
    if deal.status in _BUYING:
        return _being_bought(deal)
    return Verdict.BOUGHT_UNKNOWN, f"bought, and the deal is {deal.status} here"


def _being_bought(deal: Deal) -> tuple[Verdict, str]:
    purchase = Operation.objects.filter(subject_type="deal", subject_id=deal.pk, status__in=OPEN).first()
    if purchase is not None and purchase.status == OperationStatus.TIMED_OUT:
        return Verdict.BEHIND, f"{purchase.reference} is overdue, and the seller has it"
    return Verdict.UNANSWERED, f"{purchase.reference if purchase else 'the purchase'} is not confirmed yet"


def _our_deal_id(buy: Buy) -> uuid.UUID | None:
    """The deal in the `context` that we send with a purchase, or in a package's; None: made without us."""
    deal_id = _context_id(buy, "deal_id")
    if deal_id is not None:
        return deal_id
    packages = buy.get("packages")
    for package in packages if isinstance(packages, list) else []:
        line_id = _context_id(package, "line_id")
        line = DealLine.objects.filter(pk=line_id).first() if line_id else None
        if line is not None:
            return line.deal_id
    return None


def _context_id(part: object, name: str) -> uuid.UUID | None:
    context = part.get("context") if isinstance(part, dict) else None
    try:
        return uuid.UUID(str(context.get(name))) if isinstance(context, dict) else None
    except ValueError:
        return None
