"""What people do to a job that runs: skip a step, change its turn, give what it waits for. Each takes the
right to steer and a reason, and is kept as a WorkflowEvent with who did it. A refusal changes nothing.

Lock order as in `endings`: approvals, operations, job, steps; nested jobs afterwards, each in its own commit.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from tasks_app import clock
from tasks_app.jobs import engine, events
from tasks_app.jobs.endings import JobRefusedError, children_end, may_steer, waits_withdraw
from tasks_app.jobs.models import JOB_ENDED, STEP_ENDED, WAITING, Job, Step
from tasks_app.jobs.models import StepStatus as S
from tasks_app.jobs.outside import event_give
from tasks_app.jobs.recipes import Recipe
from tasks_app.jobs.waits import WaitType, wait_type
from tasks_app.lifecycle.transitions import Who, transition
from tasks_app.operations.turns import turns_prioritise
from tasks_app.people.actors import actor_key
from tasks_app.people.roles import STEER_JOB

MOST_PRIORITY = 32_767
_GIVEN_ELSEWHERE: dict[str, str] = {
    WaitType.APPROVALS: "It waits for decisions: they are taken at their approvals.",
    WaitType.OPERATION: "It waits for a seller: what a seller asks is answered at the operation.",
    WaitType.ACCOUNT: "It waits for a seller’s decision about an account: that is followed at the account.",
}
_SKIPPABLE = (S.QUEUED, *WAITING)
_WHY_NOT = {
    S.RECEIVED: "It is not its turn yet: what it depends on has not ended.",
    S.EXECUTING: "A worker runs it now.",
}


def can_be_skipped(step: Step) -> bool:
    """Whether it waits for something, for its next try or for a worker, and the job can do without it."""
    return step.status in _SKIPPABLE and not _missed_by(step)


def _missed_by(step: Step) -> list[str]:
    """Who could not go on without what the step finds. An item is only counted."""
    return [] if step.fan_out_id else Recipe.stored(step.job.plan).missed_by(step.key)


def step_skip(*, step_id: uuid.UUID, actor: Who, reason: str) -> Job:
    """Count a step as done without its result (`skipped: true`; over a list, with what was done of it),
    and let the job go on. What it waited for is called off: open questions, what was not sent, items, nested
    jobs; what has left stays with the seller.

    Raises JobRefusedError: no right, no reason, its state does not allow it, or others need what it finds.
    """
    _check(actor, reason, "skipped")
    with transaction.atomic():
        job, step = _skipped(step_id, actor, reason.strip())
    mine = Step.objects.filter(Q(pk=step.pk) | Q(fan_out=step), child_job__isnull=False)
    for one in mine.select_related("job"):
        children_end(step=one, reason=f"{step.key} was skipped", actor=actor)
    return job


def _skipped(step_id: uuid.UUID, actor: Who, reason: str) -> tuple[Job, Step]:
    seen = Step.objects.get(pk=step_id)
    _refuse_unskippable(seen)
    waits_withdraw([seen, *_open_items(seen)], reason, actor=actor)
    job = engine.locked_job(seen.job_id)
    rows = Step.objects.select_for_update(no_key=True, of=("self",)).select_related("job")
    step = rows.get(pk=step_id)
    _refuse_unskippable(step)
    for item in _open_items(step).select_for_update(no_key=True):
        changes = {"ended_at": clock.now(), "ready_at": None, "lease_until": None}
        why = f"{step.key} was skipped"
        transition(item, S.CANCELLED, actor=actor, reason=why, changes=changes, rights=(STEER_JOB,))
        events.record(job, "step.abandoned", step=item)
    events.record(job, "step.skipped", step=step, source=actor_key(actor), payload={"reason": reason})
    engine.skip(job, step, actor=actor, reason=f"Skipped: {reason}"[:500])
    return job, step


def _open_items(step: Step) -> QuerySet[Step]:
    return Step.objects.filter(fan_out=step).exclude(status__in=STEP_ENDED).order_by("id")


def _refuse_unskippable(step: Step) -> None:
    if step.status not in _SKIPPABLE:
        raise JobRefusedError(_WHY_NOT.get(S(step.status), f"It is {step.status} already."))
    missed = _missed_by(step)
    if missed:
        raise JobRefusedError(f"What it finds is needed: {', '.join(missed)}. Cancel the job instead.")


def can_be_given(step: Step) -> bool:
    """Whether a person may give the step what it waits for: an event from outside."""
    return step.status in WAITING and wait_type(step.waiting_for) == WaitType.EVENT


def step_input_give(*, step_id: uuid.UUID, payload: dict[str, Any], actor: Who, reason: str) -> Job:
    """Give a step the event that it waits for, as if it had come from outside: its action runs again and
    finds `payload`. Another step that waits for the same name is not touched.

    Raises JobRefusedError: no right, no reason, it waits for nothing that can be given, or for it no more.
    """
    _check(actor, reason, "given")
    with transaction.atomic():
        step = Step.objects.select_related("job").get(pk=step_id)
        if not can_be_given(step):
            raise JobRefusedError(
                _GIVEN_ELSEWHERE.get(_awaits(step), "It waits for nothing that can be given.")
            )
        if not event_give(step=step, payload=payload, actor=actor):
            raise JobRefusedError("What it waits for has come already.")
        told = {"reason": reason.strip()}
        events.record(step.job, "step.input", step=step, source=actor_key(actor), payload=told)
    return step.job


def _awaits(step: Step) -> str:
    return wait_type(step.waiting_for) if step.status in WAITING else ""


def job_priority_set(*, job_id: uuid.UUID, priority: int, actor: Who, reason: str) -> Job:
    """Give a job, its steps that have not ended and the jobs nested in it another turn: the lower number goes
    first. Answers the job.

    Raises JobRefusedError: no right, no reason, it has ended, or `priority` is not from 0 to 32,767.
    """
    _check(actor, reason, "moved")
    if not 0 <= priority <= MOST_PRIORITY:
        raise JobRefusedError(f"A priority is a number from 0 to {MOST_PRIORITY:,}.")
    job = _prioritised(job_id, priority, actor, reason.strip())
    if job is None:
        raise JobRefusedError("It has ended already.")
    level = [job.pk]
    while level:
        below = Job.objects.filter(parent_step__job__in=level, ended_at__isnull=True)
        level = list(below.order_by("id").values_list("pk", flat=True))
        for child in level:
            _prioritised(child, priority, actor, reason.strip())
    return job


@transaction.atomic
def _prioritised(job_id: uuid.UUID, priority: int, actor: Who, reason: str) -> Job | None:
    job = engine.locked_job(job_id)
    if job.status in JOB_ENDED:
        return None
    events.record(
        job,
        "job.priority",
        source=actor_key(actor),
        payload={"from": job.priority, "to": priority, "reason": reason},
        occurrence=f":{uuid.uuid4().hex}",
    )
    job.priority = priority
    Job.objects.filter(pk=job.pk).update(priority=priority)
    still = Step.objects.filter(job=job).exclude(status__in=STEP_ENDED).order_by("id")
    locked = still.select_for_update(no_key=True).values_list("pk", flat=True)
    Step.objects.filter(pk__in=list(locked)).update(priority=priority)
    turns_prioritise(job.subject_id or job.pk, priority)
    return job


def _check(actor: Who, reason: str, done: str) -> None:
    if not may_steer(actor):
        raise JobRefusedError("You have no right to steer jobs.")
    if not reason.strip():
        raise JobRefusedError(f"Say why it is {done}.")
