"""Questions to a seller that are no operation: of the mirror and of reconciliation.

Each call takes one of the seller's slots and counts in its breaker, like any other. It queues: claims count
it from the moment it waits, so that it is next when a call ends, and neither it nor the operations starve.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import transaction
from django.db.models import Q

from tasks_app.adcp.types import Seen
from tasks_app.database_clock import database_moment, database_now
from tasks_app.ids import new_id
from tasks_app.operations.breaker import (
    breaker_is_clean,
    breaker_probe,
    breaker_record,
    breaker_room,
    is_failure,
)
from tasks_app.operations.lease import CallLease
from tasks_app.operations.leases import Lease, is_live, lease_end, leases_release, leases_renew
from tasks_app.operations.line import Line, UnreadableError, line_to
from tasks_app.sellers.heard import seller_learn, version_heard
from tasks_app.sellers.models import Seller, SellerBreaker

_LOOK_S = 0.2  # so often a call that waits looks whether it is next


@dataclass(frozen=True, kw_only=True)
class _Turn:
    """A place in a seller's queue: next when fewer than `slots` of the calls `ahead` are out."""

    lease: Lease
    slots: int
    ahead: list[uuid.UUID]
    calm: bool


@dataclass(frozen=True, kw_only=True)
class ReadingLine(Line):
    """A line to a seller that takes turns with all other calls to it."""

    seller_id: uuid.UUID

    async def ask(self, tool: str, arguments: Mapping[str, Any], *, task_type: str = "") -> Seen:
        """One call, when it is its turn; whatever comes back.

        Raises UnreadableError: the seller is switched off, has no such tool, is left alone because it does
        not answer, or its connection broke off.
        """
        async with self._turn() as turn:
            seen = await _renewing(turn, super().ask(tool, arguments, task_type=task_type))
        if seen.learned:
            await sync_to_async(seller_learn)(seller_id=self.seller_id, learned=seen.learned)
        if seen.error is not None or seen.other_version:
            await sync_to_async(version_heard)(seller_id=self.seller_id, seen=seen)
        if not turn.calm or is_failure(seen):
            await sync_to_async(breaker_record)(seller_id=self.seller_id, seen=seen)
        return seen

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[_Turn]:
        turn = await sync_to_async(_queue)(self.seller_id)
        try:
            while not await sync_to_async(_is_next)(turn):
                await asyncio.sleep(_LOOK_S)
            yield turn
        finally:
            await sync_to_async(leases_release)([turn.lease])


def reading_line_to(seller: Seller) -> ReadingLine:
    """The line for readings, with what the seller may echo and nobody may see."""
    line = line_to(seller)
    return ReadingLine(seller=seller, endpoint=line.endpoint, secrets=line.secrets, seller_id=seller.pk)


def left_alone() -> Q:
    """A condition on sellers' breakers (prefix `breaker__`): they are not called now, not even to probe."""
    return ~Q(breaker__state=SellerBreaker.State.CLOSED) & Q(breaker__probe_at__gt=database_now())


@transaction.atomic
def _queue(seller_id: uuid.UUID) -> _Turn:
    """Wait behind what is out; under the seller's lock, so that no claim is missed."""
    seller = Seller.objects.defer("capabilities").select_for_update(no_key=True).get(pk=seller_id)
    if not seller.active:
        raise UnreadableError(f"{seller.name} is switched off")
    breaker = SellerBreaker.objects.filter(pk=seller_id).first()
    allowed = None if breaker is None else breaker_room(breaker, now=database_moment())
    if breaker is not None and (allowed == 0 or (allowed is not None and not breaker_probe(breaker))):
        raise UnreadableError(f"{seller.name} did not answer and is left alone for a while")
    live = CallLease.objects.filter(is_live(), seller=seller_id)
    ahead = list(live.values_list("pk", flat=True))
    lease = CallLease.objects.create(id=new_id(), seller=seller, until=lease_end())
    return _Turn(
        lease=Lease(lease.pk, lease.call), slots=seller.slots, ahead=ahead, calm=breaker_is_clean(breaker)
    )


def _is_next(turn: _Turn) -> bool:
    """Whether it may go out now. Who waits renews its place."""
    leases_renew([turn.lease])
    return CallLease.objects.filter(is_live(), pk__in=turn.ahead).count() < turn.slots


async def _renewing(turn: _Turn, call: Coroutine[Any, Any, Seen]) -> Seen:
    """What the call answers. Its lease is short, so that a killed worker's slot soon returns.

    Raises UnreadableError: it was cancelled from within, as by a connection that breaks off.
    """
    task = asyncio.ensure_future(call)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=settings.OPERATION_LEASE_S / 3)
            await sync_to_async(leases_renew)([turn.lease])
        if task.cancelled():  # by nobody here: whoever cancels the reading never comes this far
            raise UnreadableError("its connection broke off")
        return task.result()
    finally:
        task.cancel()
