"""The sweep: sends and polls what is due, many at once in one asyncio loop, and declares what is overdue.

It costs what is due, not what exists; a hanging seller delays only itself (document 000).
"""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

import structlog
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection

from tasks_app import clock, stopping
from tasks_app.adcp.types import Seen
from tasks_app.operations import deadlines, dispatch, publish
from tasks_app.operations.claims import WORK
from tasks_app.operations.leases import Lease, leases_forget, leases_release, leases_renew
from tasks_app.operations.pulse import pulse_beat
from tasks_app.session_locks import (
    session_end,
    session_lock,
    session_lock_holder,
    session_locked,
    session_unlock,
)
from tasks_app.troubles.rows import connection_lost, put_back

log = structlog.get_logger(__name__)
# What else a sweep looks after, registered by the rooms above: each answers how many rows it handled.
_chores: dict[str, Callable[[], int]] = {}
# One sweep loop at a time in all clusters; a killed holder's connection gives it back.
_LOCK = 0xF117_D3C5
# Long beside the calls that are out at its end: the turn's process waits for them while another sweeps, which
# is missing for everything else meanwhile.
TURN_S = 3600
# A call and all that follows from its answer end within its own limit and so much more.
_MARGIN_S = 15
_PART = 8  # a claim follows when this part of the calls that were out have ended


@dataclass
class Swept:
    """What one pass, or one run of passes, did."""

    sent: int = 0
    polled: int = 0
    published: int = 0
    overdue: int = 0
    chores: dict[str, int] = field(default_factory=dict)

    @property
    def calls(self) -> int:
        return self.sent + self.polled

    def as_dict(self) -> dict[str, int]:
        counts = asdict(self)
        return {**counts.pop("chores"), **counts}


def chore_register(name: str, chore: Callable[[], int]) -> None:
    """Run `chore` once in every pass."""
    _chores[name] = chore


def sweep_runs() -> bool:
    """Whether a process of any cluster sweeps now."""
    return session_locked(_LOCK)


async def sweep_once() -> Swept:
    """One pass: everything due now is called and observed, and what follows from it, before it answers.

    What becomes due meanwhile is the next pass's.
    """
    sweeper = _Sweeper(due_by=clock.now())
    started = -1
    while started != sweeper.swept.calls:
        started = sweeper.swept.calls
        await sweeper.tick()
        await sweeper.run_dry()
    return sweeper.swept


def last_calls_s() -> float:
    """How long the calls that are out at the end of a turn are waited for: each has its whole limit, and its
    last try, which may begin at the end of that, as long again (`adcp.client.call`)."""
    longest = max(settings.CALL_TIMEOUT_S, settings.WORKING_TIMEOUT_S)
    return max(2.0 * longest, float(settings.RECONCILE_LIMIT_S)) + _MARGIN_S


def turn_limit_s() -> int:
    """No turn lasts longer, its last calls among it."""
    return math.ceil(TURN_S + last_calls_s() + settings.SWEEP_TICK_S + _MARGIN_S)


async def sweep_for(
    *, seconds: float, handover: Callable[[], None], alive: Callable[[], bool] = lambda: True
) -> Swept:
    """Pass after pass, settings.SWEEP_TICK_S apart, for `seconds`, or until this process is asked to stop or
    `alive()` says that it is of no more use. That is asked as often as something is looked at: where nobody
    asks, this hangs.

    Does nothing while another process sweeps, and ends where one does by the time that a connection which
    was lost is there again. At the end `handover()` lets the next one begin, then the calls still out are
    waited for, each as long as it may take; asked to stop, they are released and sent again.
    """
    sweeper = _Sweeper(alive=alive)
    # In the thread that the work is done in: a connection that broke under the last slice is replaced.
    await sync_to_async(close_old_connections)()
    await sweeper.lock()
    if not sweeper.alone:
        return sweeper.swept
    until = time.monotonic() + seconds
    try:
        while sweeper.alone and sweeper.useful and time.monotonic() < until and not stopping.asked():
            await sweeper.safely(sweeper.tick)
            await sweeper.refill(seconds=settings.SWEEP_TICK_S)
            await sweeper.safely(sweeper.lock)
    finally:
        await sync_to_async(session_unlock)(_LOCK)
    if sweeper.alone:
        await sweeper.safely(sync_to_async(handover))
    await sweeper.drain(seconds=last_calls_s())
    return sweeper.swept


