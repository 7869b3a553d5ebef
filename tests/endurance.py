"""Tests of endurance: random stories, sweeps of kills, chaos. The longer they run, the more they see.

Each is marked ``endurance``. `make test` plays a short round of it, `make test-endurance` (so does
`.ci/run`) all rounds; with ROUNDS=50 hypothesis and random stories play fifty times as many, of other
stories. ARGS=--hypothesis-seed=N plays the same of these again. A sweep kills at each moment in turn
(`tests.enforcement.mortal`), in a short round at some: more rounds have no more of these, nor of what a test
plays in a fixed order, and chaos buys no more than ends within its minutes (more of it: `make chaos`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TypeVar

T = TypeVar("T")

_TIMES = int(os.environ.get("ROUNDS") or 0)


def rounds(short: int, whole: int) -> int:
    """How many rounds (examples, seeds, purchases) a test plays: ``short`` among all others."""
    return whole * _TIMES if _TIMES else short


def moments(*, every: int) -> Iterator[int]:
    """At which moments of a process a sweep kills it: at all, from the first; in a short round at each
    ``every``-th."""
    return count(1, 1 if _TIMES else every)


def all_or_some(cases: Sequence[T], *, every: int) -> list[T]:
    """Which of these cases a test plays: all; in a short round the first and each ``every``-th one."""
    return [*cases[:: 1 if _TIMES else every]]


def the_same_each_time() -> bool:
    """Whether hypothesis is to play the same stories in every run."""
    return _TIMES <= 1
