"""What a seller wants corrected goes to people: which field, in the seller's own words.

An error of recovery class `correctable` is no reason to send the same again, and nobody but a person can
change what was asked for. Source: AdCP enums/error-code, L3/error-handling.
"""

from __future__ import annotations

from typing import Any

from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About, notify
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.publish import on_settled
from tasks_app.people.roles import STEER_OPERATION

KIND = "correction_wanted"
_MOST_WORDS = 600


def register() -> None:
    """Called when the application starts."""
    on_settled(tell_correction)


def tell_correction(operation: Operation) -> None:
    """Tell the operation's team (Ad Ops, where it has none) what the seller wants corrected, once."""
    error = operation.error or {}
    if operation.status not in (S.FAILED, S.REJECTED) or error.get("recovery") != "correctable":
        return
    where = _words(error, "field")
    notify(
        kind=KIND,
        title=f"{operation.seller.name} wants {where or 'something'} corrected in {operation.task_type}",
        body="\n".join(_lines(operation, error, where)),
        level=Notification.Level.WARNING,
        about=About(type="operation", id=operation.pk),
        team=operation.team,
        right="" if operation.team else STEER_OPERATION,
        key=f"{KIND}:{operation.pk}",
    )


def _lines(operation: Operation, error: dict[str, Any], where: str) -> list[str]:
    told = {
        "Field": where,
        "The seller says": _words(error, "message") or operation.message,
        "It suggests": _words(error, "suggestion"),
        "Code": _words(error, "code"),
    }
    lines = [f"{name}: {words}" for name, words in told.items() if words]
    return [*lines, f"{operation.reference} has ended: correct it and ask anew."]


def _words(error: dict[str, Any], name: str) -> str:
    value = error.get(name)
    return value[:_MOST_WORDS] if isinstance(value, str) else ""
