"""Sellers' media buys beside our deals: bought and unknown here, booked here and unknown there, in step.

Without ids get_media_buys tells of active media buys only, so the request gives the account, all seven
statuses and the cursor. The list also has media buys that were made without Flightdeck. One that names a deal
in its `context` and that no live deal holds is unclaimed: people are asked about it. Source: AdCP
media-buy/get-media-buys "Scope of Results".
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, get_args

from asgiref.sync import async_to_sync
from django.db import transaction
from django.db.models import Q

from orders.models import LIVE, Deal, DealLine, DealStatus, UnclaimedBuy
from orders.seller_state import deal_follow
from orders.services import deal_locked
from orders.terms.matching import is_cancelled, packages_of
from orders.unclaimed.unclaimed_buys import record_unclaimed
from tasks_app import clock
from tasks_app.adcp.account_keys import account_stated
from tasks_app.adcp.requests import MediaBuyStatus
from tasks_app.adcp.types import BUY_GONE
from tasks_app.adcp.values import identity_of, parse_time
from tasks_app.desk.items import plural
from tasks_app.money import amount_of
from tasks_app.operations.comparison import (
    Finding,
    Reader,
    Reading,
    Settled,
    Verdict,
    refused_of,
    unnamed_of,
    unread_of,
)
from tasks_app.operations.line import (
    Line,
    Teams,
    UnreadableError,
    accounts_by_reference,
    is_whose_open,
    refused_one,
    teams_of_accounts,
    whose_open_words,
    within,
)
from tasks_app.operations.models import OPEN, Operation, OperationStatus
from tasks_app.operations.reading import reading_line_to
from tasks_app.operations.services import Subject
from tasks_app.sellers.accounts import is_anothers, names_another
from tasks_app.sellers.models import Account, Seller

MEDIA_BUY = "media_buy"
TOOL = "get_media_buys"
ALL_STATUSES = sorted(get_args(MediaBuyStatus))
_ENDED_THERE = (*BUY_GONE, "completed")
_ENDED_HERE = (DealStatus.FAILED, DealStatus.CANCELLED, DealStatus.EXPIRED, DealStatus.COMPLETED)
_BUYING = (DealStatus.ACCEPTED, DealStatus.BOOKING)
# What a list alone shows, of what was not asked for by its id.
_LISTED_ALONE = frozenset(Verdict) - {Verdict.MISSING}
# Of media buys that are no deal's, so many are kept in one run; a seller may list a decade of them.
_MOST_KEPT = 1000
_MOST_KEPT_BYTES = 64 * 2**10

Buy = dict[str, Any]


def media_buys_reconcile(sellers: Sequence[Seller], limit_s: float) -> list[Reading]:
    """Each seller's media buys against our deals there, all sellers at once.

    What is booked here and not listed there is asked for by its id before any verdict. A seller that takes
    longer than `limit_s` seconds in all is not read.
    """
    started = clock.now()
    plans = [_plan(seller) for seller in sellers]
    heard = async_to_sync(_hear_all)(plans, limit_s)
    return [_reading(plan, told, started) for plan, told in zip(plans, heard, strict=True)]


def media_buy_settle(_seller: Seller, finding: Finding) -> Settled | None:
    """Apply what the seller states of a deal's media buy, and ask people about one that no deal holds."""
    if finding.subject is None or finding.told is None:
        return None
    settled = None
    if finding.asked_at is not None and finding.verdict in (Verdict.IN_STEP, Verdict.BEHIND, Verdict.AHEAD):
        deal = deal_follow(deal_id=finding.subject.id, buy=finding.told, asked_at=finding.asked_at)
        if finding.verdict == Verdict.BEHIND and deal.status not in (*LIVE, *_BUYING):
            note = f"{deal.reference} is {deal.status} now, as the seller says"
            settled = Settled(how="mirrored", note=note)
    return _settle_unclaimed(finding.subject.id, finding) or settled


