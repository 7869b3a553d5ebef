"""What is done to operations that there are. They come about in `asking`, through `reads` and `ordering`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Value
from django.db.models.functions import Greatest

from tasks_app import clock
from tasks_app.approvals.kinds import EffectRefusedNowError
from tasks_app.lifecycle.transitions import Who, moved_by, transition
from tasks_app.operations import policy
from tasks_app.operations.models import SETTLED, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.resend import had_no_effect
from tasks_app.people.actors import SYSTEM

_NOT_REPEATED = "X_FLIGHTDECK_NOT_REPEATED"
NO_SINGLE_PACKAGES = "single packages are not cancelled: cancel the whole media buy, or lower a budget"
CANCELS_ALONE = "a cancellation changes nothing besides: ask for the change by itself"


_withdrawn: list[Callable[[Operation], None]] = []


class OperationRefusedError(EffectRefusedNowError):
    """The operation may not be asked for; the text says why. Nothing was sent."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What an operation is for, in an upper storey."""

    type: str
    id: uuid.UUID


def on_withdrawn(listener: Callable[[Operation], None]) -> None:
    """Call `listener(operation)` in the commit that withdraws an operation before it was sent."""
    if listener not in _withdrawn:
        _withdrawn.append(listener)


def operation_withdraw(
    *, operation: Operation, actor: Who, reason: str, tell: bool = False, rights: Sequence[str] = ()
) -> None:
    """Cancel an operation that was never sent. Raises InvalidTransitionError when it was.

    The reason becomes its message, and so what people are told. `tell`: whoever listens to its end is told of
    it, by the next sweep. `actor`: whose act it follows from, by one of `rights`.
    """
    now = clock.now()
    transition(
        operation,
        S.CANCELED,
        actor=moved_by(operation, actor, rights),
        reason=reason,
        rights=rights,
        changes={
            "message": reason,
            "send_at": None,
            "settled_at": now,
            "published_at": None if tell else now,
        },
    )
    for listener in _withdrawn:
        listener(operation)


def send_with_time(operation: Operation, *, at: datetime, message: str | None = None) -> None:
    """Have it sent at `at`, with its time anew."""
    said = {} if message is None else {"message": message}
    Operation.objects.filter(pk=operation.pk).update(send_at=at, **time_anew(operation), **said)


def time_anew(operation: Operation) -> dict[str, Any]:
    """The column that gives it at least its type's whole time from now on: what passed until now is not the
    seller's."""
    until = clock.now() + policy.deadline(operation.task_type, operation.seller)
    return {"deadline_at": Greatest("deadline_at", Value(until))}


def not_sent_again(operation: Operation, reason: str) -> None:
    """What was sent before and is refused now: it fails where nothing can have been done; else the seller is
    asked what it has, and then people."""
    if had_no_effect(operation):
        _fail(operation, reason)
    elif operation.status not in SETTLED:
        Operation.objects.filter(pk=operation.pk).update(send_at=None, next_poll_at=clock.now())


def _fail(operation: Operation, reason: str) -> None:
    why = f"Not sent again: {reason}"
    transition(
        operation,
        S.FAILED,
        actor=SYSTEM,
        reason=why[:500],
        changes={
            "error": {"code": _NOT_REPEATED, "message": why},
            "message": why,
            "send_at": None,
            "settled_at": clock.now(),
        },
    )


def operation_poll_now(*, operation_id: uuid.UUID) -> None:
    """Make a pending operation due at once; harmless when it is not looked at."""
    Operation.objects.filter(pk=operation_id, next_poll_at__isnull=False).update(next_poll_at=clock.now())


def operation_secrets(operation: Operation) -> list[str]:
    """What a seller may echo and nobody may store: our webhook token and credentials, its token."""
    token = [operation.webhook_token] if operation.webhook_token else []
    return [*token, *operation.seller.known_secrets]
