"""One of several processes that move the same deals at the same moments."""

from __future__ import annotations

import os
from multiprocessing.synchronize import Barrier

from tests.support import PATIENCE_S

_barrier: Barrier | None = None


def ready(barrier: Barrier) -> None:
    """Begin as a process of the application does; the barrier is all racers' own."""
    global _barrier
    _barrier = barrier
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()


def race(to: str, deals: list[str]) -> list[str]:
    """Move each deal when everybody is about to: "won", or the name of the refusal."""
    from orders.models import Deal
    from tasks_app.lifecycle.errors import TransitionError
    from tasks_app.lifecycle.transitions import transition

    assert _barrier is not None
    rows = Deal.objects.in_bulk(deals)
    told = []
    for deal in [row for _, row in sorted((str(pk), row) for pk, row in rows.items())]:
        _barrier.wait(PATIENCE_S)
        try:
            transition(deal, to, actor="agent:racer", reason=f"Raced to {to}")
            told.append("won")
        except TransitionError as refused:
            told.append(type(refused).__name__)
    return told