@transaction.atomic
def _settle_unclaimed(deal_id: uuid.UUID, finding: Finding) -> Settled | None:
    """Record a media buy that no live deal holds, or take what the seller states of a recorded one."""
    known = UnclaimedBuy.objects.filter(deal=deal_id, media_buy_id=finding.theirs, closed_at__isnull=True)
    is_new = finding.verdict in (Verdict.BOUGHT_UNKNOWN, Verdict.AHEAD)
    if not (is_new or known.exists()):
        return None
    deal = deal_locked(deal_id)
    if not record_unclaimed(deal, finding.told or {}, source=UnclaimedBuy.Source.LISTED):
        return None
    return Settled(how="asked", note=f"People are asked whether to keep {finding.theirs}")


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What to ask one seller: `booked` is media_buy_id to account reference, `teams` to the team whose it is,
    `ours` every media_buy_id that a deal of ours has."""

    seller: Seller
    line: Line
    accounts: list[tuple[dict[str, Any], list[Account]]]
    booked: dict[str, dict[str, Any] | None]
    teams: dict[str, uuid.UUID]
    ours: frozenset[str]

    @property
    def can_ask(self) -> bool:
        return self.seller.offers(TOOL)


@dataclass(kw_only=True)
class _Heard:
    """`buys` by id, with the accounts each was listed for; `passed_over` counts those not kept; `in_part`:
    an account's list may lack some; `left`: accounts whose list was not read to its end; `unread`: why it
    could not be asked to the end."""

    buys: dict[str, Buy] = field(default_factory=dict)
    listed_for: dict[str, list[Account]] = field(default_factory=dict)
    refused: dict[str, Teams] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    unread_ids: set[str] = field(default_factory=set)
    left: list[Account] = field(default_factory=list)
    unknown: int = 0
    passed_over: int = 0
    in_part: bool = True  # until all of them are read
    unread: UnreadableError | None = None


def _plan(seller: Seller) -> _Plan:
    named = Deal.objects.filter(seller=seller).exclude(media_buy_id="")
    live = list(named.filter(status__in=LIVE).select_related("account"))
    return _Plan(
        seller=seller,
        line=reading_line_to(seller),
        accounts=[
            (json.loads(reference), owners) for reference, owners in accounts_by_reference(seller).items()
        ],
        booked={d.media_buy_id: d.account.reference if d.account else None for d in live},
        teams={d.media_buy_id: d.team_id for d in live},
        ours=frozenset(named.values_list("media_buy_id", flat=True)),
    )


async def _hear_all(plans: Iterable[_Plan], limit_s: float) -> list[_Heard]:
    return list(await asyncio.gather(*(_hear(plan, limit_s) for plan in plans)))


async def _hear(plan: _Plan, limit_s: float) -> _Heard:
    """What there is no time, or no way, to ask for by its id leaves what was listed readable."""
    heard, until = _Heard(), time.monotonic() + limit_s
    try:
        if plan.can_ask:
            await within(limit_s, _ask_for_lists(plan, heard))
            await within(until - time.monotonic(), _ask_for_each(plan, heard), of=limit_s)
    except UnreadableError as error:
        heard.unread = error
        heard.unread_ids |= plan.booked.keys() - heard.buys.keys() - heard.asked
    return heard


async def _ask_for_lists(plan: _Plan, heard: _Heard) -> None:
    """An account that the seller refuses to tell of leaves the others readable."""
    untold = 0
    heard.left = [owner for _, owners in plan.accounts for owner in owners]
    for reference, owners in plan.accounts:
        left = [one for one in heard.left if one not in owners]
        try:
            await _listed(plan, heard, {"account": reference}, owners)
        except UnreadableError as error:
            untold += not error.in_part
            last, teams = untold == len(plan.accounts), teams_of_accounts(owners)
            left = heard.left = left if error.answered and not error.begun else heard.left
            refused_one(error, heard.refused, account=reference, teams=teams, last=last)
        heard.left = left
    heard.in_part = bool(heard.refused)


async def _ask_for_each(plan: _Plan, heard: _Heard) -> None:
    """What is booked here and not listed there; the same of single media buys."""
    for media_buy_id in [one for one in plan.booked if one not in heard.buys]:
        try:
            await _looked_up(plan, heard, media_buy_id)
        except UnreadableError as error:
            account, teams = plan.booked[media_buy_id], {plan.teams[media_buy_id]}
            refused_one(error, heard.refused, account=account, thing=media_buy_id, teams=teams, last=False)
            heard.unread_ids.add(media_buy_id)
        heard.asked.add(media_buy_id)


async def _listed(plan: _Plan, heard: _Heard, narrowed: dict[str, Any], owners: list[Account]) -> None:
    asked = {"status_filter": ALL_STATUSES, **narrowed}
    async for buys in plan.line.rows(TOOL, asked, listed="media_buys"):
        for buy in buys:
            media_buy_id = identity_of(buy.get("media_buy_id"))
            if media_buy_id is not None:
                _keep(plan, heard, media_buy_id, buy)
                if media_buy_id in heard.buys:
                    heard.listed_for.setdefault(media_buy_id, []).extend(owners)


def _keep(plan: _Plan, heard: _Heard, media_buy_id: str, buy: Buy) -> None:
    """Ours whole; of the others what is still running, or carries our ids, as many as can be looked at."""
    if media_buy_id in plan.ours or media_buy_id in heard.buys:
        heard.buys[media_buy_id] = buy
    elif _status(buy) not in _ENDED_THERE or _ids_in(buy) != (None, []):
        if heard.unknown < _MOST_KEPT:
            heard.buys[media_buy_id] = buy
            heard.unknown += 1
        else:
            heard.passed_over += 1


async def _looked_up(plan: _Plan, heard: _Heard, media_buy_id: str) -> None:
    """The media buy by its id; nothing where the seller does not know it."""
    account = plan.booked[media_buy_id]
    narrowed: dict[str, Any] = {"media_buy_ids": [media_buy_id]}
    if account is not None:
        narrowed["account"] = account
    found = _Heard()
    try:
        await _listed(plan, found, narrowed, [])
    except UnreadableError as error:
        if not error.unknown_there:
            raise
    if media_buy_id in found.buys:
        heard.buys[media_buy_id] = found.buys[media_buy_id]
        heard.listed_for.setdefault(media_buy_id, [])


def _reading(plan: _Plan, heard: _Heard, started: datetime) -> Reading:
    reading = Reading(seller=plan.seller)
    if heard.unread:
        reading = unread_of(plan.seller, heard.unread, heard.refused)
        if not (heard.buys or heard.asked):
            return reading
    reading.notes = list(_notes(plan, heard))
    reading.complete = plan.can_ask and not (heard.passed_over or heard.refused or heard.unread)
    reading.unseen = frozenset() if plan.accounts else _LISTED_ALONE
    reading.asked = frozenset(plan.booked)
    nameless = Deal.objects.filter(seller=plan.seller, status__in=LIVE, media_buy_id="")
    reading.unnamed = [
        *refused_of(heard.refused),
        *unnamed_of(nameless, state="booked", name="media_buy_id"),
    ]
    if not plan.can_ask:
        return reading
    wanted = [*plan.booked, *heard.buys]
    ours = {d.media_buy_id: d for d in Deal.objects.filter(seller=plan.seller, media_buy_id__in=wanted)}
    unknown = {buy_id: buy for buy_id, buy in heard.buys.items() if buy_id not in ours}
    deals, held = _deals_named(unknown), 0
    for buy_id, buy in heard.buys.items():
        if buy_id in ours:
            reading.findings.append(_bought(ours[buy_id], buy, started))
            continue
        named, owners = deals.get(buy_id), heard.listed_for[buy_id]
        if not _is_of(plan.seller, named) and is_whose_open(buy, owners, heard.left):
            held += 1
        elif not ((heard.in_part or heard.passed_over) and _proves_nothing(buy, named)):
            reading.findings.append(_unknown_here(plan.seller, buy_id, buy, named, owners, started))
    reading.notes += whose_open_words(held, "media buy")
    told_of = {*heard.buys, *heard.unread_ids}
    gone = [ours[buy_id] for buy_id in plan.booked if buy_id not in told_of and buy_id in ours]
    reading.findings += [_missing(deal, started) for deal in gone]
    return reading


def _notes(plan: _Plan, heard: _Heard) -> Iterator[str]:
    if not plan.can_ask:
        yield "cannot be asked what was booked"
    elif not plan.accounts:
        yield "no account there: it was not asked what was booked"
    left = plan.booked.keys() - heard.buys.keys() - heard.asked
    if heard.unread and left:
        yield f"{plural(len(left), 'media buy', 'media buys')} that it did not list could not be asked for"
    if heard.passed_over:
        yield f"{heard.passed_over} more media buys that are no deal's were not looked at"


def _bought(deal: Deal, buy: Buy, started: datetime) -> Finding:
    there = _status(buy)
    verdict = Verdict.IN_STEP
    if deal.status in LIVE and there in BUY_GONE:
        verdict = Verdict.BEHIND
    elif deal.status in _ENDED_HERE and there not in _ENDED_THERE:
        verdict = Verdict.AHEAD
    return Finding(
        verdict=verdict if deal.status_since < started else Verdict.IN_STEP,
        theirs=deal.media_buy_id,
        status_there=there,
        told=buy,
        asked_at=started,
        **_ours(deal),
    )


def _missing(deal: Deal, started: datetime) -> Finding:
    ended_meanwhile = deal.status not in LIVE and deal.status_since >= started
    return Finding(
        verdict=Verdict.IN_STEP if ended_meanwhile else Verdict.MISSING,
        theirs=deal.media_buy_id,
        **_ours(deal),
    )


def _ours(deal: Deal) -> dict[str, Any]:
    return {
        "here": deal.reference,
        "status_here": deal.status,
        "subject": Subject(type="deal", id=deal.pk),
        "team_id": deal.team_id,
        "account_id": deal.account_id,
    }


def _unknown_here(
    seller: Seller,
    media_buy_id: str,
    buy: Buy,
    named: _Named | None,
    owners: Sequence[Account],
    started: datetime,
) -> Finding:
    """A media buy that is none of our deals': made without us, on its way to us, or lost by us."""
    own = [owner for owner in owners if not is_anothers(buy, owner)]
    account = own[0] if len({owner.pk for owner in own}) == 1 else None
    whose: dict[str, Any] = {
        "team_id": account.advertiser.team_id if account else None,
        "account_id": account.pk if account else None,
    }
    there, told = _status(buy), _told(buy)
    elsewhere = names_another(buy, owners[0]) if owners and not own else ""
    if named is None:
        return Finding(
            verdict=Verdict.EXTERNAL,
            theirs=media_buy_id,
            status_there=there,
            note=elsewhere,
            told=told,
            **whose,
        )
    deal = named.deal
    if deal is None or deal.seller_id != seller.pk:
        # Another seller's word has no weight for a deal, and its reader may be of another team.
        missing = f"it names the deal {named.deal_id}, which does not exist with {seller.name}"
        note = "; ".join(filter(None, [missing, elsewhere]))
        return Finding(
            verdict=Verdict.BOUGHT_UNKNOWN,
            theirs=media_buy_id,
            status_there=there,
            note=note,
            told=told,
            **whose,
        )
    if there in BUY_GONE and named.lives:
        verdict, judged = Verdict.IN_STEP, "came to nothing beside another with our ids"
    else:
        verdict, judged = _judge(deal, there)
    note = "; ".join(filter(None, [judged, names_another(buy, deal.account) if deal.account else ""]))
    return Finding(
        verdict=verdict,
        theirs=media_buy_id,
        status_there=there,
        note=note,
        told=told,
        asked_at=started if verdict == Verdict.BEHIND and there in BUY_GONE else None,
        **_ours(deal),
    )


