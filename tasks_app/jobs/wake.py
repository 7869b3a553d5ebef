"""Waking workers: a django-q2 task that says "there is work", nothing more. Losing it costs a moment."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django_q.models import OrmQ
from django_q.tasks import async_task

from tasks_app import clock
from tasks_app.jobs.models import Step

DRAIN = "tasks_app.jobs.worker.drain"
_ENOUGH = 8  # wake-ups waiting: a drain takes everything there is, more of them change nothing
_MISSED = timedelta(seconds=1)


def wake() -> None:
    """Wake a worker once the present commit is durable."""
    transaction.on_commit(_enqueue)


def wake_if_missed() -> int:
    """Wake a worker when ready work is waiting longer than a wake-up takes. Answers 1 when it did."""
    if not Step.objects.filter(ready_at__lte=clock.now() - _MISSED).exists():
        return 0
    _enqueue()
    return 1


def _enqueue() -> None:
    if OrmQ.objects.count() < _ENOUGH:
        async_task(DRAIN, save=False)
