"""Waking workers: a django-q2 task that says "there is work", nothing more. Losing it costs a moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

from django.db import transaction
from django.db.models import Q

from tasks_app import clock
from tasks_app.jobs.models import Step, StepStatus
from tasks_app.waking import wake_workers

DRAIN = "tasks_app.jobs.worker.drain"
_MISSED = timedelta(seconds=1)
_here = threading.local()


def wake(ready: int = 1) -> None:
    """Wake workers for so many ready steps once the present commit is durable; where that fails it is logged.
    A worker that drains takes one of them itself."""
    transaction.on_commit(partial(_owe, ready), robust=True)


def wake_if_missed() -> int:
    """Wake a worker when ready work is waiting longer than a wake-up takes, or a step's worker is gone.
    Answers 1 when it did."""
    now = clock.now()
    orphaned = Q(status=StepStatus.EXECUTING, lease_until__lt=now)
    if not Step.objects.filter(Q(ready_at__lte=now - _MISSED) | orphaned).exists():
        return 0
    wake_workers(DRAIN)
    return 1


@contextmanager
def taking_next() -> Iterator[None]:
    """Around one step of a drain: of what it makes ready this worker takes one next, others are woken for the
    rest. After an error nothing is counted on: everybody is woken."""
    _here.owed = 0
    try:
        yield
    except BaseException:  # whatever it was, what became ready is for others
        wake_workers(DRAIN)
        raise
    finally:
        others, _here.owed = _here.owed - 1, None
    if others > 0:
        wake_workers(DRAIN, others)


def _owe(ready: int) -> None:
    owed: int | None = getattr(_here, "owed", None)
    if owed is None:
        wake_workers(DRAIN, ready)
    else:
        _here.owed = owed + ready
