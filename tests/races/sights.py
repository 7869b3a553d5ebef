"""What a seller may say of an operation, as acts of racers."""

from __future__ import annotations

import json
from typing import Any

from tasks_app.operations.models import Operation
from tests.operations.making import answer
from tests.operations.wire import mcp, poll_seen, reply_seen, webhook_body
from tests.races.conftest import SECRET
from tests.races.racer import Post, Sight
from tests.webhooks.signing import hmac

BOUGHT: dict[str, Any] = {"media_buy_id": "mb-1", "revision": 1, "packages": [{"package_id": "p-1"}]}
OTHER: dict[str, Any] = {**BOUGHT, "media_buy_id": "mb-2"}


def reply(operation: Operation, result: dict[str, Any] = BOUGHT, status: str = "completed") -> Sight:
    """The answer to the call itself."""
    seen = reply_seen(operation, status, result, mcp)
    return Sight(operation_id=operation.pk, seen=seen, channel="reply")


def poll(operation: Operation, result: dict[str, Any] = BOUGHT, status: str = "completed") -> Sight:
    """The answer to get_task_status."""
    return Sight(operation_id=operation.pk, seen=poll_seen(operation, status, result, mcp), channel="poll")


def pending(operation: Operation, status: str, *, task_id: str, channel: str = "reply") -> Sight:
    """The seller has it, under this name."""
    return Sight(operation_id=operation.pk, seen=answer(status, task_id=task_id), channel=channel)


def webhook(
    operation: Operation, result: dict[str, Any] = BOUGHT, status: str = "completed", **envelope: Any
) -> Post:
    """A signed delivery under a key of its own, unless told; None leaves an envelope's field out."""
    body = webhook_body(operation, status, result, **envelope)
    return signed(operation, {name: value for name, value in body.items() if value is not None})


def signed(operation: Operation, body: dict[str, Any]) -> Post:
    raw = json.dumps(body).encode()
    return Post(seller=operation.seller.slug, body=raw, headers=hmac(raw, SECRET))