def _is_of(seller: Seller, named: _Named | None) -> bool:
    """Whether it names a deal of ours there."""
    return named is not None and named.deal is not None and named.deal.seller_id == seller.pk


def _proves_nothing(buy: Buy, named: _Named | None) -> bool:
    """Of a list that may lack some: whether what came to nothing says no more of a deal that is being bought,
    for one that lives may be lacking. It is no finding, and ends none."""
    if named is None or named.deal is None or _status(buy) not in BUY_GONE:
        return False
    return named.deal.status == DealStatus.BOOKING and not named.lives


def _judge(deal: Deal, there: str) -> tuple[Verdict, str]:
    if there in BUY_GONE and deal.status == DealStatus.BOOKING:
        return Verdict.BEHIND, "ended at the seller"
    if there in BUY_GONE:
        return Verdict.IN_STEP, "ended at the seller"
    if deal.media_buy_id:
        return Verdict.BOUGHT_UNKNOWN, f"the deal is booked as {deal.media_buy_id}"
    if deal.status in _BUYING:
        return _being_bought(deal)
    return Verdict.BOUGHT_UNKNOWN, f"bought, and the deal is {deal.status} here"


def _being_bought(deal: Deal) -> tuple[Verdict, str]:
    """A media buy that runs although its deal is not booked, and that nobody is asked about: whether the
    answer to a purchase is still to come, or to have its effect."""
    own = Operation.objects.filter(subject_type="deal", subject_id=deal.pk, task_type="create_media_buy")
    left = own.filter(sent_at__isnull=False)
    purchase = left.filter(Q(status__in=OPEN) | Q(published_at__isnull=True)).first()
    if purchase is not None and purchase.status == OperationStatus.TIMED_OUT:
        return Verdict.BEHIND, f"{purchase.reference} is overdue, and the seller has it"
    if purchase is not None:
        return Verdict.UNANSWERED, f"{purchase.reference} is not confirmed yet"
    # Its end may have had its effect since the deal was read.
    if not Deal.objects.filter(pk=deal.pk, status=deal.status).exists():
        return Verdict.UNANSWERED, f"{deal.reference} has moved meanwhile"
    return Verdict.BOUGHT_UNKNOWN, f"bought, and nothing of ours waits for it: the deal is {deal.status}"


