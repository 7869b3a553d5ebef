"""What a seller wants corrected goes to people: which field, in the seller's own words. Corrected, it is
asked for anew.

An error of recovery class `correctable` is no reason to send the same again, and nobody but a person can
change what was asked for. The storey that knows the task registers how it is asked for anew: a new operation
under a new key, held until people have decided. Source: AdCP enums/error-code, L3/error-handling.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About, notify
from tasks_app.operations.account_refusals import (
    account_advice,
    account_now,
    account_obstacle,
    anew_because,
    refused_for_account,
)
from tasks_app.operations.models import Channel, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pauses import request_let_go
from tasks_app.operations.publish import on_settled
from tasks_app.operations.steered import SteeringRefusedError, steered, steered_note
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION

KIND = "correction_wanted"
_MOST_WORDS = 600
_CORRECTED = "corrected as "
# Of a request: set with every call, none of it is anybody's to correct.
_OURS = frozenset(
    {
        "adcp_version",
        "adcp_major_version",
        "idempotency_key",
        "push_notification_config",
        "revision",
    }
)
Corrector = Callable[[Operation, User, Mapping[str, Any]], Operation]
WhyNot = Callable[[Operation], str]
_correctors: dict[str, Corrector] = {}
_obstacles: dict[str, WhyNot] = {}


def register() -> None:
    """Called when the application starts."""
    on_settled(tell_correction, tells=True)


def tell_correction(operation: Operation) -> None:
    """Tell the operation's team (Ad Ops, where it has none) what the seller wants corrected, once."""
    error = operation.error or {}
    of_account = refused_for_account(operation) and operation.task_type in _correctors
    correctable = operation.status in (S.FAILED, S.REJECTED) and error.get("recovery") == "correctable"
    if not of_account and not correctable:
        return
    where = _words(error, "field")
    title = f"{operation.seller.name} wants {where or 'something'} corrected in {operation.task_type}"
    if of_account:
        title = f"{operation.seller.name} refused {operation.task_type} because of the account"
    notify(
        kind=KIND,
        title=title,
        body="\n".join(_lines(operation, error, where)),
        level=Notification.Level.WARNING,
        about=About(type="operation", id=operation.pk),
        team=operation.team,
        right="" if operation.team else STEER_OPERATION,
        key=f"{KIND}:{operation.pk}",
    )


def corrector_register(task_type: str, corrector: Corrector, why_not: WhyNot) -> None:
    """Let `corrector(operation, user, arguments)` ask for that task anew: a new operation, held until
    somebody else has decided. It raises SteeringRefusedError. `why_not(operation)`: why nobody can ask for it
    anew now, whatever is corrected; empty where somebody can."""
    _correctors[task_type] = corrector
    _obstacles[task_type] = why_not


def correction_refusal(operation: Operation) -> str:
    """Why it cannot be corrected and asked for anew, for whoever asks; empty: it can."""
    if operation.status not in (S.FAILED, S.REJECTED):
        return f"It is {operation.status}: only what its seller refused is corrected."
    of_account = refused_for_account(operation)
    if (operation.error or {}).get("recovery") != "correctable" and not of_account:
        return "Its seller does not say that it can be corrected."
    if operation.task_type not in _correctors:
        return "Only a purchase or a change is corrected: what else is asked is put right where it came from."
    later = corrected_as(operation)
    if later is not None and later.status != S.CANCELED:
        return f"It was corrected already: {later.reference}."
    return _obstacles[operation.task_type](operation) or (account_obstacle(operation) if of_account else "")


def corrected_as(operation: Operation) -> Operation | None:
    """The latest operation that was asked for in its place."""
    kept = operation.observations.filter(channel=Channel.HUMAN, raw_status__startswith=_CORRECTED)
    said = kept.order_by("-id").values_list("raw_status", flat=True).first()
    return Operation.objects.filter(reference=said.removeprefix(_CORRECTED)).first() if said else None


def correction_arguments(operation: Operation) -> dict[str, Any]:
    """What was asked for, to be corrected: without what every call carries, the account as it is named now
    where the seller refused it because of that."""
    return {**as_asked(operation), **account_now(operation)}


