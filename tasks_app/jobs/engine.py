"""The graph's operations, each one action and one commit (document 001, section 6.3.3).

Lock order: job, then steps by id. Completions of one job are serialised by its row, so the last of
several parallel steps always sees the others ended.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from django.db import transaction

from tasks_app import clock, ids
from tasks_app.jobs import events
from tasks_app.jobs.models import (
    JOB_ENDED,
    STEP_ENDED,
    Edge,
    Job,
    JobStatus,
    Step,
    StepStatus,
)
from tasks_app.jobs.recipes import StepSpec, recipe_named
from tasks_app.jobs.scope import scope_of
from tasks_app.jobs.templates import TemplateFailedError, resolve
from tasks_app.jobs.wake import wake
from tasks_app.lifecycle.references import next_reference
from tasks_app.lifecycle.transitions import Who, create, create_many, transition
from tasks_app.people.actors import SYSTEM, actor_key
from tasks_app.people.models import Team

S = StepStatus
_ended: list[Callable[[Job], None]] = []


def on_job_ended(listener: Callable[[Job], None]) -> None:
    """Call `listener(job)` in the commit that ends a job, however it ends; it writes rows only."""
    if listener not in _ended:
        _ended.append(listener)


@transaction.atomic
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
) -> Job:
    """A recipe becomes rows in one commit: job, steps, edges, incoming counts. Raises RecipeError."""
    plan = recipe_named(recipe)
    job = Job(
        reference=next_reference("JOB"),
        recipe=plan.name,
        recipe_version=plan.version,
        recipe_digest=plan.digest,
        plan=plan.model_dump(mode="json"),
        inputs=inputs,
        team=team,
        requested_by=actor_key(actor),
        subject_type=subject_type,
        subject_id=subject_id,
        parent_step=parent_step,
        priority=priority,
    )
    create(job, actor=actor, reason=f"{plan.title} started")
    steps = {
        spec.id: Step(
            id=ids.new_id(),
            job=job,
            key=spec.id,
            spec=spec.model_dump(mode="json"),
            incoming=len(spec.after),
            priority=priority,
        )
        for spec in plan.steps
    }
    create_many(steps.values(), actor=SYSTEM, reason="Planned")
    Edge.objects.bulk_create(
        Edge(before=steps[before], after=steps[spec.id]) for spec in plan.steps for before in spec.after
    )
    events.record(job, "job.planned", payload={"steps": list(steps)})
    transition(job, JobStatus.QUEUED, actor=SYSTEM)
    _release(job, [step for step in steps.values() if step.incoming == 0])
    return job


@transaction.atomic
def mark_complete(*, step: Step, outputs: dict[str, Any]) -> bool:
    """Finish a step and release its successors; False for the late result of a superseded attempt."""
    job = locked_job(step.job_id)
    current = _mine(step)
    if current is None:
        return False
    _complete(job, current, outputs)
    return True


@transaction.atomic
def mark_failed(*, step: Step, error: str) -> bool:
    """Fail a step for good: what depends on it is cancelled, independent branches go on."""
    job = locked_job(step.job_id)
    current = _mine(step)
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
    current = _mine(step)
    if current is None:
        return False
    ready_at = clock.now() if over else clock.now() + ready_in if ready_in is not None else None
    changes: dict[str, Any] = {"waiting_for": waiting_for, "lease_until": None, "ready_at": ready_at}
    if failures is not None:
        changes["failures"] = failures
    transition(current, status, actor=SYSTEM, reason=reason, changes=changes)
    events.record(current.job, "step.waiting", step=current, payload=waiting_for)
    if over:
        wake()
    return True


def resume(*, waiting_for: dict[str, Any]) -> int:
    """Wake the steps that wait for exactly this, in the caller's commit. Answers how many."""
    woken = Step.objects.filter(
        status__in=(S.AWAITING_TOOL, S.AWAITING_USER),
        waiting_for__contains=waiting_for,
        ready_at__isnull=True,
    ).update(ready_at=clock.now())
    if woken:
        wake()
    return woken


@transaction.atomic
def expand(*, step: Step, items: list[Any]) -> bool:
    """Fan a for_each step out: one step per item; the step itself sleeps until all have ended."""
    job = locked_job(step.job_id)
    current = _mine(step)
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
        )
        for i, item in enumerate(items)
    ]
    create_many(made, actor=SYSTEM, reason=f"One of {len(made)}")
    transition(
        current,
        S.AWAITING_TOOL,
        actor=SYSTEM,
        reason=f"{len(made)} in parallel",
        changes={"waiting_for": {"type": "items", "count": len(made)}, "lease_until": None},
    )
    events.record(job, "step.expanded", step=current, payload={"items": len(made)})
    _release(job, made)
    return True


def locked_job(job_id: uuid.UUID) -> Job:
    return Job.objects.select_for_update(no_key=True).select_related("team").get(pk=job_id)


def _mine(step: Step) -> Step | None:
    """The stored step, locked, if this attempt still owns it."""
    current = Step.objects.select_for_update(no_key=True, of=("self",)).select_related("job").get(pk=step.pk)
    if current.status != S.EXECUTING or current.attempts != step.attempts:
        events.record(current.job, "step.late_result", step=step, occurrence=f":{uuid.uuid4().hex[:8]}")
        return None
    return current


