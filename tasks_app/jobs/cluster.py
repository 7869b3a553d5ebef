"""The worker cluster: django-q2's, with a sentinel that survives SIGKILL of any of its processes.

A process killed while idle may die holding the lock of the cluster's queue; the stock sentinel then hangs
for good. This one rebuilds queues and pool; rows, leases and SKIP LOCKED make that safe. It is the process
that was started, and all others are its children, which share what it has loaded (decision 0032).
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import django_q.cluster as stock
from django import db
from django.apps import apps
from django.conf import settings
from django_q.brokers import get_broker
from django_q.conf import Conf, logger
from django_q.queues import Queue

from tasks_app import stopping
from tasks_app.jobs import claims
from tasks_app.jobs.ear import TaskQueue
from tasks_app.jobs.serving import SWEEP, sweep_wake
from tasks_app.lanes import WorkerLane, queue_of
from tasks_app.people.actors import SYSTEM
from tasks_app.reconciliation.models import ReconciliationRun
from tasks_app.reconciliation.runs import run_ask

_PR_SET_PDEATHSIG = 1
_TIMER_LOCK_S = 1.0
# From the request to stop until what still runs is killed; a supervisor's own patience is longer.
_STOP_S = 6.0
# How long after a fork that failed the next is tried; meanwhile the others go on.
_FORKS_AGAIN_S = (1, 2, 4, 8, 15, 30, 60, 60, 60)
_ENDED_ITSELF = 1  # the exit code of faulthandler's watchdog


def _die_with_parent(parent: int) -> None:
    """On Linux the kernel kills this process with its parent, so that nothing is orphaned."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _bound_to_parent(target: Callable[..., Any], parent: int) -> Callable[..., Any]:
    def run(*args: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's reaches all of them
        _die_with_parent(parent)
        stopping.listen()
        target(*args)

    return run


class _Timer:
    """The sentinel's view of a worker's timer. A worker killed while it wrote leaves it locked for ever: then
    it is read and written without the lock."""

    def __init__(self, shared: Any) -> None:
        self._shared = shared

    @contextmanager
    def get_lock(self) -> Iterator[None]:
        held = self._shared.get_lock().acquire(timeout=_TIMER_LOCK_S)
        try:
            yield
        finally:
            if held:
                self._shared.get_lock().release()

    @property
    def value(self) -> float:
        return float(self._shared.get_obj().value)

    @value.setter
    def value(self, seconds: float) -> None:
        self._shared.get_obj().value = seconds


def _held_nothing(process: Any) -> bool:
    """Whether a worker timed out, was recycled, or ended itself in the middle of a task, as a sweep that
    hangs does: then no lock of the queues died with it."""
    timer = getattr(process, "timer", None)
    return timer is not None and (
        timer.value in (0, -2) or (timer.value > 0 and process.exitcode == _ENDED_ITSELF)
    )


class _StopAsked:
    """What ends the guard, as the event that django-q2 has for it. Set by a signal's handler, which must not
    wait for a lock that the interrupted code may hold."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def set(self, *_signal: object) -> None:
        os.write(self._write, b"!")

    def is_set(self) -> bool:
        return self.wait(0)

    def wait(self, timeout: float) -> bool:
        return bool(select.select([self._read], [], [], timeout)[0])


class Sentinel(stock.Sentinel):
    """django-q2's sentinel, in this process until SIGTERM or SIGINT; sudden deaths rebuild the cluster's
    insides, and nothing outlives it."""

    pool: list[Any]

    def __init__(self, broker: Any) -> None:
        asked = _StopAsked()
        super().__init__(asked, threading.Event(), uuid.uuid4(), broker, start=False)
        self.task_queue = self._task_queue()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, asked.set)

    def spawn_process(self, target: Callable[..., Any], *args: Any) -> Any:
        process = stock.get_mp_context().Process(target=_bound_to_parent(target, os.getpid()), args=args)
        process.daemon = True
        if target == stock.worker:
            process.timer = _Timer(args[2])
            self.pool.append(process)
        self._start(process)
        return process

    def _start(self, process: Any) -> None:
        """A fork that the machine refuses is tried again, ever later: else all processes would end, and with
        them the calls that are out. Raises OSError where it stays so; asked to stop, it starts none."""
        for wait_s in _FORKS_AGAIN_S:
            with suppress(OSError):
                process.start()
                return
            logger.error("a process could not be started; again in %s s", wait_s)
            if self.stop_event.wait(wait_s):
                return
        process.start()

    def _task_queue(self) -> Queue:
        steps = [lane for lane in self.broker.lanes if lane in claims.ALL]
        return TaskQueue(steps, maxsize=Conf.QUEUE_LIMIT) if steps else Queue(maxsize=Conf.QUEUE_LIMIT)

    def stop(self) -> None:
        for worker in self.pool:
            if worker.is_alive():
                os.kill(worker.pid, stopping.SIGNAL)
        last_resort = threading.Timer(_STOP_S, self._kill_all)
        last_resort.daemon = True
        last_resort.start()
        super().stop()
        last_resort.cancel()

    def _kill_all(self) -> None:
        """End at once: somebody died holding a queue's lock. Leases give back what was in hand."""
        logger.critical("the cluster did not stop within %s s: killing it", _STOP_S)
        for member in (*self.pool, self.monitor, self.pusher):
            if member.is_alive():
                member.kill()
        os._exit(0)

    def reincarnate(self, process: Any) -> None:
        members = (*self.pool, self.monitor, self.pusher)
        if process not in members or self.stop_event.is_set():
            return  # guard() still iterates over a pool that was rebuilt meanwhile, or will end
        if _held_nothing(process):
            super().reincarnate(process)
            return
        logger.critical("sudden death of %s: rebuilding queues and pool", process.name)
        for member in (one for one in members if one.is_alive()):
            member.kill()
            member.join(5)
        self.task_queue = self._task_queue()
        self.result_queue = Queue()
        self.pool = []
        db.connections.close_all()
        self.spawn_cluster()
        _sweep_wake(self.broker.lanes)
        self.reincarnations += 1


def cluster_run(lanes: Sequence[str]) -> None:
    """Run a cluster that serves `lanes`, in that order of preference, until SIGTERM or SIGINT; returns when
    everything has stopped. What happened while it was away is compared with the sellers first."""
    try:
        run_ask(trigger=ReconciliationRun.Trigger.START, actor=SYSTEM)
    except db.Error:
        logger.exception("no reconciliation was asked for at the start; the schedule does")
    _sweep_wake(lanes)
    _load()
    db.connections.close_all()  # the cluster's processes are forked from this one
    broker = get_broker(queue_of(lanes[0]))
    broker.serve(lanes)
    Conf.WORKERS = settings.WORKERS + (WorkerLane.POLLING in lanes)  # one is held by the sweep
    sentinel = Sentinel(broker)
    # The cluster's processes share what is loaded: a collection there would touch, and so copy, all of it.
    gc.collect()
    gc.freeze()
    sentinel.start()


def _sweep_wake(lanes: Sequence[str]) -> None:
    if WorkerLane.POLLING not in lanes:
        return
    try:
        sweep_wake()
    except db.Error:
        logger.exception("the sweep was not started; the pusher does, within seconds")


def _load() -> None:
    """Load and work out here what each process would for itself: the code of the queue's tasks, and what
    Django finds out about a model when it is first used."""
    import_module(SWEEP.rpartition(".")[0])
    for model in apps.get_models():
        model._meta.get_fields()
