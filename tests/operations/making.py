"""Operations in any state, and the things that may be seen of them."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

from tasks_app import clock
from tasks_app.adcp.types import Seen, WireError
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.asking import operation_ensure
from tasks_app.operations.converge import observe
from tasks_app.operations.lease import CallLease
from tasks_app.operations.leases import Lease
from tasks_app.operations.models import SETTLED, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tests.factories import make_seller, make_team

TASK = "task-1"
BOUGHT = {"media_buy_id": "mb-1", "packages": []}
_TOOL = "X_FLIGHTDECK_TOOL_ERROR"


def ask(task_type: str = "create_media_buy", *, seller: Seller | None = None, **wanted: Any) -> Operation:
    """An operation that was asked for: `requested`, due at once."""
    defaults = {
        "purpose": f"test:{uuid.uuid4()}",
        "arguments": {"po_number": "DEAL-1", "context": {"deal_id": "d-1"}},
        "actor": "system",
        "team": make_team(),
    }
    return operation_ensure(
        task_type=task_type,
        seller=seller or Seller.objects.first() or make_seller(),
        **{**defaults, **wanted},
    )


def stand(status: str, task_type: str = "create_media_buy", **columns: Any) -> Operation:
    """An operation in `status`; whatever is pending is known to the seller as TASK, unless told otherwise.
    `out_until`: a call of it is out, leased until then."""
    wanted = {name: columns.pop(name) for name in ("team", "arguments") if name in columns}
    operation = ask(task_type, seller=columns.pop("seller", None), **wanted)
    out_until = columns.pop("out_until", None)
    if out_until is not None:
        CallLease.objects.create(id=operation.pk, seller=operation.seller, until=out_until)
    if status == S.REQUESTED:
        return operation
    transition(operation, S.CALLING_ADCP, actor="system", changes={"attempts": 1, "sent_at": clock.now()})
    if status != S.CALLING_ADCP:
        _move(operation, status, columns.pop("task_id", TASK))
    if columns:
        Operation.objects.filter(pk=operation.pk).update(**columns)
    return fresh(operation)


def _move(operation: Operation, status: str, task_id: str) -> None:
    waiting = {"task_id": task_id, "send_at": None}
    if status in SETTLED:
        error = None if status == S.COMPLETED else WireError(code="PRODUCT_UNAVAILABLE", recovery="terminal")
        see(operation, answer(status, task_id=task_id or None, payload=BOUGHT, error=error))
    elif status == S.TIMED_OUT:
        transition(operation, S.SUBMITTED, actor="system", changes=waiting)
        transition(operation, S.TIMED_OUT, actor="system", changes={"overdue_at": clock.now()})
    else:
        transition(operation, status, actor="system", changes=waiting)


def see(operation: Operation, seen: Seen, channel: str = "reply") -> Any:
    return observed(operation_id=operation.pk, seen=seen, channel=channel)


def observed(*, operation_id: uuid.UUID, seen: Seen, channel: str) -> Any:
    """It is seen; by a channel of our calls it is the answer to the call that is out, if any."""
    answered = lease_of(operation_id) if channel in ("reply", "poll", "reconcile") else None
    return observe(operation_id=operation_id, seen=seen, channel=channel, answered=answered)


def lease_of(operation_id: uuid.UUID) -> Lease | None:
    """What the latest call of an operation holds, or held until it ran out; None where it was given back."""
    held = CallLease.objects.filter(pk=operation_id).values_list("pk", "call").first()
    return Lease(*held) if held else None


def give_back(operation_id: uuid.UUID) -> None:
    """Its call has ended, or was cut off: nothing is out."""
    CallLease.objects.filter(pk=operation_id).delete()


def leased_until(operation: Operation) -> datetime | None:
    """The end of the lease of a call that is out; None where none is."""
    return CallLease.objects.filter(pk=operation.pk).values_list("until", flat=True).first()


def fresh(operation: Operation) -> Operation:
    return Operation.objects.select_related("seller").get(pk=operation.pk)


def answer(status: str, **told: Any) -> Seen:
    if status == "completed":
        told.setdefault("payload", BOUGHT)
    return Seen(kind="answer", status=status.replace("_", "-"), raw_status=status, **told)


def failed(code: str, recovery: str = "terminal", **told: Any) -> Seen:
    return answer("failed", error=WireError(code=code, message=f"{code}!", recovery=recovery), **told)


def crashed() -> Seen:
    return answer("failed", error=WireError(code=_TOOL, message="Internal error"))


def silent() -> Seen:
    error = WireError(code="X_FLIGHTDECK_NO_ANSWER", message="no answer in time")
    return Seen(kind="no_answer", error=error, message=error.message)


def garbled() -> Seen:
    error = WireError(code="X_FLIGHTDECK_GARBLED", message="the answer cannot be read")
    return Seen(kind="garbled", error=error, message=error.message)


def not_sent() -> Seen:
    error = WireError(code="X_FLIGHTDECK_NOT_SENT", message="connection refused")
    return Seen(kind="not_sent", error=error, message=error.message, request_left=False)


def unknown(word: str = "requires_approval", **told: Any) -> Seen:
    return Seen(kind="answer", status="unknown", raw_status=word, **told)


def hours(number: float) -> timedelta:
    return timedelta(hours=number)
