"""Whether what was seen can be about an operation at all: task type, our own context, account, seller's task.

Source: AdCP L3/async-identity-and-convergence, "One operation, competing observations" and "Stable
seller-work identity". A mismatch is a correlation conflict, never a second settlement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks_app.adcp.types import Seen
from tasks_app.operations.models import UNKNOWN_TYPE, Operation

MAX_IDENTITY = 255


def mismatch(operation: Operation, seen: Seen) -> str:
    """Why `seen` cannot be about `operation`; empty when nothing speaks against it."""
    if operation.task_id and seen.task_id and seen.task_id != operation.task_id:
        return f"task_id changed from {operation.task_id} to {seen.task_id}"
    if seen.task_type and operation.task_type not in (seen.task_type, UNKNOWN_TYPE):
        return f"tells of {seen.task_type}, not {operation.task_type}"
    ours, echoed = _named(operation.request, "context", "operation_id"), _named(seen.context, "operation_id")
    if ours and echoed and ours != echoed:
        return f"echoes the context of another operation, {echoed}"
    account = operation.account.reference if operation.account else None
    asked, told = _named(account, "account_id"), _named(seen.payload, "account", "account_id")
    if asked and told and asked != told:
        return f"tells of account {told}, not {asked}"
    return ""


def unusable_task(operation: Operation, seen: Seen) -> str:
    """Why the task_id of a first binding cannot be this operation's; empty when it can."""
    if operation.task_id or not seen.task_id:
        return ""
    if len(seen.task_id) > MAX_IDENTITY:
        return f"the seller's task_id has {len(seen.task_id)} characters"
    holder = Operation.objects.filter(seller=operation.seller, task_id=seen.task_id).first()
    return f"the seller's task_id {seen.task_id} is that of {holder.reference} already" if holder else ""


def identities(operation: Operation, seen: Seen) -> dict[str, Any]:
    """The seller's names as columns, each bound once."""
    told = {"task_id": seen.task_id, "a2a_task_id": seen.a2a_task_id, "a2a_context_id": seen.a2a_context_id}
    return {
        name: value
        for name, value in told.items()
        if value and len(value) <= MAX_IDENTITY and not getattr(operation, name)
    }


def _named(found: Any, *path: str) -> str | None:
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) and found else None
