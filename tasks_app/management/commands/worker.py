"""`manage.py worker`: the processes that run steps, send, poll and sweep."""

from __future__ import annotations

from typing import Any

from tasks_app.jobs.cluster import cluster_run
from tasks_app.management.base import DeskCommand


class Command(DeskCommand):
    help = "Runs jobs, sends to sellers, polls them and sweeps, until SIGTERM or Ctrl-C. Any number may run."

    def run(self, **options: Any) -> None:
        cluster_run()
        self.answer({"stopped": True}, ["stopped; nothing is held"])
