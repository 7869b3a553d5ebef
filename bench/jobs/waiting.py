"""Jobs that wait: `python -m bench.jobs.waiting COUNT`. Each has one step that awaits a tool, as in a
seller's silence. They are made in bulk, recorded as an import, each row with its audit entry.
"""

from __future__ import annotations

import os
import sys
from typing import Any

_BATCH = 10_000
_REASON = "A bench: it waits"


def fill(count: int) -> None:
    """So many jobs with their steps, then `vacuum analyze`, as autovacuum would have done long ago."""
    import django

    django.setup()
    from django.db import transaction

    from tasks_app.lifecycle.imports import import_record
    from tasks_app.people.models import Team

    team = Team.objects.create(name="Waiting")
    for first in range(0, count, _BATCH):
        with transaction.atomic():
            kept = import_record(source="bench", actor="system", rows=_BATCH)
            _batch(team, first, min(_BATCH, count - first), {"imported": True, "import": str(kept.pk)})
    _vacuum()


def _batch(team: Any, first: int, count: int, metadata: dict[str, Any]) -> None:
    from django.utils import timezone

    from tasks_app import ids
    from tasks_app.jobs.models import Job, JobStatus, Step, StepStatus
    from tasks_app.jobs.recipes import recipe_named
    from tasks_app.lifecycle.transitions import append_birth

    plan, now = recipe_named("waiting"), timezone.now()
    whole, digest = plan.model_dump(mode="json"), plan.digest
    jobs = [
        Job(
            reference=f"WAIT-{number}",
            status=JobStatus.PROCESSING,
            recipe=plan.name,
            recipe_version=plan.version,
            recipe_digest=digest,
            plan=whole,
            team=team,
            requested_by="system",
        )
        for number in range(first, first + count)
    ]
    steps = [
        Step(
            id=ids.new_id(),
            job=job,
            key=plan.steps[0].id,
            spec=whole["steps"][0],
            status=StepStatus.AWAITING_TOOL,
            waiting_for={"type": "operation", "id": str(ids.new_id())},
            attempts=1,
            started_at=now,
        )
        for job in jobs
    ]
    for model, rows in ((Job, jobs), (Step, steps)):
        model._default_manager.bulk_create(rows)  # type: ignore[arg-type]  # rows of that model
        append_birth(rows, actor="system", reason=_REASON, metadata=metadata)


def _vacuum() -> None:
    import psycopg

    with psycopg.connect(os.environ["MIGRATE_DATABASE_URL"], autocommit=True) as owner:
        owner.execute("vacuum analyze")


if __name__ == "__main__":
    fill(int(sys.argv[1]))