def as_asked(operation: Operation) -> dict[str, Any]:
    """What people last let go of an operation, without what every call carries."""
    asked = request_let_go(operation, left=True)
    return {name: value for name, value in asked.items() if name not in _OURS}


@transaction.atomic
def operation_correct(
    *, operation_id: uuid.UUID, user: User, arguments: Mapping[str, Any], reason: str
) -> Operation:
    """Ask anew for what a seller refused as correctable: a new operation with a new key, sent as shown once
    somebody else has approved it. Answers it. Raises SteeringRefusedError."""
    operation = steered(operation_id, user)
    if not reason.strip():
        raise SteeringRefusedError("reason", "Say why.")
    refused = correction_refusal(operation)
    if refused:
        raise SteeringRefusedError("state", refused)
    ours = sorted(_OURS & set(arguments))
    if ours:
        raise SteeringRefusedError("arguments", f"{', '.join(ours)}: set by Flightdeck itself.")
    differs = refused_for_account(operation) and anew_because(operation)
    if dict(arguments) == as_asked(operation) and not differs:
        raise SteeringRefusedError("arguments", "Nothing is corrected: the seller refused just this.")
    new = _correctors[operation.task_type](operation, user, arguments)
    steered_note(operation, user, f"{_CORRECTED}{new.reference}", reason)
    return new


def sellers_words(operation: Operation) -> str:
    """Why a seller refused an operation, in sentences of its own words: about which field, and what it
    suggests; empty where it said nothing."""
    error = operation.error or {}
    field, advice = _line(_words(error, "field")), _line(_words(error, "suggestion"))
    said = _line(_words(error, "message") or operation.message) or _line(_words(error, "code"))
    about = f" about {field}" if field else ""
    sentences = [f"{operation.seller.name} says{about}: {_quoted(said)}" if said or field else ""]
    sentences.append(f"It suggests: {_quoted(advice)}" if advice else "")
    return " ".join(filter(None, sentences))


def _quoted(words: str) -> str:
    """In quotation marks, as the end of a sentence."""
    return f"“{words}”" if words.endswith((".", "!", "?")) else f"“{words}”."


def anew_words(operation: Operation) -> str:
    """What people can do about what was refused because of the account, while they can and have not."""
    if not refused_for_account(operation) or operation.task_type not in _correctors:
        return ""
    later = corrected_as(operation)
    is_done = later is not None and later.status != S.CANCELED
    return "" if is_done or _obstacles[operation.task_type](operation) else account_advice(operation)


def question_about_subject(operation: Operation) -> Approval | None:
    """The open question that an operation which was asked for anew waits for."""
    if operation.subject_id is None:
        return None
    about = Approval.objects.filter(subject_type=operation.subject_type, subject_id=operation.subject_id)
    return about.filter(status=ApprovalStatus.OPEN).order_by("-pk").first()


def refusals_about(subject_type: str, subject_id: uuid.UUID | None) -> QuerySet[Operation]:
    """What sellers refused or failed about a subject, the latest first."""
    ended = (S.REJECTED, S.FAILED, S.CANCELED)
    about = Operation.objects.filter(subject_type=subject_type, subject_id=subject_id, status__in=ended)
    return about.select_related("seller").order_by("-pk")


def refusal_words(subject_type: str, subject_id: uuid.UUID | None) -> str:
    """What its seller said when it refused the latest of a subject; empty where nothing was refused."""
    latest = refusals_about(subject_type, subject_id).first() if subject_id else None
    return sellers_words(latest) if latest else ""


def _line(words: str) -> str:
    return " ".join(words.split())


def _lines(operation: Operation, error: dict[str, Any], where: str) -> list[str]:
    told = {
        "Field": where,
        "The seller says": _words(error, "message") or operation.message,
        "It suggests": _words(error, "suggestion"),
        "Code": _words(error, "code"),
    }
    lines = [f"{name}: {words}" for name, words in told.items() if words]
    anew = anew_words(operation) or correction_refusal(operation)
    anew = anew or "On its page it can be corrected and asked for anew."
    return [*lines, f"{operation.reference} has ended. {anew}"]


def _words(error: dict[str, Any], name: str) -> str:
    value = error.get(name)
    return value[:_MOST_WORDS] if isinstance(value, str) else ""
