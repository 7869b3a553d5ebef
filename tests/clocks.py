"""A clock that stands still until the test moves it: what is due in two seconds stays due in two seconds,
however long the machine takes to look."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from tasks_app import clock


class Clock:
    def __init__(self, now: datetime | None = None) -> None:
        self.now = now or clock.now()

    def forward(self, by: timedelta = timedelta(0), **duration: float) -> datetime:
        """The moment it shows afterwards."""
        self.now += by + timedelta(**duration)
        return self.now


@pytest.fixture
def still() -> Iterator[Clock]:
    """`tasks_app.clock` shows the moment at which the test began: here, and in statements that this process
    makes; a process of a test's own goes on (`webhooks/standing.py` is one that does not)."""
    moment = Clock()
    with clock.injected(lambda: moment.now):
        yield moment


@contextmanager
def host(wrong_by: timedelta) -> Iterator[None]:
    """A machine whose clock is wrong; unlike a clock that a test injects, the database does not follow it."""
    right, read = clock._system, clock._read
    clock._system = clock._read = lambda: datetime.now(UTC) + wrong_by
    try:
        yield
    finally:
        clock._system, clock._read = right, read
