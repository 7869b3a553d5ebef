"""Messages to somebody outside, by e-mail: commanded in a transaction, sent by the event bus outside of any.

A crash between the mail server's word and its record sends that one message once more.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.validators import validate_email
from django.db import connection

from tasks_app import clock
from tasks_app.commands.adapters import adapter_register
from tasks_app.commands.gates import gates_closed
from tasks_app.commands.kill_switch import on_turned
from tasks_app.commands.models import Command, KillSwitch, OutgoingMessage
from tasks_app.commands.services import Wanted, command_run
from tasks_app.events.bus import Event, subscribe, type_declare
from tasks_app.lifecycle.transitions import Who
from tasks_app.people.house import mail_sender
from tasks_app.people.models import Team
from tasks_app.sellers.models import Seller

NAME, SEND = "mail", "message_send"
TO_SEND = "message.to_send"
_LONGEST_SUBJECT, _LONGEST_BODY = 200, 20_000


class MessageRefusedError(Exception):
    """The message cannot be sent; the text says why."""


class MessageNotTakenError(RuntimeError):
    """The mail server did not take it; the bus tries again."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """One e-mail: a line as its subject, plain text as its body."""

    to: str
    subject: str
    body: str


class MailAdapter:
    """E-mail through Django's mail backend."""

    name = NAME
    kinds = frozenset({SEND})

    def prepare(self, command: Command) -> dict[str, Any]:
        """The message as it will leave."""
        told = command.payload
        message = OutgoingMessage.objects.create(
            command=command, to=told["to"], subject=told["subject"], body=told["body"], at=clock.now()
        )
        return {"message": str(message.pk)}

    def execute(self, command: Command) -> None:
        """An event in this commit; its subscriber sends."""
        _due(command.result["message"])

    def resume(self, command: Command) -> None:
        """The bus has it: there is nothing that could have been held back."""

    def withdraw(self, command: Command, *, reason: str, actor: str) -> bool:
        """Nothing was sent: a message waits before its event only."""
        return True

    def ended(self, command: Command) -> bool:
        """A message waits for nothing but its gate."""
        return False

    def stands(self, command: Command) -> bool:
        """What was given to the bus is sent."""
        return True


def register() -> None:
    """Called when the application starts."""
    adapter_register(_ADAPTER)
    on_turned(_let_go)
    type_declare(TO_SEND)
    subscribe("messages", [TO_SEND], message_deliver)


def message_send(
    *,
    key: str,
    message: Message,
    actor: Who,
    team: Team | None,
    seller: Seller | None = None,
    subject_type: str = "",
    subject_id: uuid.UUID | None = None,
    awaited: bool = False,
) -> Command:
    """Send a message outside, once per `key`. Raises MessageRefusedError, and what `command_run` raises."""
    checked = _checked(message)
    wanted = Wanted(
        kind=SEND,
        adapter=NAME,
        payload={"to": checked.to, "subject": checked.subject, "body": checked.body},
        team=team,
        seller=seller,
        subject_type=subject_type,
        subject_id=subject_id,
    )
    return command_run(key=key, wanted=wanted, actor=actor, awaited=awaited)


def message_deliver(event: Event) -> None:
    """Send one message that has not been sent; what the kill switch stops waits until it is turned off.
    Raises MessageNotTakenError; the bus calls again."""
    unsent = OutgoingMessage.objects.filter(pk=event.entity_id, sent_at__isnull=True)
    found = unsent.select_related("command").first()
    if found is None or _is_stopped(found.command):
        return
    mail = EmailMessage(
        subject=found.subject,
        body=found.body,
        from_email=mail_sender(),
        to=[found.to],
        headers={"Message-ID": f"<{found.pk}@flightdeck>"},  # the same if it is sent once more
    )
    try:
        mail.send()
    except (OSError, ValueError) as error:
        raise MessageNotTakenError(type(error).__name__) from error
    OutgoingMessage.objects.filter(pk=found.pk).update(sent_at=clock.now())


def _is_stopped(command: Command) -> bool:
    """Whether the switch stops it by a turn that nobody said to pass when it was given to the bus."""
    return bool(gates_closed(command, repeated=False))


def _let_go(turn: KillSwitch) -> None:
    """What the switch has stopped on the bus is due again, in the commit that turns it off."""
    unsent = OutgoingMessage.objects.filter(sent_at__isnull=True, command__executed_at__isnull=False)
    if turn.on:
        return
    if turn.team_id is not None:
        unsent = unsent.filter(command__team_id=turn.team_id)
    for message in unsent.values_list("pk", flat=True):
        _due(message)


def _due(message: uuid.UUID | str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("select fd_message_due(%s, %s)", [message, clock.now()])


_ADAPTER = MailAdapter()


def _checked(message: Message) -> Message:
    subject, body = " ".join(message.subject.split()), message.body.strip()
    try:
        validate_email(message.to)
    except ValidationError as error:
        raise MessageRefusedError("There is no e-mail address to write to.") from error
    if not subject or not body:
        raise MessageRefusedError("A message has a subject and a text.")
    if len(subject) > _LONGEST_SUBJECT or len(body) > _LONGEST_BODY:
        raise MessageRefusedError(f"A message has at most {_LONGEST_BODY} characters.")
    return Message(to=message.to, subject=subject, body=body)
