"""Deliveries that wait: for the reply they belong to (early), or for a worker (received in a burst)."""

from __future__ import annotations

import time
import uuid
from datetime import timedelta

from django.db.models import OuterRef, Subquery

from tasks_app import clock, stopping
from tasks_app.lanes import WorkerLane
from tasks_app.operations.converge import on_bound
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish_or_leave
from tasks_app.operations.sweep import chore_register
from tasks_app.session_locks import session_lock, session_unlock
from tasks_app.waking import wake_workers
from tasks_app.webhooks.apply import waiting_apply
from tasks_app.webhooks.models import WebhookDelivery
from tasks_app.webhooks.nonces import nonces_forget
from tasks_app.webhooks.rates import tallies_forget
from tasks_app.webhooks.retention import deliveries_forget

Verdict = WebhookDelivery.Verdict
# A delivery of a task that nobody knows after this time is of none of ours (AdCP: retry horizon).
_LOOK_BACK = timedelta(hours=24)
_AT_ONCE = 100
_SLICE_S = 20  # a task of the queue takes no more after so long; the next one does
_LOCK = 0xF117_3B57
DRAIN = "tasks_app.webhooks.early.received_drain"


def register() -> None:
    """Called when the application starts."""
    on_bound(early_apply)
    chore_register("early_applied", early_apply_due)
    chore_register("received_woken", received_wake)
    chore_register("nonces_forgotten", nonces_forget)
    chore_register("tallies_forgotten", tallies_forget)
    chore_register("deliveries_forgotten", deliveries_forget)


def early_apply(operation: Operation) -> int:
    """Observe the deliveries that waited for this operation's task_id, in the order they came."""
    waiting = WebhookDelivery.objects.filter(
        seller=operation.seller, task_id=operation.task_id, verdict=Verdict.EARLY
    )
    return _apply(operation.pk, list(waiting.order_by("id").values_list("pk", flat=True)))


def received_apply(operation: Operation) -> int:
    """Observe what was received of this operation in a burst. Answers how many deliveries."""
    waiting = WebhookDelivery.objects.filter(operation=operation.pk, verdict=Verdict.RECEIVED)
    return _apply(operation.pk, list(waiting.order_by("id").values_list("pk", flat=True)))


def early_apply_due() -> int:
    """Apply what still waits although its task is known: delivery and reply were committed in the same
    moment, or the worker that bound the task was killed. Answers how many."""
    operation = Operation.objects.filter(seller=OuterRef("seller"), task_id=OuterRef("task_id"))
    waiting = WebhookDelivery.objects.filter(verdict=Verdict.EARLY, at__gte=clock.now() - _LOOK_BACK).exclude(
        task_id=""
    )
    known = waiting.annotate(about=Subquery(operation.values("pk")[:1])).filter(about__isnull=False)
    ids = set(known.values_list("about", flat=True)[:_AT_ONCE])
    return sum(early_apply(found) for found in Operation.objects.filter(pk__in=ids).select_related("seller"))


def received_wake() -> int:
    """A chore of the sweep: wake a worker of the lane where a burst waits. Answers 1 when it did."""
    if not WebhookDelivery.objects.filter(verdict=Verdict.RECEIVED).exists():
        return 0
    return wake_workers(DRAIN, lane=WorkerLane.WEBHOOKS)


def received_drain() -> int:
    """Apply what was received in bursts until nothing waits, for a while; one process at a time, as two would
    wait for each other's rows. A task of the queue. Answers how many deliveries."""
    if not session_lock(_LOCK):
        return 0
    until, applied = time.monotonic() + _SLICE_S, 0
    try:
        while time.monotonic() < until and not stopping.asked():
            now = received_apply_due()
            if not now:
                break
            applied += now
    finally:
        session_unlock(_LOCK)
    return applied


def received_apply_due() -> int:
    """Apply the oldest of what was received in a burst. Answers how many."""
    waiting = WebhookDelivery.objects.filter(verdict=Verdict.RECEIVED, operation__isnull=False).order_by("id")
    rows = list(waiting.values_list("pk", "operation_id")[:_AT_ONCE])
    return sum(_apply(operation_id, [one]) for one, operation_id in rows if operation_id is not None)


def _apply(operation_id: uuid.UUID, ids: list[uuid.UUID]) -> int:
    applied = sum(waiting_apply(operation_id=operation_id, delivery_id=one) for one in ids)
    if applied:
        publish_or_leave(operation_id=operation_id)
    return applied