def _status(buy: Buy) -> str:
    return str(buy.get("media_buy_status") or buy.get("status") or "")


def _told(buy: Buy) -> Buy:
    """The seller's record, to adopt it from; where it is beyond all measure without its packages, of whose
    flights and budgets the whole's are made where it states none."""
    if len(json.dumps(buy, default=str)) <= _MOST_KEPT_BYTES:
        return buy
    names = ["media_buy_id", "status", "media_buy_status", "revision", "currency"]
    names += ["total_budget", "start_time", "end_time"]
    kept = {name: buy[name] for name in names if isinstance(buy.get(name), str | int | float)}
    return {**_by_packages(buy), **kept, "account": account_stated(buy)}


def _by_packages(buy: Buy) -> Buy:
    """A media buy's flight and budget by its packages, as far as these state them."""
    packages = [one for one in packages_of(buy) if not is_cancelled(one)]
    starts = [at for one in packages if (at := parse_time(one.get("start_time")))]
    ends = [at for one in packages if (at := parse_time(one.get("end_time")))]
    budgets = [
        amount_of(one.get("budget")) if one.get("currency") in (None, buy.get("currency")) else None
        for one in packages
    ]
    stated = [budget for budget in budgets if budget is not None]
    return {
        **({"start_time": min(starts).isoformat()} if starts else {}),
        **({"end_time": max(ends).isoformat()} if ends else {}),
        **({"total_budget": f"{sum(stated):f}"} if stated and len(stated) == len(budgets) else {}),
    }


