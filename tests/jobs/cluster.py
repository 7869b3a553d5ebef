"""A real `manage.py worker`, and its processes by what they do."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
from django.conf import settings
from django.utils import timezone
from django_q.models import OrmQ
from django_q.tasks import async_task

from config.processes import ProcessGroup
from tasks_app.jobs.models import Step, StepStatus
from tasks_app.lanes import WorkerLane, queue_of
from tasks_app.operations.lease import CallLease
from tests.support import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[2]
FAST = {
    "FLIGHTDECK_STEP_LEASE_S": "2",
    "FLIGHTDECK_OPERATION_LEASE_S": "2",
    "FLIGHTDECK_POLL_SCALE": "0.01",
    "FLIGHTDECK_SWEEP_TICK_S": "0.1",
    "FLIGHTDECK_LOG_LEVEL": "WARNING",
}


# Of workers that are killed in the midst of something: while they live nothing of theirs is taken over,
# however busy the machine; once they are dead `leases_over`.
LASTING = {"FLIGHTDECK_STEP_LEASE_S": "3600", "FLIGHTDECK_OPERATION_LEASE_S": "3600"}


def leases_over() -> None:
    """As when their time has passed: what the dead held is anybody's."""
    now = timezone.now()
    Step.objects.filter(status=StepStatus.EXECUTING).update(lease_until=now)
    CallLease.objects.update(until=now)


class Worker:
    """One `manage.py worker` of a test, with more environment; started again after a kill."""

    def __init__(
        self,
        group: ProcessGroup,
        env: Mapping[str, str] | None = None,
        *,
        lanes: Sequence[str] = tuple(WorkerLane),
        name: str = "worker",
    ) -> None:
        self._group, self._lanes, self._name = group, lanes, name
        self._env = {**FAST, **(env or {})}
        self.main = self._start()

    def _start(self) -> psutil.Process:
        command = [sys.executable, "manage.py", "worker", "--lanes", ",".join(self._lanes)]
        return psutil.Process(self._group.start(self._name, command, env=self._env, cwd=ROOT))

    @property
    def workers(self) -> int:
        """How many of its processes are workers: they are its first."""
        return settings.WORKERS + (WorkerLane.POLLING in self._lanes)

    def members(self) -> list[psutil.Process]:
        """The cluster's processes in the order in which they were made: workers, monitor, pusher. Empty while
        they are not complete."""
        try:
            members = sorted(self.main.children(), key=lambda p: p.pid)
            complete = len(members) == self.workers + 2
            return members if complete and all(p.status() != psutil.STATUS_ZOMBIE for p in members) else []
        except psutil.NoSuchProcess:
            return []

    def started(self) -> list[psutil.Process]:
        return until(self.members, "the cluster's processes are there")

    def everybody(self) -> list[psutil.Process]:
        return [self.main, *self.main.children(recursive=True)]

    def kill(self) -> None:
        """SIGKILL to the whole process group, as by a power cut."""
        everybody = self.everybody()
        os.killpg(self.main.pid, signal.SIGKILL)
        psutil.wait_procs(everybody, timeout=PATIENCE_S)
        self.exit_code()

    def restart(self) -> None:
        self.main = self._start()

    def exit_code(self) -> int:
        until(lambda: self._name in self._group.ended(), "the worker has ended")
        return self._group.ended()[self._name]


def works(lane: str = WorkerLane.RECIPES) -> None:
    """Wait until the lane's queue runs tasks from end to end: pusher, worker, monitor."""
    asked: list[str] = []

    def ran() -> bool:
        # What was in the hands of a killed process is not seen again for minutes: ask anew each time.
        asked.append(async_task("tasks_app.stopping.asked", cluster=queue_of(lane), save=False))
        waiting = {task.task["id"] for task in OrmQ.objects.filter(key=queue_of(lane))}
        return not waiting.issuperset(asked)

    until(ran, "the queue runs a task", every=0.3)


def gone(processes: list[psutil.Process]) -> None:
    until(
        lambda: not [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE],
        "nothing is left running",
    )
