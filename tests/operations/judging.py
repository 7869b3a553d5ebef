"""A process of its own that judges webhooks when everybody is about to."""

from __future__ import annotations

import os
from multiprocessing.synchronize import Barrier

from tests.support import PATIENCE_S

_barrier: Barrier | None = None


def ready(barrier: Barrier) -> None:
    """Begin as a process of the application does; the barrier is all judges' own."""
    global _barrier
    _barrier = barrier
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()


def judge(rounds: int) -> int:
    """Judge at the same moment as the others, so many times; answers how many sellers were switched."""
    from django.db import connection

    from tasks_app.operations.webhook_health import webhooks_judge

    assert _barrier is not None
    connection.ensure_connection()
    switched = 0
    for _ in range(rounds):
        _barrier.wait(PATIENCE_S)
        switched += webhooks_judge()
    return switched
