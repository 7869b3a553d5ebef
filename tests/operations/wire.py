"""One result of a task as each channel carries it, read by the parsers that read real sellers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tasks_app import clock
from tasks_app.adcp.envelopes import seen_a2a, seen_mcp
from tasks_app.adcp.meaning import About
from tasks_app.adcp.types import Seen
from tasks_app.adcp.webhook_body import read_webhook
from tasks_app.operations.models import Observation, Operation
from tasks_app.webhooks.apply import delivery_apply
from tasks_app.webhooks.models import WebhookDelivery
from tests.operations.making import fresh, see

Body = dict[str, Any]
_number = itertools.count(1)


def as_floats(value: Any) -> Any:
    """As protobuf's Struct makes it of every number."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return float(value)
    if isinstance(value, dict):
        return {key: as_floats(item) for key, item in value.items()}
    return [as_floats(item) for item in value] if isinstance(value, list) else value


def mcp(data: Body, about: About = "call") -> Seen:
    told = {"content": [{"type": "text", "text": "Done."}], "structuredContent": data}
    return seen_mcp(told, about=about)


def a2a(data: Body, about: About = "call") -> Seen:
    status = {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-09-01T10:00:00Z"}
    parts = [{"text": "Done."}, {"data": as_floats(data)}]
    artifacts = [{"artifactId": "1", "parts": parts}]
    number = next(_number)
    return seen_a2a(
        {
            "task": {
                "id": f"a2a-{number}",
                "contextId": f"c-{number}",
                "status": status,
                "artifacts": artifacts,
            }
        },
        about=about,
    )


def _reply_body(operation: Operation, status: str, result: Body | None) -> Body:
    envelope = {
        "status": status,
        "message": "As you asked.",
        "context_id": "session-1",
        "context": operation.request["context"],
        "timestamp": "2026-09-01T10:00:00Z",
        "replayed": True,
        "adcp_version": "3.2",
    }
    return {**(result or {}), **envelope}


def _poll_body(operation: Operation, status: str, result: Body | None) -> Body:
    head = {
        "status": status,
        "task_id": operation.task_id,
        "task_type": operation.task_type,
        "protocol": "media-buy",
        "created_at": "2026-09-01T10:00:00Z",
        "updated_at": "2026-09-01T11:00:00Z",
        "has_webhook": True,
    }
    return head if result is None else {**head, "result": result}


def webhook_body(operation: Operation, status: str, result: Body | None, **envelope: Any) -> Body:
    body = {
        "idempotency_key": f"whk-{next(_number):016}",
        "notification_id": f"{operation.task_id}.terminal",
        "operation_id": str(operation.pk),
        "task_id": operation.task_id,
        "task_type": operation.task_type,
        "protocol": "media-buy",
        "status": status,
        "timestamp": "2026-09-01T12:00:00Z",
        "message": "It ended.",
        **envelope,
    }
    return body if result is None else {**body, "result": result}


def reply_seen(
    operation: Operation, status: str, result: Body | None, transport: Callable[..., Seen]
) -> Seen:
    return transport(_reply_body(operation, status, result))


def poll_seen(operation: Operation, status: str, result: Body | None, transport: Callable[..., Seen]) -> Seen:
    return transport(_poll_body(operation, status, result), "poll")


def deliver(operation: Operation, body: Body) -> Observation:
    """An authenticated webhook, as the endpoint hands it on."""
    _, seen = read_webhook(body, task_type=operation.task_type)
    delivery = WebhookDelivery.objects.create(
        seller=operation.seller,
        key=body["idempotency_key"],
        fingerprint="0" * 64,
        verdict="applied",
        body=body,
    )
    before = set(operation.observations.values_list("pk", flat=True))
    delivery_apply(delivery=delivery, operation=operation, seen=seen)
    return operation.observations.exclude(pk__in=before).get()


def arrive(way: str, operation: Operation, status: str, result: Body | None) -> Observation:
    """Let `operation` see that its task ended, in one of WAYS."""
    operation = fresh(operation)
    if way == "webhook":
        return deliver(operation, webhook_body(operation, status, result))
    channel, _, transport = way.partition(" ")
    seen = {"reply": reply_seen, "poll": poll_seen}[channel]
    told: Seen = seen(operation, status, result, {"mcp": mcp, "a2a": a2a}[transport])
    return see(operation, replace(told, at=clock.now()), channel)


WAYS = ("reply mcp", "reply a2a", "poll mcp", "poll a2a", "webhook")