def _complete(job: Job, step: Step, outputs: dict[str, Any], *, skipped: bool = False) -> None:
    transition(
        step,
        S.COMPLETED,
        actor=SYSTEM,
        reason="Skipped: its condition is not met" if skipped else "Done",
        changes={
            "outputs": outputs,
            "ended_at": clock.now(),
            "lease_until": None,
            "waiting_for": None,
            "ready_at": None,
            "skipped": skipped,
        },
    )
    events.record(job, "step.completed", step=step)
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
        _abandon_successors(job, step)
    _after_end(job, step)


def _after_end(job: Job, step: Step) -> None:
    if step.fan_out_id is not None:
        _join(job, step)
    elif step.status == S.COMPLETED or step.spec["optional"]:
        _release_successors(job, step)
    _end_job_if_over(job)


def _release_successors(job: Job, step: Step) -> None:
    successors = list(
        Step.objects.filter(edges_in__before=step, status=S.RECEIVED)
        .select_related("job")
        .order_by("id")
        .select_for_update(of=("self",), no_key=True)
    )
    for successor in successors:
        successor.incoming -= 1
    Step.objects.bulk_update(successors, ["incoming"])
    _release(job, [s for s in successors if s.incoming == 0])


def _release(job: Job, steps: Iterable[Step]) -> None:
    """Queue steps whose predecessors have all ended; those whose condition is not met end as skipped."""
    released = False
    for step in steps:
        transition(step, S.QUEUED, actor=SYSTEM, reason="Ready", changes={"ready_at": clock.now()})
        events.record(job, "step.queued", step=step)
        spec = StepSpec.model_validate(step.spec)
        if spec.condition and step.fan_out_id is None and not _holds(job, step, spec):
            _skip(job, step)
            continue
        released = True
    if released:
        wake()


def _holds(job: Job, step: Step, spec: StepSpec) -> bool:
    try:
        return bool(resolve(spec.condition, scope_of(job, step)))
    except TemplateFailedError:
        return True  # the step itself then fails (worker._execute), naming the expression


def _skip(job: Job, step: Step) -> None:
    transition(step, S.EXECUTING, actor=SYSTEM, reason="Skipped without a worker", changes={"ready_at": None})
    _complete(job, step, {"skipped": True}, skipped=True)


def _join(job: Job, item: Step) -> None:
    """The last item of a fan-out completes, or fails, the step that fanned out."""
    found = Step.objects.filter(items=item).select_related("job")
    whole = found.select_for_update(of=("self",), no_key=True).get()
    items = list(whole.items.order_by("item_index"))
    if whole.status != S.AWAITING_TOOL or any(one.status not in STEP_ENDED for one in items):
        return
    transition(whole, S.EXECUTING, actor=SYSTEM, reason="All items have ended")
    failed = [one for one in items if one.status == S.FAILED]
    if failed and not whole.spec["optional"]:
        _fail(job, whole, f"{failed[0].key}: {failed[0].error}")
        return
    _complete(job, whole, {"results": [one.outputs for one in items if one.status == S.COMPLETED]})


def _abandon_successors(job: Job, step: Step) -> None:
    """Cancel everything that depends on `step`, level by level: a step may be reached on several ways."""
    behind = [step.pk]
    while behind:
        after = Edge.objects.filter(before__in=behind).values("after")
        level = Step.objects.filter(pk__in=after, status=S.RECEIVED).order_by("id")
        behind = []
        for successor in level.select_for_update(no_key=True):
            transition(
                successor,
                S.CANCELLED,
                actor=SYSTEM,
                reason=f"{step.key} failed",
                changes={"ended_at": clock.now()},
            )
            events.record(job, "step.abandoned", step=successor)
            behind.append(successor.pk)


def _end_job_if_over(job: Job) -> None:
    if job.status in JOB_ENDED or job.steps.exclude(status__in=STEP_ENDED).exists():
        return
    failed = job.steps.filter(status=S.FAILED, fan_out=None, spec__optional=False).first()
    if failed is not None:
        _end_job(job, JobStatus.FAILED, error=f"{failed.key}: {failed.error}")
        return
    try:
        outputs = resolve(job.plan["outputs"], scope_of(job, None))
    except TemplateFailedError as error:
        _end_job(job, JobStatus.FAILED, error=f"outputs: {error}")
        return
    if job.status == JobStatus.QUEUED:  # every step was skipped: no worker took any
        transition(job, JobStatus.DISPATCHING, actor=SYSTEM)
    _end_job(job, JobStatus.COMPLETED, outputs=outputs)


def _end_job(job: Job, to: str, **changes: Any) -> None:
    transition(
        job,
        to,
        actor=SYSTEM,
        reason=changes.get("error", "")[:500],
        changes={**changes, "ended_at": clock.now()},
    )
    events.record(job, f"job.{job.status.lower()}")
    for listener in _ended:
        listener(job)
    if job.parent_step_id is not None:
        resume(waiting_for={"type": "job", "id": str(job.pk)})
