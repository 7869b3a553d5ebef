"""WorkflowEvents: what happened to a graph, written in the commit in which it happened."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from django.db import connection

from tasks_app import clock
from tasks_app.jobs.models import Job, Step, WorkflowEvent
from tasks_app.lifecycle.transitions import exact
from tasks_app.tracing import trace


def record(
    job: Job,
    kind: str,
    *,
    step: Step | None = None,
    source: str = "engine",
    payload: dict[str, Any] | None = None,
    occurrence: str = "",
) -> None:
    """Append an event; its key names the row version it belongs to, so it cannot be written twice, unless
    `occurrence` tells apart what may happen more than once to one version."""
    WorkflowEvent.objects.create(**_columns(job, kind, step, source, payload or {}, occurrence))


def record_many(job: Job, kind: str, steps: Collection[Step]) -> None:
    """The same event of many steps, as they are stored now."""
    with connection.cursor() as cursor:
        cursor.execute(
            "insert into tasks_app_workflowevent"
            " (job_id, type, source, payload, correlation, idempotency_key, at)"
            " select e.job_id, e.type, 'engine', e.payload, e.correlation, e.key, e.at from tasks_app_step t"
            " cross join lateral fd_step_event(t, %s::jsonb, %s, '{}', %s) e"
            " where t.id = any(%s) order by t.id",
            [json.dumps(_back(job)), kind, clock.now(), [step.pk for step in steps]],
        )


def _back(job: Job) -> dict[str, str]:
    """What a decision about the job goes back to."""
    return trace(request=job.request_id, team=job.team_id, user=job.requested_by).as_dict()


def _columns(
    job: Job, kind: str, step: Step | None, source: str, payload: dict[str, Any], occurrence: str
) -> dict[str, Any]:
    subject = step or job
    correlation = _back(job)
    if step is not None:
        correlation |= {"step_id": str(step.pk), "step": step.key, "attempt": str(step.attempts)}
    attempt = step.attempts if step else 0
    return {
        "job": job,
        "type": kind,
        "source": source,
        "payload": exact(payload, floats=True),
        "correlation": correlation,
        "idempotency_key": f"{subject.entity}:{subject.pk}:{subject.version}:{attempt}:{kind}{occurrence}",
        "at": clock.now(),
    }
