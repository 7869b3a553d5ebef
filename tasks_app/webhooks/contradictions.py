"""A delivery key used again with another body: neither redefines it, and people are told; and an operation of
which no more contradictions are kept."""

from __future__ import annotations

from typing import Any

from tasks_app import clock
from tasks_app.days import day_of
from tasks_app.notifications.services import About, notify
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.conflicts import conflict_open
from tasks_app.operations.models import Channel, Operation
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.webhooks.models import WebhookDelivery


def key_conflict(*, operation: Operation | None, first: WebhookDelivery, second: WebhookDelivery) -> None:
    """Ask people, in the caller's transaction; without an operation Ad Ops are told, once a day of a
    seller: the keys are its own, and as many as it likes."""
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
        body="The first stands. The first that differs is kept beside it among the deliveries, where the "
        "seller has room; further ones are counted. It is about no operation that we know. Of other keys "
        "that it uses so today nothing more is told; they are there too.",
        level="warning",
        about=About(type="webhookdelivery", id=first.pk),
        right=STEER_OPERATION,
        key=f"delivery_key_conflict:{second.seller_id}:{day_of(clock.now(), 'UTC')}",
    )


def conflicts_full(operation: Operation) -> None:
    """Tell its people once, in the caller's transaction, that what else contradicts it is only counted."""
    notify(
        kind="delivery_conflicts_full",
        title=f"{operation.seller} contradicts itself about {operation.reference} more than is kept",
        body="What people are asked to decide is kept whole, and so is what came first of the rest. Of "
        "further deliveries that contradict it the words are not kept: when they came, and with which "
        "status, stands among the deliveries. Ask the seller why it says ever other things.",
        level="warning",
        about=About(type="operation", id=operation.pk),
        team=operation.team,
        right="" if operation.team else STEER_OPERATION,
        key=f"delivery_conflicts_full:{operation.pk}",
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
