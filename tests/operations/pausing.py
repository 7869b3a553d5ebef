"""A seller on A2A that pauses: its native tasks, and what it was sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.operations.answers import operation_answer
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.models import Operation
from tasks_app.people.models import User
from tasks_app.sellers.models import Seller
from tests.adcp.raw_server import RawServer, Request, Script
from tests.adcp.scripted_seller import a2a_result, rpc, seller
from tests.factories import make_seller, make_user
from tests.operations.making import ask
from tests.operations.sweeping import sweep

Reply = dict[str, Any] | bytes
SECRET_TASK, SECRET_CONTEXT = "native-task-6f1d2b", "native-context-91ce07"
BOUGHT = {"status": "completed", "media_buy_id": "mb-1", "packages": []}


def paused(text: str = "Which markets?", *, task: str = SECRET_TASK, state: str = "INPUT_REQUIRED") -> Reply:
    """A native pause: it can be continued."""
    status = {"state": f"TASK_STATE_{state}", "message": {"parts": [{"text": text}]}}
    return {"task": {"id": task, "contextId": SECRET_CONTEXT, "status": status}}


def pause(
    operation: Operation,
    *,
    asked: str = "Which markets?",
    good_for: timedelta = timedelta(days=9),
    **columns: Any,
) -> Continuation:
    """A question of its seller's about a task, over a transport that can be continued."""
    native = {"task_id": SECRET_TASK, "context_id": SECRET_CONTEXT}
    Seller.objects.filter(pk=operation.seller_id).update(protocol="a2a")
    return Continuation.objects.create(
        operation=operation,
        generation=1,
        asked=asked,
        expires_at=clock.now() + good_for,
        **{"kind": "input", "descriptor": json.dumps(native), **columns},
    )


def done(data: dict[str, Any] | None = None) -> Reply:
    """The answer of a task that has ended at the transport."""
    return a2a_result(data or BOUGHT)


def answering(*replies: Reply | Callable[[Request], Reply]) -> Callable[[RawServer], Script]:
    """A seller on A2A that gives these answers to its messages in turn, the last one ever after."""
    left = list(replies)

    def answer(request: Request) -> bytes:
        reply = left.pop(0) if len(left) > 1 else left[0]
        told = reply(request) if callable(reply) else reply
        return told if isinstance(told, bytes) else rpc(request, result=told)

    return seller(answer)


def messages(server: RawServer) -> list[dict[str, Any]]:
    """The messages that came in, oldest first."""
    sent = [r.json["params"]["message"] for r in server.requests if r.rpc_method == "SendMessage"]
    return [message for message in sent if isinstance(message, dict)]


def invocation(message: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a message's one data part."""
    (data,) = [part["data"] for part in message["parts"] if "data" in part]
    found: dict[str, Any] = data.get("input") or data["parameters"]
    return found


def a2a_seller(server: RawServer, **fields: Any) -> Seller:
    return make_seller("Quill Audio", protocol="a2a", url=server.url, **fields)


def paused_purchase(server: RawServer, task_type: str = "create_media_buy", **fields: Any) -> Operation:
    """An operation that was sent, and whose seller paused it."""
    operation = ask(task_type, seller=a2a_seller(server, **fields))
    sweep()
    return Operation.objects.select_related("seller", "team").get(pk=operation.pk)


def release(approver: User | None = None, verdict: str = "approve") -> Approval:
    """Somebody else decides on the answer."""
    asked = Approval.objects.get(kind="answer", status="open")
    return approval_decide(
        approval_id=asked.pk, user=approver or make_user("Approver"), verdict=verdict, comment="So."
    )


def everything_said(*rows: Any) -> str:
    """What a log or an error could show of rows."""
    return json.dumps([repr(row) + str(row) for row in rows])


def say(operation: Operation, user: User, text: str = "Sweden.", generation: int = 1, **changes: Any) -> None:
    """Answer the seller's question."""
    operation_answer(operation_id=operation.pk, generation=generation, user=user, text=text, changes=changes)
