"""Ending jobs before their time: cancelled by a person, or below a job that has ended. One job, one commit.

What was executing or waiting goes straight to cancelled (document 003); its late result is recorded as such.
Lock order: approvals, operations, job, steps. Nested jobs end after their parent, each in its own commit; a
crash in between is healed by the sweep (`nested_end_due`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.approvals.subjects import questions_end_with_job
from tasks_app.jobs.engine import locked_job
from tasks_app.jobs.models import JOB_ENDED, JOB_OPEN, STEP_ENDED, Job, JobStatus, Step, StepStatus
from tasks_app.jobs.over import end_job
from tasks_app.lifecycle.transitions import Who, moved_by, transition, transition_many
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.ordering import order_withdraw
from tasks_app.operations.resend import had_no_effect
from tasks_app.operations.services import operation_withdraw
from tasks_app.people.actors import SYSTEM, actor_key, actor_user
from tasks_app.people.roles import STEER_JOB
from tasks_app.troubles.rows import each_row, held_back
from tasks_app.troubles.works import work_on

_AT_ONCE = 100
_WORK = work_on("nested_jobs_ended", "step")
_RIGHTS = (STEER_JOB,)  # whoever ends a job, or passes over a step, by its own page


class JobRefusedError(Exception):
    """The job may not be changed so; the text says why."""


def may_steer(actor: Who) -> bool:
    """The system and its agents may; people by their right."""
    user = actor_user(actor_key(actor))
    return user is None or user.has_perm(STEER_JOB)


def job_cancel(*, job_id: uuid.UUID, actor: Who, reason: str, rights: Sequence[str] = ()) -> Job:
    """Cancel a job, what it asked people, what it has not sent yet, and the jobs nested in it.

    `rights`: those of the act that ends the job with something else, as in `transition`. Raises
    JobRefusedError when it has ended or no reason is given, InvalidTransitionError without the right.
    """
    if not reason.strip():
        raise JobRefusedError("Say why it is cancelled.")
    job = _cut_short(job_id, JobStatus.CANCELLED, actor, reason.strip(), rights)
    if job is None:
        raise JobRefusedError("It has ended already.")
    nested_end(job, actor=actor, rights=rights or _RIGHTS)
    return job


@transaction.atomic
def job_hide(*, job_id: uuid.UUID, actor: Who) -> Job:
    """Hide a job that has ended from lists; its trail stays.

    Raises JobRefusedError (it still runs, or the step that it ran for has not taken its result yet),
    InvalidTransitionError (no right).
    """
    job = locked_job(job_id)
    if job.status in JOB_OPEN:
        raise JobRefusedError("It still runs: cancel it first.")
    if job.parent_step is not None and job.parent_step.status not in STEP_ENDED:
        raise JobRefusedError(f"{job.parent_step.job.reference} has not taken its result yet.")
    if job.status != JobStatus.DELETED:
        transition(job, JobStatus.DELETED, actor=actor)
    return job


def job_expire(*, job_id: uuid.UUID, reason: str) -> bool:
    """End a job whose time to live is over; False when it has ended already."""
    job = _cut_short(job_id, JobStatus.EXPIRED, SYSTEM, reason)
    if job is not None:
        nested_end(job)
    return job is not None


def nested_end(job: Job, *, actor: Who = SYSTEM, rights: Sequence[str] = ()) -> int:
    """End the jobs nested in one that has ended, as it was where it was cut short, by `actor`, who did that
    by one of `rights`. Answers how many."""
    below = Job.objects.filter(parent_step__job=job, status__in=JOB_OPEN)
    return _end_below(below, job, f"{job.reference} was {job.status.lower()}", actor, rights)


def nested_end_whole(job: Job) -> int:
    """End whatever is open below a job that has ended, however many storeys down: what a crash has left.
    Answers how many."""
    ended, above = 0, [job.pk]
    while above:
        below = Job.objects.filter(parent_step__job__in=above)
        left = Step.objects.filter(job__in=above, child_job__status__in=JOB_OPEN).select_related("job")
        for step in left:
            why = f"{step.job.reference} was {step.job.status.lower()}"
            ended += children_end(step=step, reason=why)
        above = list(below.values_list("pk", flat=True))
    return ended


def nested_end_due() -> int:
    """End nested jobs whose step has ended without them: it was cut short or skipped in a moment in which its
    worker died, or they were made."""
    left = Job.objects.filter(parent_step__status__in=STEP_ENDED, status__in=JOB_OPEN)
    steps = Step.objects.filter(pk__in=left.values("parent_step")).exclude(pk__in=held_back(_WORK))
    return each_row(_WORK, steps.values_list("pk", flat=True)[:_AT_ONCE], _children_end, commits=True)


def _children_end(step_id: uuid.UUID) -> int:
    step = Step.objects.select_related("job").get(pk=step_id)
    return children_end(step=step, reason=f"{step.key} has ended")


def children_end(*, step: Step, reason: str, actor: Who = SYSTEM, rights: Sequence[str] = _RIGHTS) -> int:
    """End the job that runs for a step that has ended without it, as the step's own job ended where that was
    cut short, by `actor`, whose act that was. Answers how many ended, with those below."""
    below = Job.objects.filter(parent_step=step, status__in=JOB_OPEN)
    return _end_below(below, step.job, reason, actor, rights)


def _end_below(below: QuerySet[Job], parent: Job, reason: str, actor: Who, rights: Sequence[str]) -> int:
    to = parent.status if parent.status in (JobStatus.CANCELLED, JobStatus.EXPIRED) else JobStatus.CANCELLED
    ended = 0
    for child_id in list(below.values_list("pk", flat=True)):
        child = _cut_short(child_id, to, actor, reason, rights)
        if child is not None:
            ended += 1 + nested_end(child, actor=actor, rights=rights)
    return ended


@transaction.atomic
def _cut_short(job_id: uuid.UUID, to: str, actor: Who, reason: str, rights: Sequence[str] = ()) -> Job | None:
    waiting = Step.objects.filter(job=job_id, waiting_for__isnull=False).exclude(status__in=STEP_ENDED)
    held = rights or _RIGHTS
    waits_withdraw(waiting, reason, actor=actor, rights=held)
    job = locked_job(job_id)
    if job.status in JOB_ENDED:
        return None
    changes = {"ended_at": clock.now(), "ready_at": None, "lease_until": None}
    steps = Step.objects.filter(job=job).exclude(status__in=STEP_ENDED)
    by = moved_by(job, actor, held)
    transition_many(steps, StepStatus.CANCELLED, actor=by, reason=reason[:500], changes=changes, rights=held)
    Job.objects.filter(pk=job.pk).update(active_steps=0)
    end_job(job, to, actor=actor, rights=rights, error=reason)
    return job


def waits_withdraw(
    steps: Iterable[Step], reason: str, *, actor: Who = SYSTEM, rights: Sequence[str] = _RIGHTS
) -> None:
    """Call off what steps wait for, in the caller's commit and before it locks their job: questions that are
    open, and what has not been sent. `actor`: whose act that follows from, by one of `rights`."""
    _withdraw([step.waiting_for for step in steps if step.waiting_for], reason, actor, rights)


def late_wait_withdraw(step: Step, wait: dict[str, Any]) -> None:
    """Call off what an attempt was to wait for whose step was cancelled meanwhile, in the caller's commit: it
    came too late to be called off with the rest. What another attempt, or a retry of the job, may wait for
    stays."""
    alone = Step.objects.filter(pk=step.pk, job__retried_by__isnull=True)
    if alone.filter(status=StepStatus.CANCELLED).exists():
        _withdraw([wait], f"{step.key} was cancelled meanwhile", SYSTEM, ())


def _withdraw(waits: list[dict[str, Any]], reason: str, actor: Who, rights: Sequence[str]) -> None:
    _withdraw_questions(waits, reason, actor, rights)
    _withdraw_unsent(waits, reason, actor, rights)


def _withdraw_questions(waits: list[dict[str, Any]], reason: str, actor: Who, rights: Sequence[str]) -> None:
    ids = [uuid.UUID(pk) for wait in waits if wait["type"] == "approvals" for pk in wait["ids"]]
    questions_end_with_job(ids, reason=reason, actor=actor, rights=rights)


def _withdraw_unsent(waits: list[dict[str, Any]], reason: str, actor: Who, rights: Sequence[str]) -> None:
    """What may have had an effect stays with the seller, and is followed to its end."""
    ids = [wait["id"] for wait in waits if wait["type"] == "operation"]
    unsent = Operation.objects.filter(pk__in=ids, status=OperationStatus.REQUESTED).order_by("pk")
    for operation in unsent.select_for_update(no_key=True, of=("self",)):
        operation_withdraw(operation=operation, actor=actor, reason=reason[:500], tell=True, rights=rights)
    tried = (
        Operation.objects.filter(pk__in=ids, settled_at__isnull=True).select_related("seller").order_by("pk")
    )
    for operation in tried:  # in vain: nobody was reached, or other credentials are wanted first
        if operation.is_mutation and had_no_effect(operation):
            order_withdraw(operation=operation, reason=reason[:500], actor=actor, unsent_only=True)
