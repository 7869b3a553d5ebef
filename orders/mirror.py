"""Reading media buys from their sellers again when they are due: many in one question per seller, account
and owner.

A question names one advertiser's media buys, of one team: the words that refuse it are shown on each of their
pages. A pass costs what is due. Rows are claimed with a lease, so any number of workers may run; a killed
one's are due again. No transaction is open while a seller is waited for; a hanging seller delays only itself.
Source: AdCP media-buy/get-media-buys, media-buy/get-media-buy-delivery "Final vs provisional numbers".
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import structlog
from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings
from django.db import DatabaseError, close_old_connections, connection, transaction
from django.db.models import QuerySet

from orders.confirmation import mirror, stated_at
from orders.mirror_times import next_attempt
from orders.models import LIVE, Deal, DealMirror
from orders.reconcile import ALL_STATUSES, TOOL
from orders.seller_state import Freshness, deal_follow, is_older
from tasks_app import clock
from tasks_app.adcp.values import boolean_of, identity_of
from tasks_app.database_clock import database_in, database_now
from tasks_app.operations.line import Line, UnreadableError, told_in_part, within
from tasks_app.operations.reading import left_alone, reading_line_to
from tasks_app.operations.sharing import rows_in_shares
from tasks_app.sellers.models import Seller
from tasks_app.troubles.rows import connection_lost, each_row, held_back, put_back, together
from tasks_app.troubles.works import work_on
from tasks_app.waking import wake_workers

log = structlog.get_logger(__name__)
REFRESH = "orders.mirror.mirrors_refresh_due"
_DELIVERY_TOOL = "get_media_buy_delivery"
_IDS_AT_ONCE = 50  # media buys named in one question
_CLAIM = 1000
_SLICE_S = 20  # a task of the queue takes no more rows after so long; the next one does
_WORK = work_on("mirrors_read", "deal")
_CLAIM_LOCK = 0xF117_D41B
# Beyond its limit a claim is kept so long, so that what was heard in the last moment is still written.
_MARGIN = timedelta(seconds=30)
_NOT_TOLD = "The seller did not tell of it"
Buy = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Due:
    """One media buy to be read."""

    deal_id: uuid.UUID
    media_buy_id: str


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """The media buys of one account and owner, as one question (the ids) or a few."""

    account: dict[str, Any] | None
    due: list[_Due]


@dataclass(frozen=True, kw_only=True)
class _Errand:
    """All that is due with one seller, and how to ask it without the database."""

    seller: str
    can_ask: bool
    tells_delivery: bool
    line: Line
    batches: list[_Batch] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class _Told:
    """What was heard of one media buy: the seller's record, or why there is none."""

    due: _Due
    asked_at: datetime
    buy: Buy | None = None
    final: bool | None = None
    unread: str = ""


def mirrors_wake() -> int:
    """A chore of the sweep: wake a worker where a reading is due. Answers 1 when it did."""
    if not _claimable().exists():
        return 0
    return wake_workers(REFRESH)


def mirrors_refresh_due() -> int:
    """Read what is due, for a while; answers how many media buys were read. A task of the queue."""
    close_old_connections()
    until, read = time.monotonic() + _SLICE_S, 0
    while time.monotonic() < until:
        taken = async_to_sync(_pass)()
        if not taken:
            break
        read += taken
    return read


def mirror_read_now(*, deal: Deal) -> None:
    """Make a live deal's reading due at once. Harmless when repeated; rows only."""
    if deal.status in LIVE and deal.media_buy_id:
        mirror_row, _ = DealMirror.objects.get_or_create(deal=deal)
        DealMirror.objects.filter(pk=mirror_row.pk).update(due_at=clock.now())


async def _pass() -> int:
    errands = await sync_to_async(_claim)()
    return sum(await asyncio.gather(*(_run(errand) for errand in errands)))


def _claimable() -> QuerySet[DealMirror]:
    """Due with an active seller that answers and that nobody is asking."""
    now = clock.now()
    asked = DealMirror.objects.filter(lease_until__gte=database_now())
    due = DealMirror.objects.filter(due_at__lte=now, deal__seller__active=True)
    due = due.exclude(deal__media_buy_id="")  # asked for without a name it would spoil the others' question
    due = due.exclude(pk__in=held_back(_WORK))
    due = due.exclude(deal__seller__in=Seller.objects.filter(left_alone()))
    return due.exclude(deal__seller__in=asked.values("deal__seller"))


