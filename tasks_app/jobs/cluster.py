"""The worker cluster: django-q2's, with a sentinel that survives SIGKILL of any of its processes.

A process killed while idle may die holding the lock of the cluster's queue; the stock sentinel then hangs
for good. This one rebuilds queues and pool; rows, leases and SKIP LOCKED make that safe.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import django_q.cluster as stock
from django import db
from django_q.conf import Conf, logger
from django_q.queues import Queue
from django_q.tasks import async_task

from tasks_app import stopping
from tasks_app.jobs.worker import SWEEP

_PR_SET_PDEATHSIG = 1


def _die_with_parent(parent: int) -> None:
    """On Linux the kernel kills this process with its parent, so that nothing is orphaned."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _bound_to_parent(target: Callable[..., Any], parent: int) -> Callable[..., Any]:
    def run(*args: Any) -> None:
        _die_with_parent(parent)
        stopping.listen()
        target(*args)

    return run


class Sentinel(stock.Sentinel):
    """django-q2's sentinel; sudden deaths rebuild the cluster's insides."""

    def spawn_cluster(self) -> None:
        super().spawn_cluster()
        async_task(SWEEP, save=False)

    def spawn_process(self, target: Callable[..., Any], *args: Any) -> Any:
        process = stock.get_mp_context().Process(target=_bound_to_parent(target, os.getpid()), args=args)
        process.daemon = True
        if target == stock.worker:
            process.timer = args[2]
            self.pool.append(process)
        process.start()
        return process

    def stop(self) -> None:
        for worker in self.pool:
            if worker.is_alive():
                os.kill(worker.pid, stopping.SIGNAL)
        super().stop()

    def reincarnate(self, process: Any) -> None:
        members = (*self.pool, self.monitor, self.pusher)
        if process not in members:
            return  # guard() still iterates over a pool that was rebuilt meanwhile
        timer = getattr(process, "timer", None)
        if timer is not None and timer.value in (0, -2):
            super().reincarnate(process)  # timed out or recycled: it held nothing
            return
        logger.critical("sudden death of %s: rebuilding queues and pool", process.name)
        for member in members:
            member.kill()
        for member in members:
            member.join(5)
        self.task_queue = Queue(maxsize=Conf.QUEUE_LIMIT) if Conf.QUEUE_LIMIT else Queue()
        self.result_queue = Queue()
        self.pool = []
        db.connections.close_all()
        self.spawn_cluster()
        self.reincarnations += 1


def cluster_run() -> None:
    """Run the cluster until SIGTERM or SIGINT; returns when everything has stopped."""
    stock.Sentinel = Sentinel
    cluster = stock.Cluster()
    cluster.start()
    cluster.sentinel.join()
