"""Which actions are short: declared pure, and done in a fraction of a millisecond when this process ran them
of late."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tasks_app.jobs.actions import action_is_pure

SHORT_S = 0.0005
RUNS = 5  # before anything is said of an action
_WEIGHT = 0.2  # of the latest run
_seen: dict[str, tuple[int, float]] = {}  # by action: how often it ran, and the moving average in seconds


@contextmanager
def timed(action: str) -> Iterator[None]:
    """Around one run of an action that ends well; another says nothing about its length."""
    began = time.perf_counter()
    yield
    _note(action, time.perf_counter() - began)


def short_actions() -> tuple[str, ...]:
    """Their names."""
    return tuple(action for action in _seen if is_short(action))


def is_short(action: str) -> bool:
    """Whether steps of this action may be taken, and completed, several in one commit."""
    runs, average = _seen.get(action, (0, 0.0))
    return runs >= RUNS and average < SHORT_S


def _note(action: str, seconds: float) -> None:
    if not action_is_pure(action):
        return
    runs, average = _seen.get(action, (0, seconds))
    _seen[action] = (runs + 1, average + _WEIGHT * (seconds - average))
