"""How many deliveries a second this process applies before it answers them; more are left to the workers.

Applying costs ten times what binding does: in a burst no sender waits for it, and none is turned away.
"""

from __future__ import annotations

import threading
import time

from django.conf import settings

_lock = threading.Lock()
_tokens: float = 0.0
_filled_at: float = 0.0


def may_apply_now() -> bool:
    """Spend one of settings.WEBHOOK_APPLIED_PER_S (a second's worth may be saved up)."""
    global _tokens, _filled_at
    rate = float(settings.WEBHOOK_APPLIED_PER_S)
    with _lock:
        now = time.monotonic()
        _tokens = min(rate, _tokens + (now - _filled_at) * rate)
        _filled_at = now
        if _tokens < 1:
            return False
        _tokens -= 1
        return True
