"""Waking workers: a django-q2 task that says "there is work", nothing more. Losing it costs a moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

from django.db import transaction
from django.db.models import Q
from django_q.brokers import get_broker
from django_q.tasks import async_task

from tasks_app import clock
from tasks_app.jobs.models import Step, StepStatus

DRAIN = "tasks_app.jobs.worker.drain"
_ENOUGH = 8  # wake-ups waiting: a drain takes everything there is, more of them change nothing
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
    _enqueue(1)
    return 1


@contextmanager
def taking_next() -> Iterator[None]:
    """Around one step of a drain: of what it makes ready this worker takes one next, others are woken for the
    rest. After an error nothing is counted on: everybody is woken."""
    _here.owed = 0
    try:
        yield
    except BaseException:
        _enqueue(1)
        raise
    finally:
        others, _here.owed = _here.owed - 1, None
    if others > 0:
        _enqueue(others)


def _owe(ready: int) -> None:
    owed: int | None = getattr(_here, "owed", None)
    if owed is None:
        _enqueue(ready)
    else:
        _here.owed = owed + ready


def _enqueue(ready: int) -> None:
    # Locked ones were taken by a worker, maybe one that was killed: only those still waiting count.
    for _ in range(min(ready, _ENOUGH - get_broker().queue_size())):
        async_task(DRAIN, save=False)
