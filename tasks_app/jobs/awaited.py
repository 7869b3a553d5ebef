"""What a job's steps wait for, or waited for, read at once: operations, approvals, nested jobs, and what the
events tell of their tries."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tasks_app.approvals.models import Approval
from tasks_app.commands.kill_switch import NO_STOPS, stops_shown
from tasks_app.jobs.models import STEP_ENDED, WAITING, Job, Step, WorkflowEvent
from tasks_app.jobs.waits import Awaited
from tasks_app.operations.answer_stages import answers_of
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import SELLER_HEAVY

_EVENTS = 2000  # the latest that tell of waits and tries
_OPERATIONS = 200  # shown, pending or completed


@dataclass(frozen=True, kw_only=True)
class AwaitedOperation:
    """An operation that a step waits, or waited, for: `task_id` is the seller's name for it."""

    id: uuid.UUID
    reference: str
    task_type: str
    seller: str
    status: str
    task_id: str
    step: str
    since: datetime | None
    deadline_at: datetime | None
    settled_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Told:
    """What events tell of one step: tries `lost` with their workers, the last try's `error`, why a person
    `skipped` it, the operations it slept for."""

    key: str = ""
    lost: int = 0
    error: str = ""
    skipped: str = ""
    operations: tuple[str, ...] = ()


def awaited_by(steps: Iterable[Step]) -> Awaited:
    """The rows that these steps wait for now, in at most four queries; where something pauses, in six."""
    rows = list(steps)
    waits = [step.waiting_for for step in rows if step.waiting_for and step.status not in STEP_ENDED]
    operations = {wait["id"] for wait in waits if wait["type"] == "operation"}
    approvals = {pk for wait in waits if wait["type"] == "approvals" for pk in wait["ids"]}
    found = _operations(operations)
    return Awaited(
        operations=found,
        answers=answers_of(found.values()),
        approvals={str(one.pk): one for one in Approval.objects.filter(pk__in=approvals)}
        if approvals
        else {},
        children={
            child.parent_step_id: child
            for child in Job.objects.filter(parent_step__in=rows).defer("plan", "inputs", "outputs")
            if child.parent_step_id is not None
        },
        stops=stops_shown() if operations or approvals else NO_STOPS,
    )


def told_of(job: Job) -> dict[str, Told]:
    """What the job's latest 2,000 events of waits, take-overs and skips tell, by step id."""
    rows = WorkflowEvent.objects.filter(job=job, type__in=("step.waiting", "step.taken_over", "step.skipped"))
    told: dict[str, Told] = {}
    latest = rows.order_by("-id").values_list("type", "correlation", "payload")[:_EVENTS]
    for kind, correlation, payload in reversed(list(latest)):
        step = correlation["step_id"]
        before = told.get(step, Told(key=correlation["step"]))
        told[step] = Told(
            key=before.key,
            lost=before.lost + (kind == "step.taken_over"),
            error=str(payload.get("error", "")) if payload.get("type") == "backoff" else before.error,
            skipped=payload["reason"] if kind == "step.skipped" else before.skipped,
            operations=(*before.operations, payload["id"])
            if payload.get("type") == "operation"
            else before.operations,
        )
    return told


def operations_of(
    job: Job, told: Mapping[str, Told]
) -> tuple[tuple[AwaitedOperation, ...], tuple[AwaitedOperation, ...]]:
    """The operations that the job's steps wait for now, and those they have waited for; the latest 200."""
    by_operation = {pk: one.key for one in told.values() for pk in one.operations}
    asleep = Step.objects.filter(
        job=job, status__in=WAITING, ready_at__isnull=True, waiting_for__contains={"type": "operation"}
    )
    pending = {wait["id"] for wait in asleep.values_list("waiting_for", flat=True)[:_OPERATIONS] if wait}
    found = _operations(set(sorted(by_operation)[-_OPERATIONS:]) | pending)
    shown = [
        (pk in pending, _awaited_operation(one, by_operation.get(pk, "")))
        for pk, one in sorted(found.items())
    ]
    return tuple(one for now, one in shown if now), tuple(one for now, one in shown if not now)


def _operations(ids: Iterable[str]) -> dict[str, Operation]:
    wanted = set(ids)
    if not wanted:
        return {}
    rows = Operation.objects.filter(pk__in=wanted).select_related("seller").defer(*SELLER_HEAVY)
    return {str(one.pk): one for one in rows.defer("request_text", "webhook_token", "request", "result")}


def _awaited_operation(operation: Operation, step: str) -> AwaitedOperation:
    return AwaitedOperation(
        id=operation.pk,
        reference=operation.reference,
        task_type=operation.task_type,
        seller=operation.seller.name,
        status=operation.status,
        task_id=operation.task_id,
        step=step,
        since=operation.sent_at,
        deadline_at=operation.deadline_at,
        settled_at=operation.settled_at,
    )