@transaction.atomic
def _claim() -> list[_Errand]:
    """Take what is due; one claims at a time, for a moment."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_advisory_xact_lock(%s)", [_CLAIM_LOCK])
    shared = rows_in_shares(_claimable(), seller="deal__seller", since="due_at", limit=_CLAIM)
    rows = {row.pk: row for row in shared.select_related("deal__account", "deal__seller")}
    lease = database_in(settings.MIRROR_LIMIT_S + _MARGIN.total_seconds())

    def take(ids: Sequence[uuid.UUID]) -> list[_Errand]:
        DealMirror.objects.filter(pk__in=ids).update(lease_until=lease)
        return _errands(rows[pk].deal for pk in ids)

    return together(_WORK, rows, take)


def _errands(deals: Iterable[Deal]) -> list[_Errand]:
    """One for each seller."""
    by_seller: dict[uuid.UUID, list[Deal]] = {}
    for deal in deals:
        by_seller.setdefault(deal.seller_id, []).append(deal)
    return [_errand(due) for due in by_seller.values()]


def _errand(deals: Sequence[Deal]) -> _Errand:
    """Of one seller's."""
    batches: dict[tuple[uuid.UUID | None, ...], _Batch] = {}
    for deal in deals:
        reference = deal.account.reference if deal.account else None
        owner = (deal.account_id, deal.team_id, deal.advertiser_id)
        batch = batches.setdefault(owner, _Batch(account=reference, due=[]))
        batch.due.append(_Due(deal_id=deal.pk, media_buy_id=deal.media_buy_id))
    seller = deals[0].seller
    return _Errand(
        seller=seller.slug,
        can_ask=seller.offers(TOOL),
        tells_delivery=seller.offers(_DELIVERY_TOOL),
        line=reading_line_to(seller),
        batches=list(batches.values()),
    )


async def _run(errand: _Errand) -> int:
    """Ask one seller, batch by batch; what is heard is written before the next question. What there was no
    time to ask about is let go, as due as it was. Answers how many were asked about."""
    until = time.monotonic() + settings.MIRROR_LIMIT_S
    asked = 0
    for batch in errand.batches:
        for first in range(0, len(batch.due), _IDS_AT_ONCE):
            due = batch.due[first : first + _IDS_AT_ONCE]
            asked += await _read(errand, batch.account, due, until)
    return asked


async def _read(errand: _Errand, account: dict[str, Any] | None, due: list[_Due], until: float) -> int:
    """Hear of them and write it. Where that raises, each is asked for by itself: one whose record cannot be
    handled is put back, and stops neither the others nor other sellers'."""
    try:
        told = await _heard(errand, account, due, until)
    except Exception as error:  # whatever it was, everything else is read all the same
        if len(due) == 1:
            await sync_to_async(_put_back)(due[0], error)
            return 1
        log.warning("not_read_together", seller=errand.seller, media_buys=len(due), error=str(error))
        return sum([await _read(errand, account, [one], until) for one in due])
    if told:
        await sync_to_async(_write_all)(told, errand.seller)
    not_asked = {one.deal_id for one in due} - {one.due.deal_id for one in told}
    if not_asked:
        await sync_to_async(_release)(not_asked)
    return len(told)


async def _heard(
    errand: _Errand, account: dict[str, Any] | None, due: list[_Due], until: float
) -> list[_Told]:
    """What the seller says of each that there is time to ask about; `until` (monotonic seconds) everything
    must have been said."""
    told = await _asked(errand, account, due, until)
    final = await _finals(errand, account, told, until)
    return [replace(one, final=final.get(one.due.media_buy_id)) for one in told]


async def _asked(
    errand: _Errand, account: dict[str, Any] | None, due: list[_Due], until: float
) -> list[_Told]:
    """The record of each, or why there is none. Where one unknown id spoils the question each half is asked
    for by itself; what is not asked before the time is over is left out."""
    left = until - time.monotonic()
    if left <= 0:
        return []
    asked_at, wanted = clock.now(), [one.media_buy_id for one in due]
    try:
        if not errand.can_ask:
            raise UnreadableError("It cannot be asked what was booked")
        listed = _listed(errand.line, account, wanted)
        buys, not_listed = await within(left, listed, of=settings.MIRROR_LIMIT_S)
    except UnreadableError as error:
        if error.unknown_there and len(due) > 1:
            half = len(due) // 2
            first = await _asked(errand, account, due[:half], until)
            return first + await _asked(errand, account, due[half:], until)
        why = _NOT_TOLD if error.unknown_there else str(error)
        return [_Told(due=one, asked_at=asked_at, unread=why) for one in due]
    return [
        _Told(
            due=one,
            asked_at=asked_at,
            buy=buys.get(one.media_buy_id),
            unread="" if one.media_buy_id in buys else not_listed,
        )
        for one in due
    ]


