"""An idle worker hears of ready steps itself: NOTIFY, and no other process in between (decision 0004).

Of a cluster's idle workers one waits for the next task, and the others for its place. It listens, too, on
the connection that it works with: where steps became ready it has a drain to do at once, and the next one
takes its place. Who begins to listen looks once for what became ready before. What is said while everybody is
busy is heard by nobody, and found by the look of whoever is idle first; what is lost, by the sweep.
"""

from __future__ import annotations

import select
import time
import uuid
from collections.abc import Mapping, Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

import psycopg
import structlog
from django.db import DEFAULT_DB_ALIAS, Error, connections
from django.utils import timezone
from django_q.queues import Queue

from tasks_app import clock, stopping
from tasks_app.database_connection import connection_checked
from tasks_app.jobs.models import Step
from tasks_app.jobs.wake import STEPS_READY
from tasks_app.jobs.worker import drain

log = structlog.get_logger(__name__)
_LOOK_AGAIN_S = 1.0  # that the connection still stands, and is not older than it may be
_LOOKS_APART_S = 0.05  # looks that find what others hold do not become a loop
_PLACE_S = 0.01  # whoever left the place has claimed by then: two would not ask at once for one step


class TaskQueue(Queue):
    """A cluster's queue of tasks; to a worker that waits in it, ready steps of `lanes` are one, too."""

    def __init__(self, lanes: Sequence[str], **limits: Any) -> None:
        super().__init__(**limits)
        self._ear = Ear(lanes)  # forked with the worker: each has its own

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The next task, in the order they were put in, steps in turn with them."""
        if not block or timeout is not None:
            return super().get(block, timeout)
        queue: Any = self
        if not queue._rlock.acquire(block=False):
            self._ear.close()
            queue._rlock.acquire()
        try:
            lane = self._ear.wait(queue._reader)
            if lane:
                return _drain_of(lane)
            said = queue._recv_bytes()
        finally:
            queue._rlock.release()
        queue._sem.release()
        self.size.increment(-1)
        self._ear.close()  # a task may be long, and need not read what is told meanwhile
        return ForkingPickler.loads(said)


class Ear:
    """Of one process that waits: what became ready in `lanes`, in this order of preference."""

    def __init__(self, lanes: Sequence[str]) -> None:
        self._lanes = tuple(lanes)
        self._on: psycopg.Connection[Any] | None = None  # the connection that it listens on
        self._heard: set[str] = set()
        self._look_at: float | None = None  # monotonic; None where there is nothing to look for
        self._looked_at = 0.0
        self._told_step = False

    def wait(self, tasks: Any) -> str:
        """The lane in which steps may be ready; empty where `tasks` has one to be read. In turn, where there
        is both."""
        if self._on is None and _readable([tasks.fileno()], _PLACE_S):
            return ""
        while True:
            self._open()
            has_task = bool(_readable([tasks.fileno()], 0))
            may_begin = not stopping.asked()  # a drain would take nothing, and tell others
            if self._heard and may_begin and not (has_task and self._told_step):
                self._told_step = True
                return self._next_lane()
            if has_task:
                self._told_step = False
                return ""
            listening = [] if self._on is None else [self._on.fileno()]
            _readable([tasks.fileno(), *listening], self._pause_s())

    def close(self) -> None:
        """Hear no more: nobody would read it."""
        raw, self._on, self._heard = self._on, None, set()
        if raw is None or raw.closed:
            return
        try:
            raw.remove_notify_handler(self._hear)
            raw.execute(f"unlisten {STEPS_READY}")
        except psycopg.Error as error:
            self._lost(error)

    def _open(self) -> None:
        """Listen, on a connection that stands; look for what became ready while nobody did."""
        try:
            database: Any = connections[DEFAULT_DB_ALIAS]
            database.close_if_unusable_or_obsolete()  # it may be as old as it may be
            if self._on is not None and self._on is database.connection:
                self._read(self._on)
            connection_checked()
            database.ensure_connection()
            if database.connection is not self._on:
                self._on = database.connection
                self._on.add_notify_handler(self._hear)
                self._on.execute(f"listen {STEPS_READY}")
                self._look_at = self._looked_at + _LOOKS_APART_S
            if self._look_at is not None and self._look_at <= time.monotonic():
                self._look()
        except (psycopg.Error, Error) as error:
            self._lost(error)

    def _read(self, raw: psycopg.Connection[Any]) -> None:
        if not _readable([raw.fileno()], 0):
            return
        raw.pgconn.consume_input()
        while note := raw.pgconn.notifies():
            self._note(note.extra.decode())

    def _hear(self, note: psycopg.Notify) -> None:
        """What came in with an answer."""
        self._note(note.payload)

    def _note(self, lane: str) -> None:
        if lane in self._lanes:
            self._heard.add(lane)

    def _look(self) -> None:
        self._look_at, self._looked_at = None, time.monotonic()
        ready = Step.objects.filter(ready_at__lte=clock.now())
        self._heard.update(lane for lane in self._lanes if ready.filter(lane=lane).exists())

    def _next_lane(self) -> str:
        lane = next(lane for lane in self._lanes if lane in self._heard)
        self._heard.discard(lane)
        return lane

    def _pause_s(self) -> float:
        if self._look_at is None:
            return _LOOK_AGAIN_S
        return min(_LOOK_AGAIN_S, max(0.0, self._look_at - time.monotonic()))

    def _lost(self, error: Exception) -> None:
        log.warning("steps_not_heard", error=str(error))
        self._on, self._look_at = None, None
        connections[DEFAULT_DB_ALIAS].close()


def _readable(descriptors: Sequence[int], within_s: float) -> Sequence[int]:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(1000 * within_s)]


def _drain_of(lane: str) -> Mapping[str, Any]:
    """A task as django-q2's worker runs it; nobody acknowledges or keeps it."""
    return {
        "id": uuid.uuid4().hex,
        "name": "steps",
        "func": drain,
        "args": (),
        "kwargs": {"lanes": [lane]},
        "started": timezone.now(),
        "save": False,
    }
