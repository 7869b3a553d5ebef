"""The process that starts Flightdeck's jobs; the worker cluster runs them."""

from __future__ import annotations

import time

from bench import child, server


def start(jobs: int) -> None:
    """Start so many chains in one commit."""
    from django.db import connection, transaction

    from tasks_app.jobs.planning import job_start
    from tasks_app.people.models import Team

    team, _ = Team.objects.get_or_create(name="Bench")
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("set local transaction_timeout = 0")  # longer than any request
        for _ in range(jobs):
            job_start(recipe="bench_chain", inputs={}, team=team, actor="system")


def ended() -> None:
    """Wait until all jobs have ended. Raises SystemExit if one is not COMPLETED."""
    from tasks_app.jobs.models import Job

    while Job.objects.filter(ended_at=None).exists():
        time.sleep(0.01)
    if failed := Job.objects.exclude(status="COMPLETED").count():
        raise SystemExit(f"{failed} jobs are not COMPLETED")


if __name__ == "__main__":
    server.django_setup()
    child.serve({"start": start, "ended": ended})
