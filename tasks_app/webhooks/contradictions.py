"""A delivery key used again with another body: neither redefines it, and people are told."""

from __future__ import annotations

from typing import Any

from tasks_app.notifications.services import About, notify
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.conflicts import conflict_open
from tasks_app.operations.models import Channel, Operation
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.webhooks.models import WebhookDelivery


def key_conflict(*, operation: Operation | None, first: WebhookDelivery, second: WebhookDelivery) -> None:
    """Keep both bodies for people, in the caller's transaction; without an operation Ad Ops are told."""
    if operation is not None:
        conflict_open(
            operation=operation,
            kind=Conflict.Kind.KEY,
            first=_said(first),
            second=_said(second),
            note="the same delivery key with another body",
        )
        return
    notify(
        kind="delivery_key_conflict",
        title=f"{second.seller} used a delivery key for two different bodies",
        body="Both are kept among the deliveries; the first stands. It is about no operation that we know.",
        level="warning",
        about=About(type="webhookdelivery", id=second.pk),
        right=STEER_OPERATION,
        key=f"delivery_key_conflict:{first.pk}:{second.fingerprint}",
    )


def _said(delivery: WebhookDelivery) -> dict[str, Any]:
    body = delivery.body if isinstance(delivery.body, dict) else {}
    return {
        "channel": Channel.WEBHOOK,
        "at": delivery.at,
        "status": delivery.status,
        "task_id": delivery.task_id,
        "value": body.get("result"),
        "body": delivery.body,
    }
