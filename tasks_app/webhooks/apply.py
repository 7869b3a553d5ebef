"""What one authenticated delivery does to the operation it is about: at once, or later, where it came in a
burst or before its task was known."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import connection, transaction

from tasks_app.adcp.types import Seen
from tasks_app.adcp.webhook_body import read_webhook
from tasks_app.operations.converge import observe, observe_many
from tasks_app.operations.models import Channel, Observation, Operation
from tasks_app.operations.services import operation_secrets
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.models import WebhookDelivery

Verdict = WebhookDelivery.Verdict
_NEEDED = ("task_type", "webhook_token", *(f"seller__{field.name}" for field in Seller._meta.concrete_fields))
_KEPT = ["verdict", "reason", "operation"]
_NOTE = {Verdict.EARLY: "came early; ", Verdict.RECEIVED: ""}


def delivery_apply(*, delivery: WebhookDelivery, operation: Operation, seen: Seen, note: str = "") -> None:
    """Observe and keep the verdict, in the caller's transaction. A repeated observation is applied too: the
    key stays bound to this body (AdCP L3/async-identity-and-convergence, "Webhook delivery-key binding")."""
    observation = observe(operation_id=operation.pk, seen=seen, channel=Channel.WEBHOOK)
    _take(delivery, operation, observation, note)
    delivery.save(update_fields=_KEPT)


def _take(delivery: WebhookDelivery, operation: Operation, observation: Observation, note: str) -> None:
    """Put what became of it on the delivery, unsaved."""
    conflict = observation.outcome == Observation.Outcome.CONFLICT
    delivery.verdict = Verdict.CONFLICT if conflict else Verdict.APPLIED
    delivery.reason = f"{note}{observation.outcome}: {observation.note}".rstrip(": ")[:200]
    delivery.operation = operation


def _hide(delivery: WebhookDelivery, operation: Operation, seen: Seen) -> None:
    """Take our token out of what was kept before it was known whose it is. Nothing else of what a delivery
    said changes: the owner's function hides a token, and no other statement does."""
    if seen.raw == delivery.body or not operation.webhook_token:
        return
    with connection.cursor() as cursor:
        cursor.execute("select fd_delivery_hide(%s, %s)", [delivery.pk, operation.webhook_token])


@transaction.atomic
def waiting_apply(*, operation_id: uuid.UUID, delivery_id: uuid.UUID) -> bool:
    """Let one kept delivery have its effect; False when another process did."""
    # Operation, then delivery: the order of a delivery that binds the task while others wait for it.
    operation = (
        Operation.objects.select_related("seller")
        .select_for_update(of=("self",), no_key=True)
        .get(pk=operation_id)
    )
    delivery = (
        WebhookDelivery.objects.select_for_update(of=("self",))
        .filter(pk=delivery_id, verdict__in=_NOTE)
        .first()
    )
    if delivery is None or delivery.body is None:
        return False
    seen = _reread(delivery.body, operation)
    _hide(delivery, operation, seen)
    note = _NOTE[Verdict(delivery.verdict)]
    delivery_apply(delivery=delivery, operation=operation, seen=seen, note=note)
    return True


@transaction.atomic
def received_apply_many(waiting: Mapping[uuid.UUID, uuid.UUID]) -> list[uuid.UUID]:
    """Let deliveries received of different operations (`waiting`: operation to delivery) have their effects
    in one commit with few statements. Answers the operations; those that somebody holds are left out. Raises
    what one of them raises, and then has recorded nothing."""
    locked = Operation.objects.select_related("seller").only(*_NEEDED)
    locked = locked.select_for_update(of=("self",), no_key=True, skip_locked=True).order_by("pk")
    operations = {operation.pk: operation for operation in locked.filter(pk__in=waiting)}
    kept = WebhookDelivery.objects.select_for_update(of=("self",)).filter(
        operation__in=operations, pk__in=waiting.values(), verdict=Verdict.RECEIVED, body__isnull=False
    )
    deliveries = {delivery.operation_id: delivery for delivery in kept.order_by("pk")}
    sights = {
        pk: _reread(delivery.body or {}, operations[pk])
        for pk, delivery in deliveries.items()
        if pk is not None
    }
    for pk, seen in sights.items():
        _hide(deliveries[pk], operations[pk], seen)
    for observation in observe_many({pk: (seen, Channel.WEBHOOK) for pk, seen in sights.items()}):
        pk = observation.operation_id
        _take(deliveries[pk], operations[pk], observation, "")
    WebhookDelivery.objects.bulk_update(list(deliveries.values()), _KEPT)
    return list(sights)


def _reread(body: dict[str, Any], operation: Operation) -> Seen:
    """What is kept was read once: an old body stands there under today's names."""
    return read_webhook(
        body,
        task_type=operation.type_asked,
        secrets=operation_secrets(operation),
        old=True,
        any_status=True,
    )[1]
