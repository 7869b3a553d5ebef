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
from tasks_app.approvals.models import Approval
from tasks_app.canonical import canonical_digest
from tasks_app.commands.models import Command
from tasks_app.commands.questions import gate_question
from tasks_app.commands.services import Wanted, command_execute, command_record, command_run
from tasks_app.lifecycle.transitions import Who
from tasks_app.operations.asking import seller_refusal
from tasks_app.operations.execution import ACCOUNT, CHANGE, NAME, PLACE, STOP, TASKS
from tasks_app.operations.models import Operation
from tasks_app.operations.services import OperationRefusedError, Subject
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


def order_question(operation: Operation) -> Approval | None:
    """What people are asked about an order that waits at a gate."""
    command = Command.objects.filter(key=operation.purpose).first()
    return gate_question(command) if command else None


def order_command(operation: Operation) -> Command:
    """The command of an operation; made for one that is older than commands are."""
    known = Command.objects.filter(key=operation.purpose).first()
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


def _operation(command: Command) -> Operation:
    found = Operation.objects.select_related("seller", "account")
    return found.get(pk=uuid.UUID(command.operation_id))
