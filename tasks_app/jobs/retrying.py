"""Retrying a failed job: a new job that adopts what the old one has done. Terminal rows stay terminal.

Completed steps' outputs are taken over (`adoption`), and so is what a step asked sellers for, unless that
failed: a purchase that was made, or may have been, is found again by the step that comes to it
(`Run.purpose`), done anew or not.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from tasks_app import clock
from tasks_app.approvals.subjects import questions_set_off
from tasks_app.jobs import engine
from tasks_app.jobs.adoption import NestedBefore, adopt
from tasks_app.jobs.endings import JobRefusedError, may_steer, nested_end_whole
from tasks_app.jobs.models import Job, JobStatus, Step
from tasks_app.jobs.models import StepStatus as S
from tasks_app.jobs.planning import plan_steps, release_rest
from tasks_app.jobs.recipes import Recipe
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.references import next_reference
from tasks_app.lifecycle.transitions import Who, create
from tasks_app.people.actors import SYSTEM
from tasks_app.people.setting_off import About
from tasks_app.tracing import origin

_TAKEN_OVER = (
    "recipe",
    "recipe_version",
    "recipe_digest",
    "plan",
    "team",
    "advertiser_id",
    "subject_type",
    "subject_id",
    "priority",
)
# What a retry's rule reads of a job.
RETRY_COLUMNS = ("status", "parent_step", "recipe", "subject_id")
_LOST = (JobStatus.FAILED, JobStatus.EXPIRED)
Refusals = Callable[[Collection[Job]], Mapping[uuid.UUID, str]]
_listeners: dict[Callable[[Job, Job], None], Refusals] = {}


def on_retried(listener: Callable[[Job, Job], None], *, refusals: Refusals) -> None:
    """Call `listener(old, new)` in the commit that retries a job; it writes rows only, and refuses by
    raising JobRefusedError. `refusals(jobs)` says beforehand for which it would, and why."""
    _listeners[listener] = refusals


def retry_refusal(job: Job) -> str:
    """Why a job is not retried as it stands, whoever asks; empty where it is. A retry is offered where this
    says nothing, and refused where it says something."""
    return retry_refusals([job]).get(job.pk, "")


def retry_refusals(jobs: Collection[Job]) -> dict[uuid.UUID, str]:
    """The same of many at once: those that are not retried, and why; as many queries as of one."""
    refused = {job.pk: why for job in jobs if (why := _stands(job))}
    refused |= dict.fromkeys(_retried(_without(jobs, refused)), "It was retried already.")
    for refusals in _listeners.values():
        refused |= refusals(_without(jobs, refused))
    return refused


def retries_sought(rows: QuerySet[Job]) -> QuerySet[Job]:
    """Of `rows`, those beside which `retry_refusals` need look at no other: whatever it leaves out is
    refused."""
    return rows.filter(status__in=_LOST, parent_step=None, retried_by__isnull=True)


def _stands(job: Job) -> str:
    if job.status not in _LOST:
        return f"It is {job.status.lower()}: only what failed or expired is retried."
    return "It is nested in another job: retry that one." if job.parent_step_id is not None else ""


def _without(jobs: Collection[Job], refused: Collection[uuid.UUID]) -> list[Job]:
    return [job for job in jobs if job.pk not in refused]


def _retried(jobs: Collection[Job]) -> list[uuid.UUID]:
    if not jobs:
        return []
    again = Job.objects.filter(retry_of__in=[job.pk for job in jobs])
    return [pk for pk in again.values_list("retry_of", flat=True) if pk is not None]


@transaction.atomic
def job_retry(*, job_id: uuid.UUID, actor: Who, reason: str, from_step: str = "") -> Job:
    """Start a job anew from where it failed, with the plan it was pinned to; answers the new job.

    `from_step`: that step and what comes after it are done again, though they were completed. Raises
    JobRefusedError: it has not failed, was retried already, is nested in another, there is no such step, or
    its subject has gone on without it; InvalidTransitionError without the right.
    """
    _set_off(job_id, actor, reason.strip())
    old = engine.locked_job(job_id)
    plan = Recipe.stored(old.plan)
    refused = _refusal(old, plan, actor, reason, from_step)
    if refused:
        raise JobRefusedError(refused)
    nested_end_whole(old)  # what a crash has left: nothing below it goes on beside its retry
    new = _retry(old, actor, reason.strip(), anew=plan.from_step(from_step) if from_step else frozenset())
    for listener in _listeners:
        listener(old, new)
    return new


def job_retry_nested(*, before: NestedBefore, parent_step: Step, inputs: dict[str, Any]) -> Job:
    """Retry a nested job for the step that took over from the one it ran for, in the caller's commit: as a
    whole where its inputs are others now, or the step is done anew."""
    old = before.job
    whole = frozenset(spec["id"] for spec in old.plan["steps"])
    return _retry(
        old,
        SYSTEM,
        f"Retried with {parent_step.job.reference}",
        anew=frozenset() if before.equal else whole,
        parent_step=parent_step,
        inputs=inputs,
    )


def job_starters(kind: str, pk: uuid.UUID) -> Iterator[str | About]:
    """Who started or retried the jobs about a subject, or one job and those that it retries."""
    about = Q(pk=pk) if kind == "job" else Q(subject_type=kind, subject_id=pk)
    jobs = list(Job.objects.filter(about).values_list("pk", "retry_of", "subject_type", "subject_id"))
    births = AuditEntry.objects.filter(
        entity_type="job", entity_id__in=[job[0] for job in jobs], from_status=""
    )
    yield from births.values_list("actor", flat=True)
    for _, retry_of, subject_type, subject_id in jobs:
        yield from (("job", retry_of), (subject_type, subject_id))


def _set_off(job_id: uuid.UUID, actor: Who, why: str) -> None:
    """Who retries a job asks for what it does, and decides on nothing that is open about it. Approvals are
    locked before jobs."""
    about = Job.objects.filter(pk=job_id).values_list("reference", "subject_type", "subject_id")
    for reference, subject_type, subject_id in about:
        questions_set_off(subject_type, subject_id, actor=actor, why=f"{reference} is retried: {why}")


def _refusal(job: Job, plan: Recipe, actor: Who, reason: str, from_step: str) -> str:
    if not may_steer(actor):
        return "You have no right to retry jobs."
    if not reason.strip():
        return "Say why it is retried."
    if from_step and from_step not in {spec.id for spec in plan.steps}:
        return f"There is no step {from_step!r}."
    return retry_refusal(job)


def _retry(
    old: Job,
    actor: Who,
    reason: str,
    *,
    anew: frozenset[str],
    parent_step: Step | None = None,
    inputs: dict[str, Any] | None = None,
) -> Job:
    plan = Recipe.stored(old.plan)
    job = Job(
        reference=next_reference("JOB"),
        retry_of=old,
        parent_step=parent_step,
        requested_by=old.requested_by,
        request_id=parent_step.job.request_id if parent_step else origin(),
        expires_at=clock.now() + timedelta(hours=plan.ttl_hours),
        inputs=old.inputs if inputs is None else inputs,
        **{name: getattr(old, name) for name in _TAKEN_OVER},
    )
    create(job, actor=actor, reason=f"Retries {old.reference}: {reason}"[:500])
    before = {step.key: step for step in Step.objects.filter(job=old, fan_out=None)}
    completed = {key for key, step in before.items() if step.status == S.COMPLETED}
    anew = plan.anew(completed, anew)
    lineage = {key: step.lineage or step.pk for key, step in before.items()}
    made = plan_steps(job, plan, lineage, anew)
    done = {key: step for key, step in before.items() if key in completed and key not in anew}
    for key, step in done.items():
        adopt(job, made[key], step)
    release_rest(job, [step for key, step in made.items() if key not in done])
    return job
