"""Waking workers for something that is due: a django-q2 task that says so. Rows hold what is to be done."""

from __future__ import annotations

from django_q.brokers import get_broker
from django_q.tasks import async_task

_ENOUGH = 8  # wake-ups waiting: more of them change nothing, whatever they are for


def wake_workers(task: str, wanted: int = 1) -> int:
    """Put `task` (a dotted name) into the queue `wanted` times, unless enough waits there; answers how many
    were put in. Losing one costs a moment: whoever asked sees that it is still due, and asks again."""
    # Locked ones were taken by a worker, maybe one that was killed: only those still waiting count.
    room = max(0, min(wanted, _ENOUGH - get_broker().queue_size()))
    for _ in range(room):
        async_task(task, save=False)
    return room
