"""What every act of steering shares: who may, on which operation, and that it is kept with its reason."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from typing import Literal

from tasks_app import clock
from tasks_app.commands.models import Command
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Channel, Observation, Operation
from tasks_app.people.actors import actor_ensure
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.people.scope import asker_of, visible
from tasks_app.people.setting_off import About

STEERED = "steered"  # Observation.kind of what a person did, not saw
RESENT = "resend, same key"
Code = Literal[
    "not_found",
    "no_right",
    "state",
    "reason",
    "evidence",
    "answer",
    "arguments",
    "result",
    "stale",
    "in_progress",
    "impossible",
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


def senders(kind: str, pk: uuid.UUID) -> Iterator[str | About]:
    """Who asked for an operation, or sent it again; a command is set off with its operation, each with what
    it is about, and a contradiction with its operation."""
    if kind == "command":
        about = Command.objects.filter(pk=pk).values_list("key", "subject_type", "subject_id")
        for key, subject_type, subject_id in about:
            yield subject_type, subject_id
            yield "operation", Operation.objects.filter(purpose=key).values_list("pk", flat=True).first()
    if kind == "operation":
        yield asker_of(kind, pk)
        again = Observation.objects.filter(operation=pk, kind=STEERED, raw_status=RESENT)
        yield from again.values_list("body__by", flat=True)
        yield from Operation.objects.filter(pk=pk).values_list("subject_type", "subject_id")
    if kind == "conflict":
        for operation in Conflict.objects.filter(pk=pk).values_list("operation", flat=True):
            yield "operation", operation


def led_to(kind: str, ids: Collection[uuid.UUID]) -> Iterator[tuple[str, Collection[uuid.UUID]]]:
    """The same the other way round: what is set off with the subjects."""
    about = {"subject_type": kind, "subject_id__in": ids}
    yield "operation", Operation.objects.filter(**about).values_list("pk", flat=True)
    yield "command", Command.objects.filter(**about).values_list("pk", flat=True)
    if kind == "operation":
        keys = Operation.objects.filter(pk__in=ids).values("purpose")
        yield "command", Command.objects.filter(key__in=keys).values_list("pk", flat=True)
        yield "conflict", Conflict.objects.filter(operation__in=ids).values_list("pk", flat=True)
