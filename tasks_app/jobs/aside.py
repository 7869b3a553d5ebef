"""Running actions: in the worker's own thread, or side by side where they mostly wait (decision 0036).

Only the action runs in a thread of its own. What comes before it, and what becomes of its result, is the
worker's; so whatever an item raises or answers is handled as if it had run alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache

from django.db import connections

from tasks_app.jobs.actions import Result, Run, action_perform
from tasks_app.jobs.leases import lease_kept
from tasks_app.jobs.models import Step
from tasks_app.jobs.pace import timed

MANY = 16


@dataclass(frozen=True, kw_only=True)
class Returned:
    """A step whose action has ended; `result()` answers what it answered, or raises what it raised."""

    step: Step
    result: Callable[[], Result]


class Aside:
    """Of one drain: the actions that run side by side."""

    def __init__(self) -> None:
        self._out: dict[Future[Result], Step] = {}

    def __bool__(self) -> bool:
        """Whether any is out."""
        return bool(self._out)

    def begin(self, run: Run) -> None:
        """Run the action in a thread, in a copy of this context."""
        self._out[_pool().submit(copy_context().run, _perform_aside, run)] = run.step

    def returned(self, within_s: float) -> list[Returned]:
        """Those that have ended, in the order in which they were begun: waits for one, then at most
        `within_s` for all."""
        wait(self._out, return_when=FIRST_COMPLETED)
        ended, _ = wait(self._out, timeout=within_s)
        there = [future for future in self._out if future in ended]
        return [Returned(step=self._out.pop(future), result=future.result) for future in there]

    def close(self) -> None:
        """Wait for what is out; nobody hears of it."""
        wait(self._out)


def perform(run: Run) -> Result:
    """The action's result; its step's lease is kept meanwhile."""
    action = run.step.spec["action"]
    with lease_kept(run.step), timed(action):
        return action_perform(action, run)


def _perform_aside(run: Run) -> Result:
    try:
        return perform(run)
    finally:
        connections.close_all()  # this thread's: it may have asked for a row after all


@cache
def _pool() -> ThreadPoolExecutor:
    """This process's threads, made as they are needed: there is one for each that a drain may have out."""
    return ThreadPoolExecutor(MANY, thread_name_prefix="aside")


os.register_at_fork(after_in_child=_pool.cache_clear)  # the parent's threads did not come along
