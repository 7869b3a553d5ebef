"""The AdCP adapter: commands become operations, which the sweep sends. Nobody but commands calls it.

Source: document 003, "Execution Command Boundary" (`ExecutionAdapter`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from tasks_app.commands.adapters import adapter_register
from tasks_app.commands.gates import SELLER
from tasks_app.commands.models import Command
from tasks_app.operations import pauses
from tasks_app.operations.asking import (
    operation_let_go,
    operation_make,
    operation_release,
    seller_refusal,
)
from tasks_app.operations.models import PENDING, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.services import (
    CANCELS_ALONE,
    NO_SINGLE_PACKAGES,
    OperationRefusedError,
    Subject,
    not_sent_again,
    operation_withdraw,
)
from tasks_app.people.roles import CANCEL_DEAL, DECIDE, STEER_JOB, SUBMIT_CAMPAIGN
from tasks_app.sellers.models import Account

NAME = "adcp"
PLACE, CHANGE, STOP, ACCOUNT = "order_place", "order_change", "order_stop", "account_open"
ANSWER = "answer_send"
TASKS = {
    PLACE: "create_media_buy",
    CHANGE: "update_media_buy",
    STOP: "update_media_buy",
    ACCOUNT: "sync_accounts",
}
_UNDONE = (S.FAILED, S.REJECTED, S.CANCELED)


# By one of these somebody ends what has an operation sent: at its gate, or with what wanted it.
_ENDS = (DECIDE, STEER_JOB, SUBMIT_CAMPAIGN, CANCEL_DEAL)

# What a change of a media buy may say, beside that it is cancelled.
_CHANGES = ("name", "paused", "start_time", "end_time", "total_budget", "packages", "new_packages")


class AdcpAdapter:
    """Media buys and accounts, placed, changed and stopped; answers to sellers' questions."""

    name = NAME
    kinds = frozenset({*TASKS, ANSWER})

    def prepare(self, command: Command) -> dict[str, Any]:
        """The operation, its request frozen, held; an answer is frozen where it was given."""
        if command.kind == ANSWER:
            operation = Operation.objects.get(pk=uuid.UUID(command.payload["operation"]))
            return {"operation": str(operation.pk), "reference": operation.reference}
        if command.seller is None:
            raise OperationRefusedError("an order has a seller")
        refused = _refused_change(command.payload["arguments"])
        if refused:
            raise OperationRefusedError(refused)
        account_id = command.payload["account"]
        subject = command.subject_id and Subject(type=command.subject_type, id=command.subject_id)
        operation = operation_make(
            purpose=command.key,
            task_type=TASKS[command.kind],
            seller=command.seller,
            arguments=command.payload["arguments"],
            actor=command.requested_by,
            team=command.team,
            account=Account.objects.get(pk=account_id) if account_id else None,
            subject=subject or None,
            advertiser_id=command.advertiser_id,
            held=True,
        )
        return {"operation": str(operation.pk), "reference": operation.reference}

    def execute(self, command: Command) -> None:
        """Due to be sent. Raises OperationRefusedError: its seller is off, has no such tool, or may be
        sent no mutations."""
        operation = _operation(command)
        if command.kind == ANSWER:
            pauses.answer_release(operation, uuid.UUID(command.payload["continuation"]))
            return
        passed = SELLER in command.overrides
        refused = seller_refusal(operation.seller, operation.task_type, though_off=passed)
        if refused:
            raise OperationRefusedError(refused)
        operation_release(operation=operation)

    def resume(self, command: Command) -> None:
        """Due to be sent (again), where that is still wanted."""
        operation = _operation(command)
        if _is_to_leave(operation):
            operation_let_go(operation)

    def withdraw(self, command: Command, *, reason: str, actor: str) -> bool:
        """Canceled where nothing left, failed where nothing can have been done; else looked up there. An
        answer that waits to be sent is none any more."""
        operation = _operation(command)
        if command.kind == ANSWER and command.executed_at is None:
            pauses.answer_take_back(uuid.UUID(command.payload["continuation"]))
            return True
        was_answer = pauses.answer_refuse(operation)
        if operation.status == S.REQUESTED:
            operation_withdraw(operation=operation, actor=actor, reason=reason[:500], tell=True, rights=_ENDS)
        else:
            not_sent_again(operation, reason)
        return not was_answer

    def ended(self, command: Command) -> bool:
        """Its operation was withdrawn, or the seller has it: there is an end, or a task; of an answer, that
        another pause is open. Of what is overdue an answer leaves once people wait on."""
        operation = Operation.objects.select_related("seller").get(pk=uuid.UUID(command.operation_id))
        if operation.settled_at is not None or _is_of_another_pause(command, operation):
            return True
        waits = operation.status == S.TIMED_OUT and pauses.answer_waits(operation)
        return command.executed_at is not None and not (waits or _is_to_leave(operation))

    def stands(self, command: Command) -> bool:
        """Unless the seller, or we, undid it."""
        status = Operation.objects.values_list("status", flat=True).get(pk=uuid.UUID(command.operation_id))
        return status not in _UNDONE


def register() -> None:
    """Called when the application starts."""
    adapter_register(_ADAPTER)


_ADAPTER = AdcpAdapter()


def _refused_change(arguments: Mapping[str, Any]) -> str:
    """Why nobody is asked for such a change; empty where it may be.

    Of packages that are cancelled by themselves neither budgets nor gates know, so they would come back as a
    departure that costs the whole media buy. A cancellation is judged as one, whatever it carries besides.
    """
    packages = arguments.get("packages")
    told = packages if isinstance(packages, list) else []
    if any(isinstance(package, Mapping) and package.get("canceled") for package in told):
        return NO_SINGLE_PACKAGES
    besides = any(arguments.get(name) is not None for name in _CHANGES)
    return CANCELS_ALONE if arguments.get("canceled") and besides else ""


def _operation(command: Command) -> Operation:
    rows = Operation.objects.select_related("seller", "account", "team")
    return rows.select_for_update(of=("self",), no_key=True).get(pk=uuid.UUID(command.operation_id))


def _is_of_another_pause(command: Command, operation: Operation) -> bool:
    """Whether it is the answer to a pause that is over."""
    if command.kind != ANSWER:
        return False
    current = pauses.continuation_current(operation)
    return current is None or str(current.pk) != command.payload["continuation"]


def _is_to_leave(operation: Operation) -> bool:
    """Whether it is still to be sent, while the seller has no task of it; or an answer to the seller."""
    if operation.status in (S.REQUESTED, S.CALLING_ADCP, *PENDING) and not operation.task_id:
        return True
    return operation.status in PENDING and pauses.answer_waits(operation)
