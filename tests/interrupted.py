"""A session that is asked to end, as where its terminal is closed or its container stops, ends as one that is
interrupted by hand: whatever it started ends with it."""

from __future__ import annotations

import signal
from types import FrameType

import pytest

_ASKED = (signal.SIGTERM, signal.SIGHUP)


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """In whoever shares tests out and in each tester. What begins as one that outlives its terminal does."""
    for number in _ASKED:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Once: whoever asks again waits for what has to end."""
    for number in _ASKED:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
