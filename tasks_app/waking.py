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
    into = _UpTo(queue_of(lane), wanted)
    async_task(task, broker=into, save=False, **arguments)
    return into.put


class _UpTo:
    """The lane's broker as django-q2 puts a task in: `put` tells how many times."""

    def __init__(self, queue: str, wanted: int) -> None:
        self.list_key, self.put = queue, 0
        self._wanted = wanted

    def enqueue(self, task: str) -> int:
        self.put = get_broker(self.list_key).enqueue_up_to(task, self._wanted, enough=_ENOUGH)
        return self.put
