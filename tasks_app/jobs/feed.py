"""Events of running jobs, and signs of open pages, for those who watch them: one reader per process asks for
all of them at once, about twice a second, while anybody watches. A watcher costs a little memory: no thread,
no database connection.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from tasks_app.desk.live import sign_told, signs_of
from tasks_app.jobs.settled import Horizon
from tasks_app.jobs.told import as_stream, ends, events_behind

log = structlog.get_logger(__name__)
_AT_ONCE = 200  # events of one job per look
_MOST_KEPT = 1000  # not yet taken by a slow watcher: it is not read for until it has
_REST = 4  # a look that took long is followed by a pause of so many times that
Page = tuple[str, uuid.UUID]  # a kind of page, and what it is about


class Watcher:
    """One who watches a job from behind the event `after`; `ended_at`: the id behind which nothing new will
    come, None while the job has not ended. `bell` rings when there is something to take, or it is `over`."""

    def __init__(self, job_id: uuid.UUID, after: int, ended_at: int | None) -> None:
        self.job_id, self.after, self.ended_at = job_id, after, ended_at
        self.over = False
        self.bell = asyncio.Event()
        self._kept: list[dict[str, Any]] = []

    @property
    def is_full(self) -> bool:
        return len(self._kept) >= _MOST_KEPT

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


class PageWatcher:
    """One who has a page open that was told of `sign`. `bell` rings when there is another."""

    over = False  # a page is watched for as long as it is open

    def __init__(self, page: Page, sign: str) -> None:
        self.page, self._sign = page, sign
        self.bell = asyncio.Event()

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
    """Reads for all watchers of this process, in one thread of its own."""

    def __init__(self) -> None:
        self._watchers: set[Watcher] = set()
        self._pages: set[PageWatcher] = set()
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="job-events")
        self._horizon = Horizon()

    @contextmanager
    def watching(self, watcher: Watcher | PageWatcher) -> Iterator[None]:
        """Read for the watcher for as long as the block runs."""
        watchers: set[Any] = self._pages if isinstance(watcher, PageWatcher) else self._watchers
        watchers.add(watcher)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read_on())
        try:
            yield
        finally:
            watchers.discard(watcher)

    async def _read_on(self) -> None:
        loop = asyncio.get_running_loop()
        while self._watchers or self._pages:
            begun = time.monotonic()
            wanted, pages = self._wanted(), {watcher.page for watcher in self._pages}
            settled, found, signs = await loop.run_in_executor(self._thread, self._read, wanted, pages)
            for watcher in list(self._pages):
                watcher.give(signs.get(watcher.page))
            if not self._hand_over(settled, found):
                await asyncio.sleep(max(settings.STREAM_TICK_S, _REST * (time.monotonic() - begun)))

    def _wanted(self) -> dict[uuid.UUID, int]:
        """Each watched job from behind the event at which its last watcher is."""
        wanted: dict[uuid.UUID, int] = {}
        for watcher in self._watchers:
            if not watcher.is_full:
                wanted[watcher.job_id] = min(watcher.after, wanted.get(watcher.job_id, watcher.after))
        return wanted

    def _hand_over(self, settled: int, found: dict[uuid.UUID, list[Any]]) -> bool:
        """Whether there is more to read at once."""
        again = False
        for watcher in list(self._watchers):
            events = found.get(watcher.job_id)
            if events is not None and not watcher.is_full:
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
