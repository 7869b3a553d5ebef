"""The process that starts Flightdeck's jobs and waits for their ends: `python -m bench.jobs.ours`.

Its database is the one its environment names; the worker cluster is another process.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bench.jobs import marks, orders

if TYPE_CHECKING:
    from tasks_app.jobs.models import Job

_LOOK_AGAIN_S = 0.0005
_END_S = 60.0


def chain(jobs: int) -> None:
    """Ten steps each; all are there in one moment, so that starting them takes nothing from the workers."""
    _start_many("bench_chain", jobs)


def long(jobs: int) -> None:
    """A hundred steps each."""
    _start_many("bench_long", jobs)


def wide() -> None:
    """One job of ten thousand steps: as many chains of a hundred as `long` has jobs when asked for 100."""
    _start_many("bench_wide", 1)


def ended() -> orders.Answer:
    """Wait until every job has ended; answers how many are not COMPLETED, from the first on."""
    from tasks_app.jobs.models import Job, JobStatus

    _until(lambda: not Job.objects.filter(recipe__startswith="bench", ended_at=None).exists())
    failed = Job.objects.filter(recipe__startswith="bench").exclude(status=JobStatus.COMPLETED)
    return {"not_completed": failed.count()}


def fanout(items: int) -> orders.Answer:
    """Milliseconds from the call that starts a job of so many parallel steps to its COMPLETED."""
    began = time.time()
    job = _start("bench_fanout", items=list(range(items)))
    return {"ms": 1000 * (_wait(job) - began)}


def wakeups(times: int) -> orders.Answer:
    """Single jobs: see `marks.wakeups`."""
    from django.db import transaction

    jobs: list[Job] = []

    def start() -> float:
        with transaction.atomic():
            jobs.append(_start("bench_single"))
            return time.time()

    return marks.wakeups(times, start, lambda: _wait(jobs[-1]))


def analyze() -> None:
    """What autovacuum does within a minute."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("analyze tasks_app_job, tasks_app_step, tasks_app_edge, tasks_app_auditentry")


def _start(recipe: str, **inputs: Any) -> Job:
    from tasks_app.jobs.planning import job_start
    from tasks_app.people.models import Team

    team = Team.objects.get_or_create(name="Bench")[0]
    return job_start(recipe=recipe, inputs=inputs, team=team, actor="system")


def _start_many(recipe: str, jobs: int) -> None:
    from django.db import connection, transaction

    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("set local transaction_timeout = 0")  # no request makes so many at once
        for _ in range(jobs):
            _start(recipe)


def _wait(job: Job) -> float:
    """When it ended, Unix seconds."""
    _until(lambda: type(job).objects.filter(pk=job.pk, ended_at__isnull=False).exists())
    job.refresh_from_db()
    if job.status != "COMPLETED" or job.ended_at is None:
        raise SystemExit(f"{job.reference} is {job.status}: {job.error}")
    return float(job.ended_at.timestamp())


def _until(condition: Any) -> None:
    deadline = time.monotonic() + _END_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"not ended within {_END_S:.0f} s")
        time.sleep(2 * _LOOK_AGAIN_S)


def main() -> None:
    import django

    django.setup()
    told = (chain, long, wide, ended, fanout, wakeups, analyze)
    orders.serve({one.__name__: one for one in told})


if __name__ == "__main__":
    main()
