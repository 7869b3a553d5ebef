"""How much of its time a process applies deliveries before it answers them; the rest is left to the workers.

Applying costs ten times what binding does: in a burst no sender waits for it, and none is turned away. Time,
not deliveries, is counted: on a busy machine one takes longer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings

_SAVED_S = 5.0  # of the share, saved up while nothing comes
_lock = threading.Lock()
_budget_s: float = 0.0
_filled_at: float = 0.0


def may_apply_now() -> bool:
    """Whether the process has not spent its share, settings.WEBHOOK_APPLIED_SHARE of a thread's time."""
    global _budget_s, _filled_at
    share = float(settings.WEBHOOK_APPLIED_SHARE)
    with _lock:
        now = time.monotonic()
        _budget_s = min(share * _SAVED_S, _budget_s + share * (now - _filled_at))
        _filled_at = now
        return _budget_s > 0


@contextmanager
def applying() -> Iterator[None]:
    """Count the time of the block against the share."""
    global _budget_s
    began = time.monotonic()
    try:
        yield
    finally:
        with _lock:
            _budget_s -= time.monotonic() - began
