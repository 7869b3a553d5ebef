"""`manage.py lanes`: which workers serve which lane."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tasks_app import clock
from tasks_app.jobs.clusters import WorkerCluster
from tasks_app.jobs.serving import lanes_served
from tasks_app.management.base import DeskCommand, table


class Command(DeskCommand):
    help = "Tells which worker clusters serve each lane, as heard of in the last minute."
    exit_codes = "Exit code 0: every lane is served; 1: one is not; 2: refused."

    def run(self, **options: Any) -> None:
        served, now = lanes_served(), clock.now()
        rows = [row for lane, clusters in served.items() for row in _rows(lane, clusters, now)]
        data = {
            lane: [{"id": str(one.pk), "host": one.host, "seen_at": one.seen_at} for one in clusters]
            for lane, clusters in served.items()
        }
        self.answer({"lanes": data}, table(("lane", "served on", "seen"), rows))
        unserved = [lane for lane, clusters in served.items() if not clusters]
        if unserved:
            self.found(f"No worker serves {', '.join(unserved)}.")


def _rows(lane: str, clusters: list[WorkerCluster], now: datetime) -> list[tuple[str, str, str]]:
    if not clusters:
        return [(lane, "nobody", "")]
    return [(lane, one.host, f"{(now - one.seen_at).total_seconds():.0f} s ago") for one in clusters]
