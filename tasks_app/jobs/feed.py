"""Events of running jobs, and signs of open pages, for those who watch them: one reader per process asks for
all of them at once, about twice a second, while anybody watches. A watcher costs a little memory: no thread,
no database connection.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from tasks_app.desk.live import is_last_sign, sign_told, signs_of
from tasks_app.jobs.settled import Horizon
from tasks_app.jobs.told import as_stream, ends, events_behind
from tasks_app.people.access import proofs_standing

log = structlog.get_logger(__name__)
_AT_ONCE = 200  # events of one job per look
_MOST_KEPT = 1000  # not yet taken by a slow watcher: it is not read for until it has
_REST = 4  # a look that took long is followed by a pause of so many times that
_MOST_REST_S = 2.0
_MOST_TROUBLE_S = 30.0  # a look that fails is made again twice as late each time, up to this
_MOST_DOUBLED = 16
# A login that ends, ends here within five seconds, however long a look takes, even where none is answered.
_PROVED_EVERY_S = 1.0
_PROVED_FOR_S = 4.0
Page = tuple[str, uuid.UUID]  # a kind of page, and what it is about


class Proved:
    """One who watches by a `proof` (people/access.py; empty: none is asked for) that was last known to stand
    at `proved_at`, by the loop's clock. `bell` rings when there is something to take, it is `over`, or it is
    `shut`: the proof stands no more."""

    def __init__(self, proof: str) -> None:
        self.proof, self.proved_at = proof, 0.0
        self.shut = False
        self.bell = asyncio.Event()

    @property
    def is_proved(self) -> bool:
        """Whether it is known that they may still be told anything: a while ago, the proof stood."""
        age = asyncio.get_running_loop().time() - self.proved_at if self.proof else 0.0
        return not self.shut and age <= _PROVED_FOR_S


class Watcher(Proved):
    """One who watches a job from behind the event `after`; `ended_at`: the id behind which nothing new will
    come, None while the job has not ended."""

    def __init__(self, job_id: uuid.UUID, after: int, ended_at: int | None, *, proof: str = "") -> None:
        super().__init__(proof)
        self.job_id, self.after, self.ended_at = job_id, after, ended_at
        self.over = False
        self._kept: list[dict[str, Any]] = []

    @property
    def is_full(self) -> bool:
        return len(self._kept) >= _MOST_KEPT

    @property
    def is_ready(self) -> bool:
        """Whether anything is read for them: they take what they are given, and may be told it."""
        return not self.is_full and self.is_proved

    def take(self) -> list[dict[str, Any]]:
        """What has come since, oldest first."""
        taken, self._kept = self._kept, []
        self.bell.clear()
        return taken

    def take_stream(self) -> bytes:
        """The same as server-sent events."""
        return as_stream(self.take())

    def give(self, events: list[dict[str, Any]], *, settled: int, more: bool) -> None:
        """Hand over what is new to this watcher: all up to the id `settled`, unless there is `more`."""
        new = [event for event in events if event["id"] > self.after]
        if new:
            self.after = new[-1]["id"]
            self._kept += new
            self.ended_at = next((event["id"] for event in new if ends(event)), self.ended_at)
        self.over = self.ended_at is not None and self.ended_at <= settled and not more
        if new or self.over:
            self.bell.set()


class PageWatcher(Proved):
    """A viewer of an open page, who knows `sign`. There is something to take when there is another sign."""

    def __init__(self, page: Page, sign: str, *, proof: str = "") -> None:
        super().__init__(proof)
        self.page, self._sign = page, sign

    @property
    def over(self) -> bool:
        """Whether nothing follows the newest sign."""
        return is_last_sign(self.page[0], self._sign)

    def take_stream(self) -> bytes:
        """The newest sign as a server-sent event; empty where it was told."""
        if not self.bell.is_set():
            return b""
        self.bell.clear()
        return sign_told(self._sign)

    def give(self, sign: str | None) -> None:
        """The sign now; None where what the page is about is gone."""
        if sign is not None and sign != self._sign:
            self._sign = sign
            self.bell.set()


class Feed:
    """Reads for all watchers of this process, in one thread of its own, and in another whether what they
    watch by still stands."""

    def __init__(self) -> None:
        self._watchers: set[Watcher] = set()
        self._pages: set[PageWatcher] = set()
        self._task: asyncio.Task[None] | None = None
        self._proving: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="job-events")
        self._prover = ThreadPoolExecutor(1, thread_name_prefix="job-proofs")
        self._horizon = Horizon()

    @contextmanager
    def watching(self, watcher: Watcher | PageWatcher, *, proved_at: float | None = None) -> Iterator[None]:
        """Read for the watcher for as long as the block runs. `proved_at`: since when what they watch by may
        not have been looked at, now where it is not said."""
        watcher.proved_at = asyncio.get_running_loop().time() if proved_at is None else proved_at
        watchers: set[Any] = self._pages if isinstance(watcher, PageWatcher) else self._watchers
        watchers.add(watcher)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read_on())
        if watcher.proof and (self._proving is None or self._proving.done()):
            self._proving = asyncio.create_task(self._prove_on())
        try:
            yield
        finally:
            watchers.discard(watcher)

    async def _read_on(self) -> None:
        failed = 0
        while self._watchers or self._pages:
            try:
                rest, failed = await self._look(), 0
            except Exception as error:  # whatever it was: everybody is where they were, and is read for later
                failed += 1
                rest = _again_in_s(failed)
                log.exception("stream_look_failed", times=failed, again_in_s=rest, error=type(error).__name__)
            await asyncio.sleep(rest)

    async def _look(self) -> float:
        """One look for everybody; answers how long to rest after it, in seconds."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        wanted, pages = self._wanted(), {watcher.page for watcher in self._pages if watcher.is_proved}
        settled, found, signs = await loop.run_in_executor(self._thread, self._read, wanted, pages)
        for watcher in [one for one in self._pages if one.is_proved]:
            watcher.give(signs.get(watcher.page))
        if self._hand_over(wanted, settled, found):
            return 0.0
        return max(settings.STREAM_TICK_S, min(_REST * (loop.time() - begun), _MOST_REST_S))

    async def _prove_on(self) -> None:
        while watchers := self._with_proof():
            try:
                await self._prove(watchers)
            except Exception as error:  # whatever it was: nothing is told until a later look is answered
                log.warning("stream_proofs_unread", error=type(error).__name__, said=str(error))
            await asyncio.sleep(_PROVED_EVERY_S)

    async def _prove(self, watchers: list[Watcher | PageWatcher]) -> None:
        """Close who watches by a login that has ended. One that stands did so when the look began."""
        loop = asyncio.get_running_loop()
        begun, proofs = loop.time(), {one.proof for one in watchers}
        standing = await loop.run_in_executor(self._prover, self._standing, proofs)
        for watcher in watchers:
            if watcher.proof in standing:
                watcher.proved_at = begun
            else:
                watcher.shut = True
                watcher.bell.set()

    def _with_proof(self) -> list[Watcher | PageWatcher]:
        everybody: list[Watcher | PageWatcher] = [*self._watchers, *self._pages]
        return [one for one in everybody if one.proof]

    def _standing(self, proofs: set[str]) -> set[str]:
        try:
            return proofs_standing(proofs)
        finally:
            connection.close()

    def _wanted(self) -> dict[uuid.UUID, int]:
        """Each watched job from behind the event at which its last watcher is."""
        wanted: dict[uuid.UUID, int] = {}
        for watcher in self._watchers:
            if watcher.is_ready:
                wanted[watcher.job_id] = min(watcher.after, wanted.get(watcher.job_id, watcher.after))
        return wanted

    def _hand_over(
        self, wanted: dict[uuid.UUID, int], settled: int, found: dict[uuid.UUID, list[Any]]
    ) -> bool:
        """Whether there is more to read at once. Who is at an earlier event than was read from (they came, or
        took what they had, during the look) gets nothing of it: the next look begins where they are."""
        again = False
        for watcher in list(self._watchers):
            events = found.get(watcher.job_id)
            if events is None or not watcher.is_ready:
                continue
            if watcher.after < wanted[watcher.job_id]:
                again = True
                continue
            more = len(events) >= _AT_ONCE
            watcher.give(events, settled=settled, more=more)
            again = again or more
        return again

    def _read(
        self, wanted: dict[uuid.UUID, int], pages: set[Page]
    ) -> tuple[int, dict[uuid.UUID, list[Any]], dict[Page, str]]:
        try:
            signs = signs_of(pages)
            settled = self._horizon.look()[0] if wanted else 0
            return settled, events_behind(wanted, settled, _AT_ONCE) if wanted else {}, signs
        except (OperationalError, InterfaceError) as error:  # the next look finds what this one did not
            log.warning("job_events_database_lost", error=type(error).__name__)
            return 0, {}, {}
        finally:
            connection.close()


def _again_in_s(failed: int) -> float:
    """When to look again after so many looks that failed."""
    tick: float = settings.STREAM_TICK_S
    return max(tick, min(tick * 2 ** min(failed, _MOST_DOUBLED), _MOST_TROUBLE_S))
