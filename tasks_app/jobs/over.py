"""When a job is over: how it ends, and who is told."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from tasks_app import clock
from tasks_app.jobs import events
from tasks_app.jobs.models import JOB_ENDED, Job, JobStatus, Step
from tasks_app.jobs.models import StepStatus as S
from tasks_app.jobs.scope import scope_of
from tasks_app.jobs.templates import TemplateFailedError, resolve
from tasks_app.jobs.wake import resume
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import Who, transition
from tasks_app.people.actors import SYSTEM

_ended: list[tuple[Callable[[Job], None], str]] = []


def on_job_ended(listener: Callable[[Job], None], *, recipe: str = "") -> None:
    """Call `listener(job)` in the commit that ends a job of `recipe` (empty: any), however it ends; it writes
    rows only. It may refuse, by JobRefusedError, an end that a person's act would bring."""
    if (listener, recipe) not in _ended:
        _ended.append((listener, recipe))


def recipes_told() -> list[str] | None:
    """The recipes whose jobs' ends somebody listens to; None for all."""
    recipes = [recipe for _, recipe in _ended]
    return None if "" in recipes else recipes


def is_complete(*, job_id: uuid.UUID) -> bool:
    """Whether all steps have ended: none is ready, none runs, none waits."""
    return Job.objects.filter(pk=job_id, active_steps=0).exists()


def end_if_over(job: Job) -> None:
    """End a locked job none of whose steps is open any more, in the caller's commit."""
    if job.status in JOB_ENDED or not is_complete(job_id=job.pk):
        return
    failed = job.steps.filter(status=S.FAILED, fan_out=None, spec__optional=False).first()
    if failed is not None:
        end_job(job, JobStatus.FAILED, error=f"{failed.key}: {failed.error}")
        return
    try:
        outputs = resolve(job.plan["outputs"], scope_of(job, None, job.plan["outputs"]))
    except TemplateFailedError as error:
        end_job(job, JobStatus.FAILED, error=f"outputs: {error}")
        return
    if job.status == JobStatus.QUEUED:  # every step was skipped: no worker took any
        transition(job, JobStatus.DISPATCHING, actor=SYSTEM)
    end_job(job, JobStatus.COMPLETED, outputs=outputs)


def job_ender(job: Job) -> str:
    """Who ended a job that has ended, as an actor's key, by its trail."""
    entries = AuditEntry.objects.filter(entity_type="job", entity_id=job.pk, seq=job.version)
    return entries.values_list("actor", flat=True).get()


def step_skipper(job: Job, key: str) -> str:
    """Who skipped a step of a job, as an actor's key, by its trail; empty where nobody did."""
    skipped = Step.objects.filter(job=job, key=key, skipped=True).values("pk")
    entries = AuditEntry.objects.filter(entity_type="step", entity_id__in=skipped, to_status=S.COMPLETED)
    return entries.order_by("-id").values_list("actor", flat=True).first() or ""


def job_beginner(job: Job) -> str:
    """Who started or retried a job, as an actor's key, by its trail."""
    entries = AuditEntry.objects.filter(entity_type="job", entity_id=job.pk, from_status="")
    return entries.values_list("actor", flat=True).get()


def end_job(job: Job, to: str, *, actor: Who = SYSTEM, rights: Sequence[str] = (), **changes: Any) -> None:
    """End a job the caller has locked, however it ends; `changes` are columns, `error` is the reason too,
    `rights` as in `transition`.

    Listeners are told, and the step that a nested job runs for is woken.
    """
    transition(
        job,
        to,
        actor=actor,
        reason=changes.get("error", "")[:500],
        rights=rights,
        changes={**changes, "ended_at": clock.now(), "expires_at": None},
    )
    events.record(job, f"job.{job.status.lower()}", payload=changes)
    for listener, recipe in _ended:
        if recipe in ("", job.recipe):
            listener(job)
    if job.parent_step_id is not None:
        resume(waiting_for={"type": "job", "id": str(job.pk)})
