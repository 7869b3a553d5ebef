"""What changes something at a seller: each a command under the purpose of its operation.

An order is proposed (frozen, shown to people, not sent) and then released, or run at once. Gates may hold it:
then its operation is there, held, and `order_question` is what people are asked.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import approval_void
from tasks_app.canonical import canonical_digest
from tasks_app.commands.models import Command
from tasks_app.commands.questions import command_withdraw, gate_question, gate_refusal
from tasks_app.commands.services import Wanted, command_execute, command_locked, command_record, command_run
from tasks_app.lifecycle.transitions import Who
from tasks_app.operations.asking import operation_let_go, seller_refusal
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.execution import ACCOUNT, ANSWER, CHANGE, NAME, PLACE, STOP, TASKS
from tasks_app.operations.models import Operation
from tasks_app.operations.pauses import request_let_go
from tasks_app.operations.resend import had_no_effect
from tasks_app.operations.services import OperationRefusedError, Subject
from tasks_app.people.actors import actor_key
from tasks_app.people.models import Team
from tasks_app.sellers.models import Account, Seller

_KINDS = {"create_media_buy": PLACE, "sync_accounts": ACCOUNT}


@dataclass(frozen=True, kw_only=True)
class Order:
    """One change at a seller: `kind` is PLACE, CHANGE, STOP or ACCOUNT of `execution`, `purpose` its key,
    `arguments` the AdCP task's own."""

    kind: str
    purpose: str
    seller: Seller
    arguments: Mapping[str, Any]
    team: Team | None
    account: Account | None = None
    subject: Subject | None = None
    advertiser_id: uuid.UUID | None = None  # where neither account nor subject says whose it is

    @property
    def wanted(self) -> Wanted:
        """The order as a command."""
        return Wanted(
            kind=self.kind,
            adapter=NAME,
            payload={
                "seller": str(self.seller.pk),
                "account": str(self.account.pk) if self.account else None,
                "arguments": dict(self.arguments),
            },
            team=self.team,
            seller=self.seller,
            subject_type=self.subject.type if self.subject else "",
            subject_id=self.subject.id if self.subject else None,
            advertiser_id=self.account.advertiser_id if self.account else self.advertiser_id,
        )


@transaction.atomic
def order_run(*, order: Order, actor: Who, awaited: bool = False) -> Operation:
    """Have it sent, once per purpose; answers its operation, held where a gate is closed.

    `awaited`: whoever wants it asks again when the gate is decided. Raises OperationRefusedError,
    IdempotencyKeyConflictError (the purpose was another order's), CommandRefusedError, EffectRefusedError.
    """
    return _operation(command_run(key=order.purpose, wanted=order.wanted, actor=actor, awaited=awaited))


@transaction.atomic
def order_propose(*, order: Order, actor: Who) -> Operation:
    """Freeze it, to be shown to people and released by `order_release`. Raises OperationRefusedError,
    IdempotencyKeyConflictError, EffectRefusedError."""
    refused = seller_refusal(order.seller, TASKS[order.kind])
    if refused:
        raise OperationRefusedError(refused)
    return _operation(command_record(key=order.purpose, wanted=order.wanted, actor=actor))


@transaction.atomic
def order_release(*, operation: Operation, awaited: bool = False) -> Operation:
    """Have a proposed order sent; harmless when it was. Raises what `order_run` raises."""
    return _operation(command_execute(key=order_command(operation).key, awaited=awaited))


@transaction.atomic
def order_withdraw(*, operation: Operation, reason: str, actor: Who, unsent_only: bool = False) -> bool:
    """It is not to be sent (again), whether it was let go or waits at a gate; what may have left is followed
    to its end. `unsent_only`: where something may have been had at the seller nothing changes, and the
    answer is False."""
    key = order_command(operation).key
    asked = gate_question(Command.objects.get(key=key))
    held = Approval.objects.filter(pk__in=[asked.pk] if asked else [], status=ApprovalStatus.OPEN)
    questions = list(held.select_for_update(no_key=True))  # before the command, as who decides them does
    command = command_locked(key=key)
    if unsent_only and not had_no_effect(_held(operation)):
        return False
    command_withdraw(command, reason=reason, user=actor_key(actor))
    for one in questions:
        approval_void(approval=one, reason=reason)
    return True


@transaction.atomic
def order_let_go(*, operation: Operation) -> None:
    """Send an order that was let go before and has been held since; one that waits at a gate waits on."""
    command = command_locked(key=order_command(operation).key)
    if command.executed_at is not None and command.waiting_since is None:
        operation_let_go(operation)


def order_question(operation: Operation) -> Approval | None:
    """What people are asked about an order that waits at a gate."""
    command = Command.objects.filter(key=operation.purpose).first()
    return gate_question(command) if command else None


def order_refusal(purpose: str) -> Approval | None:
    """The question in which a person refused an order at a gate."""
    command = Command.objects.filter(key=purpose).first()
    return gate_refusal(command) if command else None


def order_sent(command: Command) -> tuple[Operation, Mapping[str, Any]] | None:
    """The operation of a command that may spend (a purchase, a change, an answer), with the request that
    leaves; None for any other."""
    if command.kind == ANSWER:
        rows = Continuation.objects.select_related("operation__seller", "operation__team")
        pause = rows.filter(pk=command.payload.get("continuation")).first()
        return (pause.operation, pause.arguments) if pause is not None else None
    if command.kind not in (PLACE, CHANGE):
        return None
    operation = Operation.objects.filter(purpose=command.key).first()
    return (operation, request_let_go(operation)) if operation is not None else None


def order_arguments(command: Command) -> Mapping[str, Any] | None:
    """What an order was asked for with, the arguments of its AdCP task; None for an answer, for what no
    seller is asked, and for a command that was made of an older operation."""
    arguments = command.payload.get("arguments")
    return arguments if command.adapter == NAME and isinstance(arguments, Mapping) else None


def order_known(operation: Operation) -> Command | None:
    """The command of an operation; None for one that is older than commands are."""
    return Command.objects.filter(key=operation.purpose).first()


def order_command(operation: Operation) -> Command:
    """The command of an operation; made for one that is older than commands are."""
    known = order_known(operation)
    if known is not None:
        return known
    kind = _KINDS.get(operation.task_type, CHANGE)
    if kind == CHANGE and operation.request.get("canceled") is True:
        kind = STOP
    payload = {"operation": str(operation.pk)}
    command, _ = Command.objects.get_or_create(
        key=operation.purpose,
        defaults={
            "kind": kind,
            "adapter": NAME,
            "payload": payload,
            "digest": canonical_digest({"kind": kind, "payload": payload}),
            "seller": operation.seller,
            "team": operation.team,
            "advertiser_id": operation.advertiser_id,
            "subject_type": operation.subject_type,
            "subject_id": operation.subject_id,
            "requested_by": operation.requested_by,
            "result": {**payload, "reference": operation.reference},
            "executed_at": operation.sent_at or (clock.now() if operation.send_at else None),
        },
    )
    return command


def _held(operation: Operation) -> Operation:
    """The stored one, held still until the caller's commit."""
    return Operation.objects.select_for_update(no_key=True, of=("self",)).get(pk=operation.pk)


def _operation(command: Command) -> Operation:
    found = Operation.objects.select_related("seller", "account")
    return found.get(pk=uuid.UUID(command.operation_id))
