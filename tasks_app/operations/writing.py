"""Writing to a seller about an operation: a command, sent by mail to the address the seller is known by."""

from __future__ import annotations

import uuid

from django.db import transaction

from tasks_app import days
from tasks_app.canonical import canonical_digest
from tasks_app.commands.messages import Message, MessageRefusedError, message_send
from tasks_app.commands.models import Command
from tasks_app.operations.models import Operation
from tasks_app.operations.steered import SteeringRefusedError, steered, steered_note
from tasks_app.people.models import User


@transaction.atomic
def seller_write(*, operation_id: uuid.UUID, user: User, subject: str, body: str) -> Command:
    """Mail the seller about an operation; the same words on the same day are sent once.

    Kept beside what was seen of it. Raises SteeringRefusedError: `state` where nobody's address is known,
    `answer` for what is no message.
    """
    operation = steered(operation_id, user)
    message = Message(to=_address(operation), subject=subject, body=body)
    said = canonical_digest([str(operation.pk), days.today("UTC").isoformat(), subject, body])
    try:
        command = message_send(
            key=f"letter:{said}",
            message=message,
            actor=user,
            team=operation.team,
            seller=operation.seller,
            subject_type="operation",
            subject_id=operation.pk,
        )
    except MessageRefusedError as error:
        raise SteeringRefusedError("answer", str(error)) from error
    if command.replays == 0:
        steered_note(operation, user, f"wrote to {message.to}", body)
    return command


def _address(operation: Operation) -> str:
    if not operation.seller.contact_email:
        raise SteeringRefusedError("state", f"No address of {operation.seller.name} is known.")
    return operation.seller.contact_email
