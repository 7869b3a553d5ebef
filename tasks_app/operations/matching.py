"""Whether what was seen can be about an operation at all: task type, our own context, account, seller's task.

Source: AdCP L3/async-identity-and-convergence, "One operation, competing observations" and "Stable
seller-work identity". A mismatch is a correlation conflict, never a second settlement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks_app.adcp.account_keys import other_brand
from tasks_app.adcp.types import Seen
from tasks_app.adcp.values import identity_of, text_of
from tasks_app.operations.models import UNKNOWN_TYPE, Operation

MAX_IDENTITY = 255


def mismatch(operation: Operation, seen: Seen) -> str:
    """Why `seen` cannot be about `operation`; empty when nothing speaks against it."""
    if task_changed(operation, seen):
        return f"task_id changed from {operation.task_id} to {seen.task_id}"
    if seen.task_type and operation.task_type not in (seen.task_type, UNKNOWN_TYPE):
        return f"tells of {seen.task_type}, not {operation.task_type}"
    ours = text_of(_at(operation.request, "context", "operation_id"))
    echoed = text_of(_at(seen.context, "operation_id"))
    if ours and echoed and ours != echoed:
        return f"echoes the context of another operation, {echoed}"
    return _other_account(operation, seen.account)


def task_changed(operation: Operation, seen: Seen) -> bool:
    """Whether `seen` names another task than the one that is bound."""
    return bool(operation.task_id and seen.task_id and seen.task_id != operation.task_id)


def _other_account(operation: Operation, stated: Mapping[str, Any] | None) -> str:
    """Why the account that the seller tells of is not the operation's: neither as it was sent nor as it is
    named today, for a seller may name an account anew while a call is out."""
    if operation.account is None or stated is None:
        return ""
    references = (operation.request.get("account"), operation.account.reference)
    ours = [asked for reference in references if (asked := identity_of(_at(reference, "account_id")))]
    told = identity_of(stated.get("account_id"))
    if ours and told and told not in ours:
        return f"tells of account {told}, not {' or '.join(dict.fromkeys(ours))}"
    brands = [brand for reference in references if (brand := text_of(_at(reference, "brand", "domain")))]
    others = [other_brand(stated, brand) for brand in brands]
    return f"tells of an account of {others[0]}, not {brands[0]}" if others and all(others) else ""


def unusable_task(operation: Operation, seen: Seen) -> str:
    """Why the task_id of a first binding cannot be this operation's; empty when it can."""
    if operation.task_id or not seen.task_id:
        return ""
    if len(seen.task_id) > MAX_IDENTITY:
        return f"the seller's task_id has {len(seen.task_id)} characters"
    holder = Operation.objects.filter(seller=operation.seller, task_id=seen.task_id).first()
    if holder is None:
        return ""
    return f"the seller's task_id {seen.task_id} is that of {_named_to(operation, holder)} already"


def _named_to(operation: Operation, other: Operation) -> str:
    """How `other` is named to those who see `operation`: another team's, or another client's, is not."""
    own = (other.team_id, other.advertiser_id) == (operation.team_id, operation.advertiser_id)
    return other.reference if own else "another operation"


def identities(operation: Operation, seen: Seen) -> dict[str, Any]:
    """The seller's names as columns, each bound once."""
    told = {
        "task_id": seen.task_id,
        "a2a_task_id": seen.a2a_task_id,
        "a2a_context_id": seen.a2a_context_id,
        "context_id": seen.context_id,
    }
    return {
        name: value
        for name, value in told.items()
        if value and len(value) <= MAX_IDENTITY and not getattr(operation, name)
    }


def _at(found: Any, *path: str) -> Any:
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
