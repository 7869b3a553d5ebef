"""`manage.py worker`: the processes that run steps, send, poll and sweep."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from tasks_app.jobs.cluster import cluster_run


class Command(BaseCommand):
    help = "Runs jobs, sends to sellers, polls them and sweeps, until SIGTERM or Ctrl-C. Any number may run."

    def handle(self, *args: Any, **options: Any) -> None:
        cluster_run()