class _Sweeper:
    def __init__(self, *, due_by: datetime | None = None, alive: Callable[[], bool] = lambda: True) -> None:
        self._alive = alive
        self.useful = True  # as `alive` said last
        self.swept = Swept()
        self.alone = True  # as far as it knows, nobody else sweeps
        self._locked_on: Any = None  # the connection that holds the lock
        self._locked_by = 0  # the database's process of it
        self._due_by = due_by
        self._polls_first = False
        self._out: dict[asyncio.Task[None], uuid.UUID] = {}
        self._leases: dict[uuid.UUID, Lease] = {}  # of what is out, by operation
        self._renew_at = 0.0
        self._per_seller: Counter[uuid.UUID] = Counter()
        self._ended, self._enough, self._room = 0, 1, asyncio.Event()
        self._answered: deque[tuple[dispatch.Call, Seen]] = deque()  # and not observed yet
        self._observing = asyncio.Lock()

    async def lock(self) -> None:
        """Be the one that sweeps, or know that another is. The lock went with a connection that was lost."""
        await sync_to_async(self._lock)()

    def _lock(self) -> None:
        connection.ensure_connection()
        if self._locked_on is connection.connection:
            return
        locked = session_lock(_LOCK)
        if not locked and self._locked_by and session_lock_holder(_LOCK) == self._locked_by:
            # The database does not know yet that our connection is gone; the lock is asked for again.
            session_end(self._locked_by)
            return
        if self._locked_by:
            log.info("sweep_lock_lost", taken_again=locked)
        self.alone, self._locked_on = locked, connection.connection
        self._locked_by = connection.connection.info.backend_pid

    async def safely(self, step: Callable[[], Awaitable[None]]) -> None:
        """A step; whatever it raises, the calls that are out are not given up for it."""
        try:
            await step()
        except Exception as error:  # the calls that are out are not given up for it
            if not await sync_to_async(_disconnected)(error):
                log.exception("sweep_tick_failed")
                return
            # The lock is gone with the connection. Another sweep beside this one, until it is asked for
            # again (`lock`), does no harm: rows are claimed with skip locked.
            log.warning("sweep_database_lost", error=str(error))

    async def tick(self) -> None:
        await self.fill()
        await sync_to_async(self._rows)()

    async def fill(self) -> None:
        """Begin what is due, as far as there is room."""
        self.useful = self._alive()
        await self._renew_leases()
        self._ended = 0
        self._room.clear()
        room = settings.SWEEP_BATCH - len(self._out)
        if self._polls_first:
            polls = await self._start(dispatch.claim_polls, room)
            sends = await self._start(dispatch.claim_sends, room - polls)
        else:
            sends = await self._start(dispatch.claim_sends, room)
            polls = await self._start(dispatch.claim_polls, room - sends)
        # In turns: a seller with one slot and many sends is still asked for news, and the other way round.
        self._polls_first = not self._polls_first
        self.swept.sent += sends
        self.swept.polled += polls
        self._enough = max(1, len(self._out) // _PART)

    async def refill(self, *, seconds: float) -> None:
        """For so long, fill the room that calls leave as they end: many at once where many are out."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not stopping.asked():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._room.wait(), timeout=left)
                await self.safely(self.fill)

    async def run_dry(self) -> None:
        """Fill the room that calls leave until none is out; asked to stop, hand them back."""
        while self._out:
            if stopping.asked():
                await self._hand_back()
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._room.wait(), timeout=settings.SWEEP_TICK_S)
                await self.fill()
            await self._renew_leases()

    async def drain(self, *, seconds: float) -> None:
        """Wait for the calls that are out; after `seconds`, or when asked to stop, hand them back."""
        until = time.monotonic() + seconds
        while self._out:
            self._alive()
            if stopping.asked() or time.monotonic() >= until:
                await self.safely(self._hand_back)
                return
            await asyncio.wait(self._out, timeout=settings.SWEEP_TICK_S, return_when=asyncio.FIRST_COMPLETED)
            await self.safely(self._renew_leases)

    async def _start(self, claim: Callable[..., list[dispatch.Call]], room: int) -> int:
        if room <= 0:
            return 0
        calls = await sync_to_async(claim)(
            limit=room,
            out=self._per_seller,
            due_by=self._due_by,
            batch=settings.SWEEP_BATCH,
            # Where this process was slow its leases ran out: a claim would count as one more attempt.
            mine=list(self._leases),
        )
        self._leases |= {call.operation_id: call.lease for call in calls}
        for call in calls:
            self._per_seller[call.seller_id] += 1
            task = asyncio.create_task(self._one(call))
            self._out[task] = call.operation_id
            task.add_done_callback(self._end)
        return len(calls)

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._leases[self._out.pop(task)]
        self._ended += 1
        if self._ended >= self._enough:
            self._room.set()

    async def _one(self, call: dispatch.Call) -> None:
        try:
            seen = await dispatch.make(call)
            self._answered.append((call, seen))
            await self._observe()
        except Exception as error:  # one operation's trouble stops no other
            await self._failed(call, error)
        except asyncio.CancelledError as error:
            if _is_cut_off():
                raise
            await self._failed(call, error)  # from within, as by a connection that breaks off
        finally:
            self._per_seller[call.seller_id] -= 1

    async def _failed(self, call: dispatch.Call, error: BaseException) -> None:
        """It is put back; where the database is away its lease runs out, and it is due again."""
        log.error("call_failed", operation=str(call.operation_id), tool=call.tool, error=str(error))
        try:
            if not isinstance(error, OperationalError | InterfaceError):
                await sync_to_async(put_back)(WORK, call.operation_id, error)
        except (OperationalError, InterfaceError) as lost:
            log.warning("call_not_put_back", operation=str(call.operation_id), error=str(lost))

    async def _observe(self) -> None:
        """Observe what was answered since somebody last did: by whoever comes first, for all that wait."""
        async with self._observing:
            await sync_to_async(self._finish_answered)()

    def _finish_answered(self) -> None:
        """Taken here, in the thread of the database, and one by one: whoever is cancelled before this began
        leaves all of them, and an answer that comes in meanwhile is the next one's."""
        answered = [self._answered.popleft() for _ in range(len(self._answered))]
        if answered:
            dispatch.finish([(self._leased(call), seen) for call, seen in answered])

    def _leased(self, call: dispatch.Call) -> dispatch.Call:
        """The call with the lease by which it is out now."""
        return replace(call, lease=self._leases.get(call.operation_id, call.lease))

    async def _renew_leases(self) -> None:
        """Leases are short, so that a killed worker's calls are soon made again; it renews them meanwhile."""
        if self._out:
            await sync_to_async(self._renew)()

    def _renew(self) -> None:
        if time.monotonic() >= self._renew_at:
            leases_renew(list(self._leases.values()))
            self._renew_at = time.monotonic() + settings.OPERATION_LEASE_S / 3

    async def _hand_back(self) -> None:
        """Cut off what is out, so that it is due again; what was answered already is observed first, or it
        would be sent again."""
        tasks, leases = list(self._out), list(self._leases.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await sync_to_async(self._finish_answered)()
        await sync_to_async(leases_release)(leases)

    def _rows(self) -> None:
        """What needs no seller."""
        _run("leases_forgotten", leases_forget)
        self.swept.overdue += _run("deadlines", _time_out_due)
        self.swept.published += _run("published", _publish_due)
        for name, chore in _chores.items():
            self._alive()
            self._renew()  # the ones before may have taken long
            self.swept.chores[name] = self.swept.chores.get(name, 0) + _run(name, chore)


def _is_cut_off() -> bool:
    """Whether somebody asked this task to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _time_out_due() -> int:
    pulse_beat()  # after an outage, what waited has its time before anything is declared overdue
    return deadlines.time_out_due(limit=settings.SWEEP_BATCH)


def _publish_due() -> int:
    return publish.publish_due(limit=settings.SWEEP_BATCH)


def _run(name: str, chore: Callable[[], int]) -> int:
    try:
        return chore()
    except Exception as error:  # one chore's trouble stops no other
        if _lost(error):
            raise
        log.exception("chore_failed", chore=name)
        return 0


def _lost(error: Exception) -> bool:
    """Whether it was raised because the connection is gone: not for a lock that was waited for too long."""
    return isinstance(error, OperationalError | InterfaceError) and connection_lost()


def _disconnected(error: Exception) -> bool:
    """A connection that is gone is closed: the next query opens another. In the thread whose connection it
    is."""
    lost = _lost(error)
    if lost:
        connection.close()
    return lost
