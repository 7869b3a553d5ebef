"""What every act of steering shares: who may, on which operation, and that it is kept with its reason."""

from __future__ import annotations

import uuid
from typing import Literal

from tasks_app import clock
from tasks_app.operations.models import Channel, Observation, Operation
from tasks_app.people.actors import actor_ensure
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.people.scope import visible

STEERED = "steered"  # Observation.kind of what a person did, not saw
Code = Literal[
    "not_found", "no_right", "state", "reason", "evidence", "answer", "stale", "in_progress", "impossible"
]


class SteeringRefusedError(Exception):
    """Nothing was done; `code` says why in one word, the text in a sentence."""

    def __init__(self, code: Code, message: str) -> None:
        self.code = code
        super().__init__(message)


def steered(operation_id: uuid.UUID, user: User) -> Operation:
    """The operation, held still until the caller's commit. Raises SteeringRefusedError."""
    if not user.is_active or not user.has_perm(STEER_OPERATION):
        raise SteeringRefusedError("no_right", "Steering operations needs the right of Ad Ops.")
    found = visible(Operation.objects.filter(pk=operation_id), user)
    operation = (
        found.select_related("seller", "team", "account").select_for_update(of=("self",), no_key=True).first()
    )
    if operation is None:
        raise SteeringRefusedError("not_found", "There is no such operation in your teams.")
    return operation


def steered_note(operation: Operation, user: User, what: str, reason: str = "") -> None:
    """Keep what a person did beside what was seen; it is no observation of the seller and has no effect."""
    actor = actor_ensure(user=user)
    Observation.objects.create(
        operation=operation,
        channel=Channel.HUMAN,
        kind=STEERED,
        status="unknown",
        raw_status=what[:80],
        outcome=Observation.Outcome.INDETERMINATE,
        note=f"{actor.name}: {reason}".rstrip(": "),
        digest="",
        body={"by": actor.key, "what": what, "reason": reason},
        at=clock.now(),
    )
