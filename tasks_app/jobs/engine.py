"""The graph's operations, each one action and one commit (document 001, section 6.3.3).

Lock order: job, then steps by id. Completions of one job are serialised by its row, so the last of
several parallel steps always sees the others ended.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F

from tasks_app import clock, ids
from tasks_app.jobs import calls, events
from tasks_app.jobs.abandoning import abandon_successors
from tasks_app.jobs.adoption import adopt, items_tied
from tasks_app.jobs.models import (
    Job,
    JobStatus,
    Step,
    StepStatus,
)
from tasks_app.jobs.over import end_if_over, recipes_told
from tasks_app.jobs.retries import Code
from tasks_app.jobs.scope import scope_of
from tasks_app.jobs.templates import TemplateFailedError, resolve
from tasks_app.jobs.wake import wake
from tasks_app.lifecycle import guards
from tasks_app.lifecycle.errors import StaleVersionError
from tasks_app.lifecycle.transitions import Who, create_many, transition, transition_many
from tasks_app.people.actors import SYSTEM

S = StepStatus
# Singly where so few move: a statement for many costs as much as two of one.
_MANY = 3


def mark_complete(*, step: Step, outputs: dict[str, Any]) -> bool:
    """Finish a step and release its successors; False for the late result of a superseded attempt."""
    completion = mark_complete_many([calls.Ended(step=step, outputs=outputs)])
    return completion.done[0] or complete_apart(step=step, outputs=outputs)


def mark_complete_many(
    ended: Sequence[calls.Ended], *, wanted: calls.Wanted | None = None
) -> calls.Completion:
    """Finish steps and claim the next ones, in one commit. What the answer tells to be not done is left to
    `complete_apart()`."""
    completion = calls.steps_done(ended, told=recipes_told(), wanted=wanted)
    if completion.released:
        wake(completion.released)
    return completion


@transaction.atomic
def mark_running(*, job_id: uuid.UUID, wait: bool = True) -> bool:
    """QUEUED → DISPATCHING → PROCESSING with the first step. False where somebody holds the job that is not
    to be waited for: it comes before its steps in the order of locks."""
    job = locked_job(job_id) if wait else _free_job(job_id)
    if job is None:
        return False
    if job.status == JobStatus.QUEUED:
        transition(job, JobStatus.DISPATCHING, actor=SYSTEM)
    if job.status == JobStatus.DISPATCHING:
        transition(job, JobStatus.PROCESSING, actor=SYSTEM)
    return True


@transaction.atomic
def complete_apart(*, step: Step, outputs: dict[str, Any]) -> bool:
    """`mark_complete()` move by move: what needs an expression, or a guard's word."""
    job = locked_job(step.job_id)
    current = _mine(step, {"outputs": outputs})
    if current is None:
        return False
    _complete(job, current, outputs)
    return True


def _count_active(job: Job, steps: int) -> None:
    """So many steps of the graph itself more, or fewer, are under way."""
    Job.objects.filter(pk=job.pk).update(active_steps=F("active_steps") + steps)


@transaction.atomic
def mark_failed(*, step: Step, error: str) -> bool:
    """Fail a step for good: what depends on it is cancelled, independent branches go on."""
    job = locked_job(step.job_id)
    current = _mine(step, {"error": error})
    if current is None:
        return False
    _fail(job, current, error)
    return True


@transaction.atomic
def mark_waiting(
    *,
    step: Step,
    status: str,
    waiting_for: dict[str, Any],
    reason: str,
    over: bool = False,
    ready_in: timedelta | None = None,
    failures: int | None = None,
) -> bool:
    """Put a step to sleep, holding no worker. `over`: what it waits for has come already (the caller
    holds that row's lock); `ready_in`: it wakes by itself."""
    current = _mine(step, {"waiting_for": waiting_for})
    if current is None:
        return False
    ready_at = clock.now() if over else clock.now() + ready_in if ready_in is not None else None
    changes: dict[str, Any] = {"waiting_for": waiting_for, "lease_until": None, "ready_at": ready_at}
    if failures is not None:
        changes["failures"] = failures
    transition(current, status, actor=SYSTEM, reason=reason, changes=changes)
    events.record(current.job, "step.waiting", step=current, payload=waiting_for)
    if over:
        wake([current.lane])
    return True


