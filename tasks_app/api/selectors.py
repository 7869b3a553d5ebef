"""What the API reads of jobs, approvals and the trail. Every selector takes the viewer."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.db.models import QuerySet

from tasks_app.approvals.models import Approval
from tasks_app.jobs.models import Job
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.people.actors import actor_names
from tasks_app.people.models import User
from tasks_app.people.scope import visible

_STEP_HEAVY = [f"parent_step__{name}" for name in ("spec", "item", "waiting_for", "outputs", "error")]


def jobs_of(viewer: User) -> QuerySet[Job]:
    """Jobs of the viewer's teams, with the step that a nested one belongs to, without what may be long."""
    rows = Job.objects.select_related("parent_step").defer("plan", *_STEP_HEAVY)
    return visible(rows, viewer)


def approvals_of(viewer: User) -> QuerySet[Approval]:
    """Approvals of the viewer's teams, with their decisions and threads."""
    return visible(Approval.objects.prefetch_related("decisions", "notes"), viewer)


@dataclass(frozen=True, kw_only=True)
class Trail:
    """An entity's audit entries, oldest first, and the names of those who made them by actor key."""

    entries: list[AuditEntry]
    names: dict[str, str]


def trail_of(entity: str, entity_id: uuid.UUID) -> Trail:
    """The trail of one entity that the viewer was found to see."""
    entries = list(AuditEntry.objects.filter(entity_type=entity, entity_id=entity_id).order_by("seq"))
    return Trail(entries=entries, names=actor_names({entry.actor for entry in entries}))
