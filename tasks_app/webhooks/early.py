"""Deliveries that came before the reply they belong to: kept, and applied once the reply binds the task."""

from __future__ import annotations

from django.db import transaction

from tasks_app.adcp.webhook_body import read_webhook
from tasks_app.operations.converge import observe, on_bound
from tasks_app.operations.models import Channel, Operation
from tasks_app.operations.publish import publish
from tasks_app.operations.sweep import chore_register
from tasks_app.webhooks.authenticate import nonces_forget
from tasks_app.webhooks.models import WebhookDelivery


def register() -> None:
    """Called when the application starts."""
    on_bound(early_apply)
    chore_register("nonces_forgotten", nonces_forget)


def early_apply(operation: Operation) -> None:
    """Observe the deliveries that waited for this operation's task_id, in the order they came."""
    waiting = WebhookDelivery.objects.filter(
        seller=operation.seller, task_id=operation.task_id, verdict=WebhookDelivery.Verdict.EARLY
    )
    for delivery_id in list(waiting.order_by("id").values_list("pk", flat=True)):
        _apply(operation, delivery_id)
    publish(operation_id=operation.pk)


@transaction.atomic
def _apply(operation: Operation, delivery_id: object) -> None:
    delivery = (
        WebhookDelivery.objects.select_for_update(of=("self",))
        .filter(pk=delivery_id, verdict=WebhookDelivery.Verdict.EARLY)
        .first()
    )
    if delivery is None or delivery.body is None:
        return
    _, seen = read_webhook(delivery.body)
    observation = observe(operation_id=operation.pk, seen=seen, channel=Channel.WEBHOOK)
    delivery.verdict = WebhookDelivery.Verdict.APPLIED
    delivery.reason = f"came early; {observation.outcome}"
    delivery.save(update_fields=["verdict", "reason"])
