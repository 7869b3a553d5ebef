"""What the API reads of jobs, approvals and the trail. Every selector takes the viewer."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from tasks_app.approvals.models import Approval
from tasks_app.jobs.models import Edge, Job, Step
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.people.actors import actor_names
from tasks_app.people.models import User
from tasks_app.people.scope import visible


def jobs_of(viewer: User) -> QuerySet[Job]:
    """Jobs of the viewer's teams, with the step that a nested one belongs to."""
    return visible(Job.objects.select_related("parent_step__job").defer("plan"), viewer)


def approvals_of(viewer: User) -> QuerySet[Approval]:
    """Approvals of the viewer's teams, with their decisions."""
    return visible(Approval.objects.prefetch_related("decisions"), viewer)


@dataclass(frozen=True, kw_only=True)
class Trail:
    """An entity's audit entries, oldest first, and the names of those who made them by actor key."""

    entries: list[AuditEntry]
    names: dict[str, str]


def trail_of(entity: str, entity_id: uuid.UUID) -> Trail:
    """The trail of one entity that the viewer was found to see."""
    entries = list(AuditEntry.objects.filter(entity_type=entity, entity_id=entity_id).order_by("seq"))
    return Trail(entries=entries, names=actor_names({entry.actor for entry in entries}))


def job_graph(job: Job) -> dict[str, Any]:
    """The graph as rows hold it: nodes (steps, in the order they were made) and edges.

    An edge of type `after` goes from a step to one that waits for it, one of type `item` from a step that
    fanned out to one of its items. `child_job` is the job that a step runs, where it runs one.
    """
    steps = list(job.steps.order_by("id"))
    children = {
        child.parent_step_id: child for child in Job.objects.filter(parent_step__job=job).defer("plan")
    }
    after = Edge.objects.filter(before__job=job).order_by("id").values_list("before_id", "after_id")
    return {
        "job": job,
        "nodes": [_node(step, children.get(step.pk)) for step in steps],
        "edges": [
            *({"source": before, "target": then, "type": "after"} for before, then in after),
            *({"source": s.fan_out_id, "target": s.pk, "type": "item"} for s in steps if s.fan_out_id),
        ],
    }


def _node(step: Step, child: Job | None) -> dict[str, Any]:
    title = step.spec.get("title") or step.key
    own = (
        "id",
        "key",
        "status",
        "status_since",
        "attempts",
        "failures",
        "waiting_for",
        "skipped",
        "item_index",
        "started_at",
        "ended_at",
        "error",
    )
    return {
        **{name: getattr(step, name) for name in own},
        "title": title if step.item_index is None else f"{title} {step.item_index + 1}",
        "fan_out": step.fan_out_id,
        "child_job": child,
    }
