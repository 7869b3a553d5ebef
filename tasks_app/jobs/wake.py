"""Waking workers: a django-q2 task that says "there is work", nothing more. Losing it costs a moment."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django_q.models import OrmQ
from django_q.tasks import async_task

from tasks_app import clock
from tasks_app.jobs.models import Step, StepStatus

DRAIN = "tasks_app.jobs.worker.drain"
_ENOUGH = 8  # wake-ups waiting: a drain takes everything there is, more of them change nothing
_MISSED = timedelta(seconds=1)


def wake() -> None:
    """Wake a worker once the present commit is durable; a wake-up that fails is logged, not raised."""
    transaction.on_commit(_enqueue, robust=True)


def wake_if_missed() -> int:
    """Wake a worker when ready work is waiting longer than a wake-up takes, or a step's worker is gone.
    Answers 1 when it did."""
    now = clock.now()
    orphaned = Q(status=StepStatus.EXECUTING, lease_until__lt=now)
    if not Step.objects.filter(Q(ready_at__lte=now - _MISSED) | orphaned).exists():
        return 0
    _enqueue()
    return 1


def _enqueue() -> None:
    # Locked ones were taken by a worker, maybe one that was killed: only those still waiting count.
    if OrmQ.objects.filter(lock__lte=timezone.now()).count() < _ENOUGH:
        async_task(DRAIN, save=False)
