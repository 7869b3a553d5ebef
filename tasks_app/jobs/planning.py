"""A recipe becomes rows in one commit: job, steps, edges, incoming counts (document 001, init_instance)."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction

from tasks_app import clock, ids
from tasks_app.jobs import events
from tasks_app.jobs.engine import release
from tasks_app.jobs.models import Edge, Job, JobStatus, Step
from tasks_app.jobs.over import end_if_over
from tasks_app.jobs.recipes import Recipe, recipe_named, recipe_pinned
from tasks_app.lifecycle.references import next_reference
from tasks_app.lifecycle.transitions import Who, create, create_many, transition
from tasks_app.people.actors import SYSTEM, actor_key
from tasks_app.people.models import Team
from tasks_app.people.scope import advertiser_of
from tasks_app.tracing import origin


def job_start(
    *,
    recipe: str,
    inputs: dict[str, Any],
    team: Team,
    actor: Who,
    subject_type: str = "",
    subject_id: uuid.UUID | None = None,
    parent_step: Step | None = None,
    priority: int = 100,
    advertiser_id: uuid.UUID | None = None,
) -> Job:
    """Start a registered recipe, pinned to its version and text; it is `advertiser_id`'s, by default that of
    what it is about. Raises RecipeError."""
    # What runs below a job was pinned with it: a deploy in between changes neither.
    pinned = parent_step.job.plan.get("nested", {}) if parent_step is not None else {}
    plan = Recipe.stored(pinned[recipe]) if recipe in pinned else recipe_named(recipe)
    job = Job(
        reference=next_reference("JOB"),
        recipe=plan.name,
        recipe_version=plan.version,
        recipe_digest=plan.digest,
        plan=recipe_pinned(plan, pinned),
        inputs=inputs,
        team=team,
        advertiser_id=advertiser_id or _advertiser(subject_type, subject_id, parent_step),
        requested_by=actor_key(actor),
        request_id=parent_step.job.request_id if parent_step else origin(),
        subject_type=subject_type,
        subject_id=subject_id,
        parent_step=parent_step,
        priority=priority,
        expires_at=clock.now() + timedelta(hours=plan.ttl_hours),
    )
    init_instance(job=job, plan=plan, actor=actor, reason=f"{plan.title} started")
    return job


def _advertiser(
    subject_type: str, subject_id: uuid.UUID | None, parent_step: Step | None
) -> uuid.UUID | None:
    found = advertiser_of(subject_type, subject_id)
    return found or (parent_step.job.advertiser_id if parent_step else None)


@transaction.atomic
def init_instance(*, job: Job, plan: Recipe, actor: Who, reason: str) -> None:
    """A new job and its graph as rows, what may run queued, in one commit."""
    create(job, actor=actor, reason=reason)
    steps = plan_steps(job, plan)
    release(job, [step for step in steps.values() if step.incoming == 0])


def plan_steps(
    job: Job,
    plan: Recipe,
    lineage: Mapping[str, uuid.UUID] | None = None,
    anew: Collection[str] = frozenset(),
) -> dict[str, Step]:
    """The rows of a job's graph, by key, in the caller's commit; the job is queued.

    `lineage`: the first step in a chain of retries, by key; `anew`: those of which nothing is taken over.
    """
    steps = {
        spec.id: Step(
            id=ids.new_id(),
            job=job,
            key=spec.id,
            spec=spec.model_dump(mode="json"),
            incoming=len(spec.after),
            priority=job.priority,
            lane=spec.lane,
            lineage=(lineage or {}).get(spec.id),
            anew=spec.id in anew,
        )
        for spec in plan.steps
    }
    create_many(steps.values(), actor=SYSTEM, reason="Planned")
    Edge.objects.bulk_create(
        Edge(before=steps[before], after=steps[spec.id]) for spec in plan.steps for before in spec.after
    )
    events.record(job, "job.planned", payload={"steps": list(steps)})
    transition(job, JobStatus.QUEUED, actor=SYSTEM)
    return steps


def release_rest(job: Job, steps: Collection[Step]) -> None:
    """Count what each of `steps` still has to wait for, after others were adopted; queue what may run. Where
    all were adopted the job ends."""
    keys = {step.key for step in steps}
    for step in steps:
        step.incoming = sum(name in keys for name in step.spec["after"])
    Step.objects.bulk_update(steps, ["incoming"])
    release(job, [step for step in steps if step.incoming == 0])
    end_if_over(job)
