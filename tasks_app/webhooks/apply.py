"""What one authenticated delivery does to the operation it is about: at once, or later, where it came in a
burst or before its task was known."""

from __future__ import annotations

import uuid
from dataclasses import replace

from django.db import transaction

from tasks_app.adcp.types import Seen
from tasks_app.adcp.webhook_body import WebhookEnvelope, read_webhook
from tasks_app.operations.converge import observe
from tasks_app.operations.models import Channel, Observation, Operation
from tasks_app.operations.services import operation_secrets
from tasks_app.webhooks.models import WebhookDelivery

Verdict = WebhookDelivery.Verdict
# Ends that come with a result; a canceled task may have none.
_WITH_RESULT = frozenset({"completed", "failed", "rejected"})
_NOTE = {Verdict.EARLY: "came early; ", Verdict.RECEIVED: ""}


def delivery_apply(
    *, delivery: WebhookDelivery, operation: Operation, envelope: WebhookEnvelope, seen: Seen, note: str = ""
) -> None:
    """Observe and keep the verdict, in the caller's transaction. A repeated observation is applied too: the
    key stays bound to this body (AdCP L3/async-identity-and-convergence, "Webhook delivery-key binding")."""
    incomplete = seen.status in _WITH_RESULT and not envelope.result
    seen = replace(seen, task_type=envelope.task_type, partial=incomplete)
    observation = observe(operation_id=operation.pk, seen=seen, channel=Channel.WEBHOOK)
    conflict = observation.outcome == Observation.Outcome.CONFLICT
    delivery.verdict = Verdict.CONFLICT if conflict else Verdict.APPLIED
    delivery.reason = f"{note}{observation.outcome}: {observation.note}".rstrip(": ")[:200]
    delivery.operation = operation
    if isinstance(seen.raw, dict):
        delivery.body = seen.raw
    delivery.save(update_fields=["verdict", "reason", "body", "operation"])


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
    # What is kept was read once: an old body stands here under today's names.
    envelope, seen = read_webhook(
        delivery.body, secrets=operation_secrets(operation), old=True, any_status=True
    )
    note = _NOTE[Verdict(delivery.verdict)]
    delivery_apply(delivery=delivery, operation=operation, envelope=envelope, seen=seen, note=note)
    return True