@dataclass(frozen=True, kw_only=True)
class _Named:
    """The deal that a media buy's `context`, or a package's, names. `lives`: whether one that names it
    lives, beside which what came to nothing proves nothing."""

    deal_id: uuid.UUID
    deal: Deal | None
    lives: bool


def _deals_named(buys: dict[str, Buy]) -> dict[str, _Named]:
    """media_buy_id to the deal that it names; absent: made without us."""
    found = {buy_id: _ids_in(buy) for buy_id, buy in buys.items()}
    lines = {line_id for _, line_ids in found.values() for line_id in line_ids}
    by_line = dict(DealLine.objects.filter(pk__in=lines).values_list("pk", "deal_id")) if lines else {}
    named: dict[str, uuid.UUID] = {}
    for buy_id, (deal_id, line_ids) in found.items():
        known = deal_id or next((by_line[line_id] for line_id in line_ids if line_id in by_line), None)
        if known is not None:
            named[buy_id] = known
    rows = Deal.objects.select_related("account__advertiser")
    deals = rows.in_bulk(list(set(named.values()))) if named else {}
    living = {deal_id for buy_id, deal_id in named.items() if _status(buys[buy_id]) not in BUY_GONE}
    return {
        buy_id: _Named(deal_id=deal_id, deal=deals.get(deal_id), lives=deal_id in living)
        for buy_id, deal_id in named.items()
    }


def _ids_in(buy: Buy) -> tuple[uuid.UUID | None, list[uuid.UUID]]:
    """The deal in the `context` that we send with a purchase, and the lines in its packages'."""
    packages = buy.get("packages")
    lines = [_context_id(p, "line_id") for p in packages] if isinstance(packages, list) else []
    return _context_id(buy, "deal_id"), [line_id for line_id in lines if line_id is not None]


def _context_id(part: object, name: str) -> uuid.UUID | None:
    context = part.get("context") if isinstance(part, dict) else None
    try:
        return uuid.UUID(str(context.get(name))) if isinstance(context, dict) else None
    except ValueError:
        return None


READER = Reader(kind=MEDIA_BUY, read=media_buys_reconcile, settle=media_buy_settle)
