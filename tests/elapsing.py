"""Limits that elapse as soon as a test wants it, and not before: nobody waits for them, and no machine is too
slow for what has to come first. What waits in an event loop goes by the loop's clock; here it is turned."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial

import pytest
from django.db import connections

from tests.support import until

_HOUR_S = 3600.0  # longer than any limit


@contextmanager
def elapsing(count: Callable[[], int], times: int = 1) -> Iterator[None]:
    """Within the block, each of the first `times` times that `count()` grows, whatever event loops wait for
    at that moment has taken too long. `count` is asked in a thread of its own; where it grows too seldom, the
    test has failed, and the limits elapse all the same."""
    clock, over = _Turned(), threading.Event()
    before = count()

    def has_grown(by: int) -> bool:
        return over.is_set() or count() >= before + by

    def turn() -> None:
        try:
            for by in range(1, times + 1):
                until(partial(has_grown, by), "what comes before the limit", every=0.02)
                clock.turn()
        except AssertionError:
            clock.turn()
            raise
        finally:
            connections.close_all()

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as threads:
        whole = asyncio.BaseEventLoop.time
        patch.setattr(asyncio.BaseEventLoop, "time", lambda loop: clock.of(loop) + whole(loop))
        turned = threads.submit(turn)
        try:
            yield
        finally:
            over.set()
        turned.result()


class _Turned:
    """How far the clock of event loops is ahead."""

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._loops: set[asyncio.BaseEventLoop] = set()

    def of(self, loop: asyncio.BaseEventLoop) -> float:
        self._loops.add(loop)
        return self._ahead_s

    def turn(self) -> None:
        self._ahead_s += _HOUR_S
        for loop in list(self._loops):
            with suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(lambda: None)  # it sleeps by the time that was
