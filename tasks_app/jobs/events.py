"""WorkflowEvents: what happened to a graph, written in the commit in which it happened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tasks_app import clock
from tasks_app.jobs.models import Job, Step, WorkflowEvent
from tasks_app.lifecycle.transitions import exact, trace_id


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


def record_many(job: Job, kind: str, steps: Iterable[Step]) -> None:
    """The same event of many steps, in their order."""
    WorkflowEvent.objects.bulk_create(
        WorkflowEvent(**_columns(job, kind, step, "engine", {}, "")) for step in steps
    )


def _columns(
    job: Job, kind: str, step: Step | None, source: str, payload: dict[str, Any], occurrence: str
) -> dict[str, Any]:
    subject = step or job
    correlation = {"trace_id": trace_id(), "team": str(job.team_id), "user": job.requested_by}
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
