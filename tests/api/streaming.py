"""Streams by a clock that only waiting moves, as their watchers see them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tasks_app.api import streams
from tasks_app.jobs.feed import Feed, PageWatcher, Watcher
from tasks_app.jobs.told import HEARTBEAT

JOB = uuid.UUID(int=7)


class Loop(asyncio.SelectorEventLoop):
    """Its time stands still while anything is to be done, and goes on to what is awaited next. What a thread
    would do takes as long as `takes` says."""

    def __init__(self) -> None:
        super().__init__()
        self._at = 0.0
        self.takes: dict[str, float] = {}

    def time(self) -> float:
        return self._at

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._at = max(self._at, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]

    def run_in_executor(self, _pool: Any, asked: Callable[..., Any], *told: Any) -> Any:
        return self.create_task(self._later(asked, told))

    async def _later(self, asked: Callable[..., Any], told: tuple[Any, ...]) -> Any:
        try:
            return asked(*told)
        finally:
            await asyncio.sleep(self.takes[asked.__name__])


@contextmanager
def timed() -> Iterator[Loop]:
    loop = Loop()
    try:
        yield loop
    finally:
        loop.close()


async def followed(
    watcher: Watcher | PageWatcher,
    sent: list[tuple[float, bytes]],
    *,
    sending_takes: float = 0.0,
    let_in_at: float = 0.0,
) -> float:
    """Until when the stream of a watcher goes on; `sent`: what it was told, and when."""
    loop = asyncio.get_running_loop()

    async def send(message: Any) -> None:
        if message["body"] != HEARTBEAT:
            sent.append((loop.time(), message["body"]))
            await asyncio.sleep(sending_takes)

    with Feed().watching(watcher, proved_at=let_in_at):
        await streams._follow(watcher, loop.create_future(), send)  # type: ignore[arg-type]
    until = loop.time()
    readers = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*readers)  # they end, for nobody watches
    return until


WATCHERS: dict[str, Callable[[], Watcher | PageWatcher]] = {
    "a job": lambda: Watcher(JOB, 0, None, proof="session:maya"),
    "a page": lambda: PageWatcher(("deal", JOB), "as it was", proof="session:maya"),
}
