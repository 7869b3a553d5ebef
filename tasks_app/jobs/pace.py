"""How actions that are declared pure ran in this process of late: which are short, and which mostly wait.

Steps of both are taken several at a time: short ones are run one after the other, those that wait side by
side (`aside`). What asks the database does not count as waiting: side by side each would need a connection.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from django.db import connection

from tasks_app.jobs.actions import action_is_pure

SHORT_S = 0.0005
WAIT_S = 1.0  # what takes longer has a worker of its own
BUSY = 0.05  # the part of its time that an action which mostly waits computes, at most
RUNS = 5  # before anything is said of an action
_WEIGHT = 0.2  # of the latest run
_THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)  # Linux tells it


class Pace(NamedTuple):
    """How often an action ran; moving averages of what that took, and of how long it did not wait. What only
    ever computed took no longer than that: others had the processor meanwhile, on a busy machine."""

    runs: int
    seconds: float
    busy: float


_NEVER = Pace(0, 0.0, 0.0)
_seen: dict[str, Pace] = {}  # by action


@contextmanager
def timed(action: str) -> Iterator[None]:
    """Around one run of an action that ends well; another says nothing about its length."""
    asked = _Asked()
    began, began_computing, waits = time.perf_counter(), time.thread_time(), _waits()
    with connection.execute_wrapper(asked):
        yield
    waited, computed = _waits() != waits, time.thread_time() - began_computing
    seconds = time.perf_counter() - began if waited else computed
    _note(action, seconds, seconds if asked.database else computed)


def taken_together() -> tuple[str, ...]:
    """The actions of which several steps may be taken, and completed, in one commit."""
    return tuple(action for action in _seen if is_short(action) or is_waiting(action))


def is_short(action: str) -> bool:
    """Whether an action takes a fraction of a millisecond."""
    runs, seconds, _ = _seen.get(action, _NEVER)
    return runs >= RUNS and seconds < SHORT_S


def is_waiting(action: str) -> bool:
    """Whether an action takes longer, and waits nearly all of that time."""
    runs, seconds, busy = _seen.get(action, _NEVER)
    return runs >= RUNS and SHORT_S <= seconds < WAIT_S and busy < BUSY * seconds


class _Asked:
    """Notes whether this thread asked the database anything."""

    def __init__(self) -> None:
        self.database = False

    def __call__(self, execute: Callable[..., Any], *statement: Any) -> Any:
        self.database = True
        return execute(*statement)


def _waits() -> float:
    """How often this thread has waited for anything; a number that always grows where nobody tells."""
    return time.perf_counter() if _THREAD is None else resource.getrusage(_THREAD).ru_nvcsw


def _note(action: str, seconds: float, busy: float) -> None:
    if not action_is_pure(action):
        return
    before = _seen.get(action, Pace(0, seconds, busy))
    _seen[action] = Pace(
        before.runs + 1,
        before.seconds + _WEIGHT * (seconds - before.seconds),
        before.busy + _WEIGHT * (busy - before.busy),
    )
