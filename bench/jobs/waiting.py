"""Jobs that wait: `python -m bench.jobs.waiting COUNT`. Each has one step that awaits a tool, as in a
seller's silence. They are made in bulk, and moved there along the edges that every job and step takes.
"""

from __future__ import annotations

import os
import sys
from typing import Any

_BATCH = 10_000
_REASON = "A bench: it waits"


def fill(count: int) -> None:
    """So many jobs with their steps."""
    from django.db import transaction

    from tasks_app.people.models import Team

    team = Team.objects.create(name="Waiting")
    for first in range(0, count, _BATCH):
        with transaction.atomic():
            _batch(team, range(first, min(first + _BATCH, count)))


def _batch(team: Any, numbers: range) -> None:
    from tasks_app import ids
    from tasks_app.jobs.models import Job, JobStatus, Step, StepStatus
    from tasks_app.jobs.recipes import recipe_named

    plan = recipe_named("waiting")
    whole, digest = plan.model_dump(mode="json"), plan.digest
    jobs = [
        Job(
            reference=f"WAIT-{number}",
            recipe=plan.name,
            recipe_version=plan.version,
            recipe_digest=digest,
            plan=whole,
            team=team,
            requested_by="system",
        )
        for number in numbers
    ]
    steps = [
        Step(
            id=ids.new_id(),
            job=job,
            key=plan.steps[0].id,
            spec=whole["steps"][0],
            waiting_for={"type": "operation", "id": str(ids.new_id())},
            attempts=1,
        )
        for job in jobs
    ]
    _lived(Job, jobs, JobStatus.QUEUED, JobStatus.DISPATCHING, JobStatus.PROCESSING)
    _lived(Step, steps, StepStatus.QUEUED, StepStatus.EXECUTING, StepStatus.AWAITING_TOOL)


def _lived(model: Any, rows: list[Any], *statuses: str) -> None:
    from tasks_app.lifecycle.transitions import append_birth, transition_many

    model._default_manager.bulk_create(rows)
    append_birth(rows, actor="system", reason=_REASON, metadata={})
    those = model._default_manager.filter(pk__in=[row.pk for row in rows])
    for status in statuses:
        transition_many(those, status, actor="system", reason=_REASON)


def _vacuum() -> None:
    """As autovacuum would have done long ago."""
    import psycopg

    with psycopg.connect(os.environ["MIGRATE_DATABASE_URL"], autocommit=True) as owner:
        owner.execute("vacuum analyze")


if __name__ == "__main__":
    import django

    django.setup()
    fill(int(sys.argv[1]))
    _vacuum()