@transaction.atomic
def expand(*, step: Step, items: list[Any]) -> bool:
    """Fan a for_each step out: one step per item; the step itself sleeps until all have ended."""
    job = locked_job(step.job_id)
    current = _mine(step, {"items": len(items)})
    if current is None:
        return False
    if not items:
        _complete(job, current, {"results": []})
        return True
    made = [
        Step(
            id=ids.new_id(),
            job=job,
            key=f"{step.key}[{i}]",
            spec={**step.spec, "for_each": ""},
            fan_out=current,
            item_index=i,
            item=item,
            priority=step.priority,
            lane=step.lane,
            anew=current.anew,
        )
        for i, item in enumerate(items)
    ]
    adopted = items_tied(current, made)
    create_many(made, actor=SYSTEM, reason=f"One of {len(made)}")
    transition(
        current,
        S.AWAITING_TOOL,
        actor=SYSTEM,
        reason=f"{len(made)} in parallel",
        changes={"waiting_for": {"type": "items", "count": len(made)}, "lease_until": None},
    )
    events.record(job, "step.expanded", step=current, payload={"items": len(made)})
    for one, earlier in adopted:
        adopt(job, one, earlier)
    done = {one.pk for one, _ in adopted}
    left = [one for one in made if one.pk not in done]
    Step.objects.filter(pk=current.pk).update(incoming=len(left))
    release(job, left)
    if not left:
        _end_fan_out(job, current)
    return True


def locked_job(job_id: uuid.UUID) -> Job:
    jobs = Job.objects.select_for_update(no_key=True, of=("self",)).select_related("team")
    return jobs.defer("plan", "inputs").get(pk=job_id)


def _free_job(job_id: uuid.UUID) -> Job | None:
    free = Job.objects.select_for_update(no_key=True, skip_locked=True).defer("plan", "inputs")
    return free.filter(pk=job_id).first()


def still_mine(step: Step, *, late: dict[str, Any] | None = None) -> bool:
    """Whether this attempt still owns the step, which is locked until the caller's commit; else what it came
    to, `late`, is recorded as stale."""
    return _mine(step, late or {}) is not None


def _mine(step: Step, late: dict[str, Any]) -> Step | None:
    """The stored step, locked, if this attempt still owns it; else `late` is recorded as its stale result."""
    steps = Step.objects.select_related("job").defer("job__plan", "job__inputs")
    current = steps.select_for_update(no_key=True, of=("self",)).get(pk=step.pk)
    if current.status != S.EXECUTING or current.attempts != step.attempts:
        again = f":{uuid.uuid4().hex[:8]}"
        events.record(current.job, "step.late_result", step=step, payload=late, occurrence=again)
        return None
    return current


def _complete(
    job: Job,
    step: Step,
    outputs: dict[str, Any],
    *,
    skipped: bool = False,
    actor: Who = SYSTEM,
    reason: str = "Done",
) -> None:
    transition(
        step,
        S.COMPLETED,
        actor=actor,
        reason=reason,
        changes={
            "outputs": outputs,
            "ended_at": clock.now(),
            "lease_until": None,
            "waiting_for": None,
            "ready_at": None,
            "skipped": skipped,
        },
    )
    events.record(job, "step.completed", step=step, payload={"outputs": outputs, "skipped": skipped})
    if step.failures and not skipped:
        events.record(job, Code.SUCCEEDED, step=step, payload={"failures": step.failures})
    if step.spec.get("preview") and job.status == JobStatus.PROCESSING:
        transition(job, JobStatus.PREVIEW, actor=SYSTEM, reason=f"{step.key} is worth a look")
        events.record(job, "job.preview")
    _after_end(job, step)


def _fail(job: Job, step: Step, error: str) -> None:
    transition(
        step,
        S.FAILED,
        actor=SYSTEM,
        reason=error[:500],
        changes={"error": error, "ended_at": clock.now(), "lease_until": None, "ready_at": None},
    )
    events.record(job, "step.failed", step=step, payload={"error": error})
    if not step.spec["optional"] and step.fan_out_id is None:
        abandon_successors(job, step)
    _after_end(job, step)


def _after_end(job: Job, step: Step) -> None:
    if step.fan_out_id is not None:
        _join(job, step)
        return
    if step.status == S.COMPLETED or step.spec["optional"]:
        _release_successors(job, step)
    _count_active(job, -1)
    end_if_over(job)


