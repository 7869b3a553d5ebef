"""What is done to operations that there are. They come about in `asking`, through `reads` and `ordering`."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from tasks_app import clock
from tasks_app.lifecycle.transitions import Who, transition
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S


class OperationRefusedError(Exception):
    """The operation may not be asked for; the text says why. Nothing was sent."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What an operation is for, in an upper storey."""

    type: str
    id: uuid.UUID


def operation_withdraw(*, operation: Operation, actor: Who, reason: str, tell: bool = False) -> None:
    """Cancel an operation that was never sent. Raises InvalidTransitionError when it was.

    `tell`: whoever listens to its end is told of it, by the next sweep.
    """
    now = clock.now()
    transition(
        operation,
        S.CANCELED,
        actor=actor,
        reason=reason,
        changes={"send_at": None, "settled_at": now, "published_at": None if tell else now},
    )


def operation_poll_now(*, operation_id: uuid.UUID) -> None:
    """Make a pending operation due at once; harmless when it is not looked at."""
    Operation.objects.filter(pk=operation_id, next_poll_at__isnull=False).update(next_poll_at=clock.now())


def operation_secrets(operation: Operation) -> list[str]:
    """What a seller may echo and nobody may store: our webhook token and credentials, its token."""
    token = [operation.webhook_token] if operation.webhook_token else []
    return [*token, *operation.seller.known_secrets]
