"""Waking workers for something that is due: a django-q2 task that says so. Rows hold what is to be done."""

from __future__ import annotations

from typing import Any

from django_q.brokers import get_broker
from django_q.tasks import async_task

from tasks_app.lanes import WorkerLane, queue_of

_ENOUGH = 8  # wake-ups waiting in a lane: more of them change nothing, whatever they are for


def wake_workers(task: str, wanted: int = 1, *, lane: str = WorkerLane.MAIN, **arguments: Any) -> int:
    """Put `task` (a dotted name) into the lane's queue `wanted` times, unless enough waits there; answers how
    many were put in. Losing one costs a moment: whoever asked sees that it is still due, and asks again."""
    broker = get_broker(queue_of(lane))
    # Locked ones were taken by a worker, maybe one that was killed: only those still waiting count.
    room = max(0, min(wanted, _ENOUGH - broker.queue_size()))
    for _ in range(room):
        async_task(task, broker=broker, save=False, **arguments)
    return room
