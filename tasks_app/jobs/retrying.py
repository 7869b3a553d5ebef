"""Retrying a failed job: a new job that adopts what the old one has done. Terminal rows stay terminal.

Completed steps' outputs are taken over, and so is what a step asked sellers for, unless that failed: a
purchase that was made, or may have been, is found again by the step that comes to it (`Run.purpose`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta

from django.db import transaction

from tasks_app import clock
from tasks_app.jobs import engine
from tasks_app.jobs.adoption import adopt
from tasks_app.jobs.endings import JobRefusedError, may_steer
from tasks_app.jobs.models import Job, JobStatus, Step
from tasks_app.jobs.models import StepStatus as S
from tasks_app.jobs.planning import plan_steps, release_rest
from tasks_app.jobs.recipes import Recipe
from tasks_app.lifecycle.references import next_reference
from tasks_app.lifecycle.transitions import Who, create
from tasks_app.people.actors import SYSTEM
from tasks_app.tracing import origin

_TAKEN_OVER = (
    "recipe",
    "recipe_version",
    "recipe_digest",
    "plan",
    "inputs",
    "team",
    "advertiser_id",
    "subject_type",
    "subject_id",
    "priority",
)
_listeners: list[Callable[[Job, Job], None]] = []


def on_retried(listener: Callable[[Job, Job], None]) -> None:
    """Call `listener(old, new)` in the commit that retries a job; it writes rows only, and refuses by
    raising JobRefusedError."""
    if listener not in _listeners:
        _listeners.append(listener)


@transaction.atomic
def job_retry(*, job_id: uuid.UUID, actor: Who, reason: str, from_step: str = "") -> Job:
    """Start a job anew from where it failed, with the plan it was pinned to; answers the new job.

    `from_step`: that step and what comes after it are done again, though they were completed. Raises
    JobRefusedError: it has not failed, was retried already, is nested in another, there is no such step, or
    its subject has gone on without it; InvalidTransitionError without the right.
    """
    old = engine.locked_job(job_id)
    plan = Recipe.stored(old.plan)
    refused = _refusal(old, plan, actor, reason, from_step)
    if refused:
        raise JobRefusedError(refused)
    new = _retry(old, actor, reason.strip(), anew=plan.from_step(from_step) if from_step else frozenset())
    for listener in _listeners:
        listener(old, new)
    return new


def job_retry_nested(*, job: Job, parent_step: Step) -> Job:
    """Retry a nested job for the step that took over from the one it ran for, in the caller's commit."""
    return _retry(job, SYSTEM, f"Retried with {parent_step.job.reference}", parent_step=parent_step)


def _refusal(job: Job, plan: Recipe, actor: Who, reason: str, from_step: str) -> str:
    if not may_steer(actor):
        return "You have no right to retry jobs."
    if not reason.strip():
        return "Say why it is retried."
    if job.status not in (JobStatus.FAILED, JobStatus.EXPIRED):
        return f"It is {job.status.lower()}: only what failed or expired is retried."
    if job.parent_step_id is not None:
        return "It is nested in another job: retry that one."
    if Job.objects.filter(retry_of=job).exists():
        return "It was retried already."
    if from_step and from_step not in {spec.id for spec in plan.steps}:
        return f"There is no step {from_step!r}."
    return ""


def _retry(
    old: Job, actor: Who, reason: str, *, anew: frozenset[str] = frozenset(), parent_step: Step | None = None
) -> Job:
    plan = Recipe.stored(old.plan)
    job = Job(
        reference=next_reference("JOB"),
        retry_of=old,
        parent_step=parent_step,
        requested_by=old.requested_by,
        request_id=parent_step.job.request_id if parent_step else origin(),
        expires_at=clock.now() + timedelta(hours=plan.ttl_hours),
        **{name: getattr(old, name) for name in _TAKEN_OVER},
    )
    create(job, actor=actor, reason=f"Retries {old.reference}: {reason}"[:500])
    before = {step.key: step for step in Step.objects.filter(job=old, fan_out=None)}
    made = plan_steps(job, plan, {key: step.lineage or step.pk for key, step in before.items()})
    done = {key: step for key, step in before.items() if step.status == S.COMPLETED and key not in anew}
    for key, step in done.items():
        adopt(job, made[key], step)
    release_rest(job, [step for key, step in made.items() if key not in done])
    return job
