"""Waking a worker for something that is due: a django-q2 task that says so. Rows hold what is to be done."""

from __future__ import annotations

from django.utils import timezone
from django_q.models import OrmQ
from django_q.tasks import async_task

_ENOUGH = 8  # wake-ups waiting: more of them change nothing, whatever they are for


def wake_worker(task: str) -> bool:
    """Put `task` (a dotted name) into the queue, unless enough waits there. Losing it costs a moment: whoever
    asked sees that it is still due, and asks again."""
    if OrmQ.objects.filter(lock__lte=timezone.now()).count() >= _ENOUGH:
        return False
    async_task(task, save=False)
    return True