async def _listed(
    line: Line, account: dict[str, Any] | None, wanted: list[str]
) -> tuple[dict[str, Buy], str]:
    """The newest record of each that is listed, and why the others are not."""
    arguments: dict[str, Any] = {"media_buy_ids": wanted, "status_filter": ALL_STATUSES}
    if account is not None:
        arguments["account"] = account
    found: dict[str, Buy] = {}
    with told_in_part() as lacking:
        async for rows in line.rows(TOOL, arguments, listed="media_buys"):
            for buy in rows:
                media_buy_id = identity_of(buy.get("media_buy_id"))
                if media_buy_id is None or media_buy_id not in wanted:
                    continue  # nobody asked for it
                earlier = found.get(media_buy_id)
                if earlier is None or not is_older(_freshness(buy), _freshness(earlier)):
                    found[media_buy_id] = buy
    return found, str(lacking[0]) if lacking else _NOT_TOLD


def _freshness(buy: Buy) -> Freshness:
    return Freshness(revision=mirror(buy).get("revision"), stated_at=stated_at(buy), asked_at=None)


async def _finals(
    errand: _Errand, account: dict[str, Any] | None, told: list[_Told], until: float
) -> dict[str, bool]:
    """Of those that were told completed: whether their delivery figures are final. Nothing where the seller's
    tool for that refuses or is out of order: what is booked is heard all the same. It has half of the time
    that is left, so that one that hangs leaves some for the other media buys."""
    ended = [one.due.media_buy_id for one in told if _is_completed(one.buy)]
    if not (ended and errand.tells_delivery):
        return {}
    try:
        half = max(until - time.monotonic(), 0) / 2
        return await within(half, _finals_listed(errand.line, account, ended))
    except UnreadableError as error:
        log.warning("delivery_not_read", seller=errand.seller, media_buys=len(ended), error=str(error))
        return {}


async def _finals_listed(line: Line, account: dict[str, Any] | None, wanted: list[str]) -> dict[str, bool]:
    """Media buy to whether its delivery figures are final: its row says so, or every package in it."""
    arguments: dict[str, Any] = {"media_buy_ids": wanted}
    if account is not None:
        arguments["account"] = account
    found: dict[str, bool] = {}
    with told_in_part():
        async for rows in line.rows(_DELIVERY_TOOL, arguments, listed="media_buy_deliveries"):
            for row in rows:
                media_buy_id = identity_of(row.get("media_buy_id"))
                if media_buy_id is not None and media_buy_id in wanted:
                    found[media_buy_id] = _row_is_final(row)
    return found


def _is_completed(buy: Buy | None) -> bool:
    return buy is not None and mirror(buy).get("media_buy_status") == "completed"


def _row_is_final(row: Mapping[str, Any]) -> bool:
    stated = boolean_of(row.get("is_final"))
    if stated is not None:
        return stated
    packages = row.get("by_package")
    if not isinstance(packages, list) or not packages:
        return False
    return all(isinstance(package, dict) and boolean_of(package.get("is_final")) for package in packages)


def _put_back(due: _Due, error: Exception) -> None:
    if connection_lost():
        raise error
    put_back(_WORK, due.deal_id, error)
    _release([due.deal_id])


def _release(deals: Collection[uuid.UUID]) -> None:
    """Let go of what was put back or not asked about, as far as its row can be written at all: while one of
    a seller's is held, nobody asks for the others."""
    with suppress(DatabaseError), transaction.atomic():
        DealMirror.objects.filter(pk__in=deals, lease_until__isnull=False).update(lease_until=None)


def _write_all(told: list[_Told], seller: str) -> None:
    by_deal = {one.due.deal_id: one for one in told}

    def write(deal_id: uuid.UUID) -> int:
        _write(by_deal[deal_id])
        return 1

    if each_row(_WORK, by_deal, write, commits=True) < len(by_deal):
        _release(by_deal)


def _write(told: _Told) -> None:
    if told.buy is not None:
        deal_follow(deal_id=told.due.deal_id, buy=told.buy, asked_at=told.asked_at, final=told.final)
        DealMirror.objects.filter(pk=told.due.deal_id).update(lease_until=None)
        return
    with transaction.atomic():
        kept = DealMirror.objects.select_for_update(no_key=True).get(pk=told.due.deal_id)
        kept.failures += 1
        kept.unread, kept.lease_until = told.unread[:500], None
        kept.due_at = next_attempt(kept.failures, now=clock.now()) if kept.due_at else None
        kept.save()
