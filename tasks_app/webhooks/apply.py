"""What one authenticated delivery does to the operation it is about, at once or once its task is known."""

from __future__ import annotations

from tasks_app.adcp.types import Seen
from tasks_app.adcp.webhook_body import WebhookEnvelope
from tasks_app.operations.converge import observe
from tasks_app.operations.models import Channel, Observation, Operation
from tasks_app.webhooks.contradictions import type_conflict
from tasks_app.webhooks.models import WebhookDelivery

Verdict = WebhookDelivery.Verdict


def delivery_apply(
    *, delivery: WebhookDelivery, operation: Operation, envelope: WebhookEnvelope, seen: Seen, note: str = ""
) -> None:
    """Observe and keep the verdict, in the caller's transaction. A repeated observation is applied too: the
    key stays bound to this body (AdCP L3/async-identity-and-convergence, "Webhook delivery-key binding")."""
    told = envelope.task_type
    if told and told != operation.task_type:
        delivery.verdict, delivery.reason = Verdict.CONFLICT, f"tells of {told}, not {operation.task_type}"
    else:
        observation = observe(operation_id=operation.pk, seen=seen, channel=Channel.WEBHOOK)
        conflict = observation.outcome == Observation.Outcome.CONFLICT
        delivery.verdict = Verdict.CONFLICT if conflict else Verdict.APPLIED
        delivery.reason = f"{observation.outcome}: {observation.note}".rstrip(": ")
    delivery.reason = f"{note}{delivery.reason}"[:200]
    if isinstance(seen.raw, dict):
        delivery.body = seen.raw
    delivery.save(update_fields=["verdict", "reason", "body"])
    if told and told != operation.task_type:
        type_conflict(operation=operation, delivery=delivery)