def _release_successors(job: Job, step: Step) -> None:
    successors = list(
        Step.objects.filter(edges_in__before=step, status=S.RECEIVED)
        .order_by("id")
        .select_for_update(of=("self",), no_key=True)
    )
    for successor in successors:
        successor.incoming -= 1
    Step.objects.bulk_update(successors, ["incoming"])
    release(job, [s for s in successors if s.incoming == 0])


def release(job: Job, steps: Collection[Step]) -> None:
    """Queue steps whose predecessors have all ended; those whose condition is not met end as skipped."""
    judged = [step for step in steps if step.spec.get("condition") and step.fan_out_id is None]
    apart = {step.pk for step in judged}
    plain = [step for step in steps if step.pk not in apart]
    _queue(job, plain)
    skipped = []
    for step in judged:
        _queue(job, [step])
        if not _holds(job, step):
            skipped.append(step)
    for step in skipped:
        _skip(job, step)
    if len(steps) > len(skipped):
        wake((step.lane for step in steps if step not in skipped), with_commit=True)


def _queue(job: Job, steps: Sequence[Step]) -> None:
    _count_active(job, sum(step.fan_out_id is None for step in steps))
    changes = {"ready_at": clock.now()}
    if len(steps) < _MANY or guards.any_on(frozenset({("step", S.RECEIVED, S.QUEUED)})):
        for step in steps:
            transition(step, S.QUEUED, actor=SYSTEM, reason="Ready", changes=changes)
            events.record(job, "step.queued", step=step)
        return
    rows = Step.objects.filter(pk__in=[step.pk for step in steps])
    moved = transition_many(rows, S.QUEUED, actor=SYSTEM, reason="Ready", changes=changes)
    if moved != len(steps):
        raise StaleVersionError("step", "many", S.RECEIVED, S.QUEUED, "some were moved by somebody else")
    events.record_many(job, "step.queued", steps)


def _holds(job: Job, step: Step) -> bool:
    condition = step.spec["condition"]
    try:
        return bool(resolve(condition, scope_of(job, step, condition)))
    except TemplateFailedError:
        return True  # the step itself then fails (worker._prepare), naming the expression


def _skip(job: Job, step: Step) -> None:
    skip(job, step, actor=SYSTEM, reason="Skipped: its condition is not met")


def skip(job: Job, step: Step, *, actor: Who, reason: str) -> None:
    """Count a queued or waiting step as done without a worker, in the caller's commit; it holds both rows.
    One over a list keeps what was done of it; how many are left out is told in the place of `true`."""
    changes = {"ready_at": None, "waiting_for": None}
    transition(step, S.EXECUTING, actor=actor, reason="Skipped without a worker", changes=changes)
    outputs: dict[str, Any] = {"skipped": True}
    if step.spec.get("for_each"):
        items = list(step.items.order_by("item_index").only("status", "skipped", "outputs"))
        results = _results(items)
        outputs = {"results": results, "skipped": len(items) - len(results) or True}
    _complete(job, step, outputs, skipped=True, actor=actor, reason=reason)


def _results(items: Iterable[Step]) -> list[dict[str, Any] | None]:
    """What was done of a list, without what people skipped."""
    return [one.outputs for one in items if one.status == S.COMPLETED and not one.skipped]


def _join(job: Job, item: Step) -> None:
    """Count an item that has ended; the last one ends the step that fanned out."""
    found = Step.objects.filter(items=item).select_related("job").defer("job__plan", "job__inputs")
    whole = found.select_for_update(of=("self",), no_key=True).get()
    whole.incoming -= 1
    Step.objects.filter(pk=whole.pk).update(incoming=whole.incoming)
    if whole.incoming == 0 and whole.status == S.AWAITING_TOOL:
        _end_fan_out(job, whole)


def _end_fan_out(job: Job, whole: Step) -> None:
    """All items have ended: the step completes with their outputs, those that people skipped only counted, or
    fails as the first that failed."""
    transition(whole, S.EXECUTING, actor=SYSTEM, reason="All items have ended")
    items = list(whole.items.order_by("item_index").only("key", "status", "skipped", "outputs", "error"))
    failed = [one for one in items if one.status == S.FAILED]
    if failed and not whole.spec["optional"]:
        _fail(job, whole, f"{failed[0].key}: {failed[0].error}")
        return
    results = _results(items)
    skipped = sum(one.status == S.COMPLETED for one in items) - len(results)
    _complete(job, whole, {"results": results, **({"skipped": skipped} if skipped else {})})
