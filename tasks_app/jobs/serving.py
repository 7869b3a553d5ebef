"""What serves which lane: each cluster's pusher says so while it takes from them, and sees to it that
somebody sweeps. A lane that nobody serves is told to people; metrics and `manage.py lanes` show it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta

import structlog
from django.db import DatabaseError, InterfaceError, connection, transaction
from prometheus_client.core import GaugeMetricFamily, Metric

from tasks_app import clock, ids
from tasks_app.jobs.clusters import WorkerCluster
from tasks_app.lanes import WorkerLane
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import notify
from tasks_app.operations.sweep import sweep_runs, turn_limit_s
from tasks_app.people.roles import STEER_JOB
from tasks_app.waking import wake_workers

log = structlog.get_logger(__name__)
SWEEP = "tasks_app.jobs.worker.sweep_turn"
_EVERY_S = 1.0
# A pusher that has nowhere to put what it takes says nothing for so long, then its lanes are not served.
_SERVED = timedelta(seconds=60)
_KEPT = timedelta(days=1)
_ASK_AGAIN_S = (2.0, 30.0)  # first and longest pause between sweeps asked for in vain


class Serving:
    """The pusher's side: `look()` as often as it likes."""

    def __init__(self, lanes: Sequence[str]) -> None:
        self.lanes = [str(lane) for lane in lanes]
        self._id, self._started_at = ids.new_id(), clock.now()
        self._next = 0.0
        self._looks = 0
        self._pause_s, self._ask_at = _ASK_AGAIN_S[0], time.monotonic() + _ASK_AGAIN_S[0]

    def look(self) -> None:
        """Once a second: say that these lanes are served, and ask for a sweep where none runs. Never raises
        for a database that is away."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY_S
        try:
            self._tell()
            if WorkerLane.POLLING in self.lanes:
                self._keep_sweeping()
        except (DatabaseError, InterfaceError) as error:
            log.warning("lanes_not_told", error=str(error))
            connection.close()

    def _tell(self) -> None:
        now = clock.now()
        row = WorkerCluster(
            id=self._id,
            host=socket.gethostname()[:255],
            lanes=self.lanes,
            started_at=self._started_at,
            seen_at=now,
        )
        if self._looks % 2 == 0:
            WorkerCluster.objects.bulk_create(
                [row], update_conflicts=True, unique_fields=["id"], update_fields=["seen_at"]
            )
        if self._looks == 0:
            WorkerCluster.objects.filter(seen_at__lt=now - _KEPT).delete()
        self._looks += 1

    def _keep_sweeping(self) -> None:
        """Between two slices nobody sweeps for a moment: it is asked for after two seconds without, then less
        and less often, as all workers may be busy."""
        now = time.monotonic()
        if sweep_runs():
            self._pause_s = _ASK_AGAIN_S[0]
            self._ask_at = now + self._pause_s
        elif now >= self._ask_at:
            sweep_wake()
            self._pause_s = min(2 * self._pause_s, _ASK_AGAIN_S[1])
            self._ask_at = now + self._pause_s


def sweep_wake() -> None:
    """Have a worker sweep, which may take longer than anything else does."""
    wake_workers(SWEEP, lane=WorkerLane.POLLING, timeout=turn_limit_s())


def clusters_running() -> list[WorkerCluster]:
    """Those that were heard of in the last minute."""
    return list(WorkerCluster.objects.filter(seen_at__gte=clock.now() - _SERVED))


def lanes_served() -> dict[str, list[WorkerCluster]]:
    """Every lane to the clusters that serve it; to none where nobody does."""
    running = clusters_running()
    return {str(lane): [one for one in running if lane in one.lanes] for lane in WorkerLane}


def lanes_watch() -> int:
    """A chore of the sweep: tell those who steer jobs, once a day, of a lane that nobody serves while workers
    run. Answers how many were told of now."""
    served = lanes_served()
    settled = clock.now() - _SERVED  # younger ones may have brothers that are still starting
    if not any(one.started_at <= settled for clusters in served.values() for one in clusters):
        return 0
    return sum(_tell_unserved(lane) for lane, clusters in served.items() if not clusters)


@transaction.atomic
def _tell_unserved(lane: str) -> bool:
    return notify(
        kind="lane_unserved",
        title=f"No worker serves the lane {lane}",
        body=f"What belongs there waits. Start one: manage.py worker --lanes {lane}",
        level=Notification.Level.WARNING,
        right=STEER_JOB,
        key=f"lane_unserved:{lane}:{clock.now():%Y-%m-%d}",
    )


def lane_metrics() -> Iterator[Metric]:
    """How many clusters serve each lane."""
    family = GaugeMetricFamily(
        "flightdeck_lane_clusters", "Worker clusters that serve the lane", labels=["lane"]
    )
    for lane, clusters in lanes_served().items():
        family.add_metric([lane], len(clusters))
    yield family
