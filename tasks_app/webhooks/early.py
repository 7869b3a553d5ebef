"""Deliveries that came before the reply they belong to: kept, and applied once the reply binds the task."""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.db import transaction
from django.db.models import OuterRef, Subquery

from tasks_app import clock
from tasks_app.adcp.webhook_body import read_webhook
from tasks_app.operations.converge import on_bound
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish_or_leave
from tasks_app.operations.services import operation_secrets
from tasks_app.operations.sweep import chore_register
from tasks_app.webhooks.apply import delivery_apply
from tasks_app.webhooks.authenticate import nonces_forget
from tasks_app.webhooks.models import WebhookDelivery

# A delivery of a task that nobody knows after this time is of none of ours (AdCP: retry horizon).
_LOOK_BACK = timedelta(hours=24)
_AT_ONCE = 100


def register() -> None:
    """Called when the application starts."""
    on_bound(early_apply)
    chore_register("early_applied", early_apply_due)
    chore_register("nonces_forgotten", nonces_forget)


def early_apply(operation: Operation) -> int:
    """Observe the deliveries that waited for this operation's task_id, in the order they came."""
    waiting = WebhookDelivery.objects.filter(
        seller=operation.seller, task_id=operation.task_id, verdict=WebhookDelivery.Verdict.EARLY
    )
    ids = list(waiting.order_by("id").values_list("pk", flat=True))
    applied = sum(_apply(operation.pk, delivery_id) for delivery_id in ids)
    if applied:
        publish_or_leave(operation_id=operation.pk)
    return applied


def early_apply_due() -> int:
    """Apply what still waits although its task is known: delivery and reply were committed in the same
    moment, or the worker that bound the task was killed. Answers how many."""
    operation = Operation.objects.filter(seller=OuterRef("seller"), task_id=OuterRef("task_id"))
    waiting = WebhookDelivery.objects.filter(
        verdict=WebhookDelivery.Verdict.EARLY, at__gte=clock.now() - _LOOK_BACK
    ).exclude(task_id="")
    known = waiting.annotate(about=Subquery(operation.values("pk")[:1])).filter(about__isnull=False)
    ids = set(known.values_list("about", flat=True)[:_AT_ONCE])
    return sum(early_apply(found) for found in Operation.objects.filter(pk__in=ids).select_related("seller"))


@transaction.atomic
def _apply(operation_id: uuid.UUID, delivery_id: uuid.UUID) -> bool:
    # Operation, then delivery: the order of a delivery that binds the task while others wait for it.
    operation = (
        Operation.objects.select_related("seller")
        .select_for_update(of=("self",), no_key=True)
        .get(pk=operation_id)
    )
    delivery = (
        WebhookDelivery.objects.select_for_update(of=("self",))
        .filter(pk=delivery_id, verdict=WebhookDelivery.Verdict.EARLY)
        .first()
    )
    if delivery is None or delivery.body is None:
        return False
    envelope, seen = read_webhook(delivery.body, secrets=operation_secrets(operation))
    delivery_apply(delivery=delivery, operation=operation, envelope=envelope, seen=seen, note="came early; ")
    return True
