"""Whether this worker process was asked to stop: long loops look and hand back what they hold."""

from __future__ import annotations

import signal
import threading
from types import FrameType

SIGNAL = signal.SIGUSR1
_asked = threading.Event()


def listen() -> None:
    """Take SIGNAL as the request to stop; called in a worker process before its work."""
    _asked.clear()
    signal.signal(SIGNAL, _hear)


def asked() -> bool:
    """True once this process was asked to stop."""
    return _asked.is_set()


def _hear(_number: int, _frame: FrameType | None) -> None:
    _asked.set()
