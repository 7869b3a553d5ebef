"""`manage.py worker`: the processes that run steps, send, poll and sweep."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from tasks_app.jobs.cluster import cluster_run
from tasks_app.lanes import WorkerLane, lanes_read
from tasks_app.management.base import DeskCommand, refuse


class Command(DeskCommand):
    help = "Runs jobs, sends to sellers, polls them and sweeps, until SIGTERM or Ctrl-C. Any number may run."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--lanes",
            default="",
            metavar="LANE,…",
            help=f"what it serves, by preference (default: {','.join(WorkerLane)}); see manage.py lanes",
        )

    def run(self, **options: Any) -> None:
        try:
            lanes = lanes_read(options["lanes"])
        except ValueError as error:
            refuse(str(error))
        cluster_run(lanes)
        self.answer({"stopped": True}, ["stopped; nothing is held"])
