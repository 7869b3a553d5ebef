"""What tests of every room share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    predicate: Callable[[], T], timeout: float = 10.0, message: str = "", *, every: float = 0.05
) -> T:
    """Ask until the answer is true, and return it; AssertionError after ``timeout`` seconds."""
    pause = threading.Event()
    deadline = time.monotonic() + timeout
    while not (answer := predicate()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout:g} s: {message or predicate}")
        pause.wait(every)
    return answer


def forget_sellers() -> None:
    """Webhooks remember sellers and their allowances for a second, by name: another database has others."""
    from tasks_app.webhooks import rates, senders

    senders._known.clear()
    rates._shares.clear()
