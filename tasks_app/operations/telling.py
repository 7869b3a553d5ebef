"""What people are told of purchases: what is awaited, from whom, since when, and how long it takes.

A subscriber of the event bus: told outside the transition, at least once delivered and, by the event's own
name as the key, once told. Reads are not told of. Source: document 000, "User Communication".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tasks_app.adcp.errors import UNCODED
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.desk import text
from tasks_app.events.bus import Event, subscribe
from tasks_app.lifecycle.names import EntityName, names_of
from tasks_app.notifications.models import Notification
from tasks_app.notifications.moments import moment_token
from tasks_app.notifications.services import About, notifications_forget, notify
from tasks_app.operations.answer_stages import answer_of, answers_of
from tasks_app.operations.estimates import estimate_of, estimate_words
from tasks_app.operations.models import PENDING, SETTLED, Channel, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.overdue import KIND as OVERDUE
from tasks_app.operations.sweep import chore_register
from tasks_app.people.actors import actor_user
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.people.scope import asker_of
from tasks_app.sellers.explain import credentials_words

_SAID_CHARS = 500
_ID_CHARS = 255
_DECIDERS = "An approver"
_BUYS = frozenset({"create_media_buy", "update_media_buy"})
_Level = Notification.Level


@dataclass(frozen=True, kw_only=True)
class Told:
    """A notification about to be: its title, the sentences of its text, how loud, and for operators only."""

    title: str
    sentences: tuple[str, ...]
    level: str = _Level.INFO
    operators: bool = False


def register() -> None:
    """Called when the application starts."""
    subscribe("people", [f"operation.{status}" for status in _WORDS], operation_tell)
    chore_register("notifications_forgotten", notifications_forget)


def operation_tell(event: Event) -> None:
    """Tell of one status of one purchase. What it has left again meanwhile is waited for no longer: the later
    event tells what holds."""
    operation = Operation.objects.select_related("seller", "team").filter(pk=event.entity_id).first()
    status = str(event.payload["to"])
    if operation is None or not operation.is_mutation:
        return
    if status in (*PENDING, S.TIMED_OUT) and operation.status != status:
        return
    if status == S.COMPLETED and operation.task_type not in _BUYS and operation.settled_by == Channel.REPLY:
        return  # nobody was told that it is awaited
    told = _WORDS[status](operation, event.at)
    operators = told.operators or operation.team is None
    notify(
        kind=f"operation_{status}",
        title=told.title,
        body="\n".join(sentence for sentence in told.sentences if sentence),
        level=told.level,
        about=About(type="operation", id=operation.pk),
        team=None if operators else operation.team,
        right=STEER_OPERATION if operators else "",
        not_for=str(event.payload.get("actor", "")),
        key=_key(operation, event, status),
    )
    if operators and status in SETTLED:
        _tell_asker(operation, told, event)


def _tell_asker(operation: Operation, told: Told, event: Event) -> None:
    """Tell who asked of the end too, unless they are operators, who are told already, or ended it."""
    key = asker_of("operation", operation.pk)
    asker = actor_user(key)
    if asker is None or asker.is_service or asker.has_perm(STEER_OPERATION):
        return
    if key == event.payload.get("actor"):
        return
    notify(
        kind="asked_operation",
        title=told.title,
        body="\n".join(sentence for sentence in told.sentences if sentence),
        level=told.level,
        about=About(type="operation", id=operation.pk),
        person=asker,
        key=f"asked:{':'.join(str(part) for part in event.dedup_id)}",
    )


def _key(operation: Operation, event: Event, status: str) -> str:
    """The event's own name; a seller that goes to and fro between submitted and working is told of once for
    each deadline."""
    if status in (S.SUBMITTED, S.WORKING) and operation.deadline_at is not None:
        return f"operation:{operation.pk}:{status}:{operation.deadline_at:%Y%m%dT%H%M%S}"
    return ":".join(str(part) for part in event.dedup_id)


def _waiting(operation: Operation, since: datetime) -> Told:
    return Told(
        title=f"Waiting for {operation.seller.name}: {_what(operation)}",
        sentences=(
            f"Flightdeck waits for the answer of {operation.seller.name} to {_what(operation)}, "
            f"since {moment_token(since)}.",
            _estimate(operation),
            _overdue_then(operation),
            _said(operation),
        ),
    )


def _working(operation: Operation, since: datetime) -> Told:
    return Told(
        title=f"{operation.seller.name} is working on {_what(operation)}",
        sentences=(
            f"Flightdeck waits for the result of {_what(operation)} from {operation.seller.name}, "
            f"since {moment_token(since)}.",
            _estimate(operation),
            _overdue_then(operation),
            _said(operation),
        ),
    )


def _asks(operation: Operation, since: datetime) -> Told:
    answers = answers_of([operation])
    answer = answers.of(operation)
    us = operation.team or "Ad Ops"
    can_reply = answers.may_be_given(operation)
    needed = f"reply needed from {us}" if can_reply else f"{us} must write to the seller"
    awaited = f"{operation.seller.name} asks us a question; {needed}. Asked {moment_token(since)}."
    return Told(
        title=f"{operation.seller.name} asks about {_what(operation)}",
        sentences=(
            answer.said(moment_token) if answer else awaited,
            _said(operation) or f"{operation.seller.name} did not say what it asks.",
            _overdue_then(operation),
        ),
        level=_Level.WARNING,
    )


def _locked_out(operation: Operation, since: datetime) -> Told:
    answer = answer_of(operation)
    awaited = (
        f"Credentials for {operation.seller.name} are needed from Ad Ops, since {moment_token(since)}.",
        credentials_words(operation.seller),
    )
    return Told(
        title=f"{operation.seller.name} wants credentials for {_what(operation)}",
        sentences=(
            *((answer.said(moment_token),) if answer else awaited),
            _said(operation),
            _overdue_then(operation),
        ),
        level=_Level.WARNING,
        operators=True,
    )


def _overdue(operation: Operation, since: datetime) -> Told:
    question = Approval.objects.filter(
        kind=OVERDUE, subject_type="operation", subject_id=operation.pk, status=ApprovalStatus.OPEN
    ).first()
    asked = f" ({question.reference})" if question else ""
    return Told(
        title=f"Overdue: {operation.seller.name} has not answered {_what(operation)}",
        sentences=(
            f"{operation.team or _DECIDERS} must decide: keep waiting or stop{asked}. "
            f"Overdue since {moment_token(since)}.",
            f"Sent {moment_token(operation.sent_at)}." if operation.sent_at else "",
            _estimate(operation),
            "The seller may still act; a late answer is still taken.",
        ),
        level=_Level.WARNING,
    )


def _approved(operation: Operation, at: datetime) -> Told:
    bought, new = media_buy_id(operation), operation.task_type == "create_media_buy"
    named = f": media buy {bought}" if bought else ""
    unnamed = operation.task_type in _BUYS and not bought
    late = "It came after its deadline: a person decides whether it is kept." if operation.overdue_at else ""
    done = f"{operation.seller.name} {'approved' if new else 'completed'} {_what(operation)}"
    return Told(
        title=f"{done}: the seller named no media buy" if unnamed else f"{done}{named}",
        sentences=(_ended("Approved" if new else "Completed", operation, at), late, _said(operation)),
        level=_Level.WARNING if late or unnamed else _Level.INFO,
    )


def _rejected(operation: Operation, at: datetime) -> Told:
    return Told(
        title=f"{operation.seller.name} rejected {_what(operation)}",
        sentences=(_ended("Rejected", operation, at), _why(operation)),
        level=_Level.WARNING,
    )


def _failed(operation: Operation, at: datetime) -> Told:
    return Told(
        title=f"{_what(operation)} with {operation.seller.name} failed",
        sentences=(_ended("Failed", operation, at), _why(operation)),
        level=_Level.WARNING,
    )


def _canceled(operation: Operation, at: datetime) -> Told:
    return Told(
        title=f"{_what(operation)} with {operation.seller.name} was canceled",
        sentences=(_ended("Canceled", operation, at), _why(operation)),
    )


_WORDS: dict[str, Callable[[Operation, datetime], Told]] = {
    S.SUBMITTED.value: _waiting,
    S.WORKING.value: _working,
    S.INPUT_REQUIRED.value: _asks,
    S.AUTH_REQUIRED.value: _locked_out,
    S.TIMED_OUT.value: _overdue,
    S.COMPLETED.value: _approved,
    S.REJECTED.value: _rejected,
    S.FAILED.value: _failed,
    S.CANCELED.value: _canceled,
}


def media_buy_id(operation: Operation) -> str:
    """The media buy that the seller's result names; empty where it names none that can be one."""
    named = operation.result.get("media_buy_id") if isinstance(operation.result, dict) else None
    return named if isinstance(named, str) and 0 < len(named) <= _ID_CHARS else ""


def _what(operation: Operation) -> str:
    """create_media_buy for DEAL-2026-000123 (Lindqvist Cold Brew)."""
    subject = _subject(operation)
    if subject is None:
        return f"{operation.task_type} ({operation.reference})"
    part = f" ({subject.part_of})" if subject.part_of else ""
    return f"{operation.task_type} for {subject.reference}{part}"


def _subject(operation: Operation) -> EntityName | None:
    if operation.subject_id is None:
        return None
    return names_of(operation.subject_type, [operation.subject_id]).get(operation.subject_id)


def _estimate(operation: Operation) -> str:
    return estimate_words(estimate_of(seller_id=operation.seller_id, task_type=operation.task_type))


def _overdue_then(operation: Operation) -> str:
    if operation.deadline_at is None:
        return ""
    return f"Overdue {moment_token(operation.deadline_at)}; then a person is asked."


def _ended(word: str, operation: Operation, at: datetime) -> str:
    if operation.sent_at is None:
        return f"{word} {moment_token(at)}; it was never sent."
    took = text.duration(at - operation.sent_at)
    seen = f", seen by {operation.settled_by}" if operation.settled_by else ""
    return f"{word} {moment_token(at)}, {took} after it was sent{seen}."


def _why(operation: Operation) -> str:
    """The seller's code, field and words."""
    error = operation.error if isinstance(operation.error, dict) else {}
    code, field = str(error.get("code") or ""), str(error.get("field") or "")
    code = "" if code == UNCODED else code
    words = _cut(str(error.get("message") or "") or operation.message)
    named = f"{code} ({field})" if code and field else code
    return ": ".join(part for part in (named, words) if part) or "No reason was given."


def _said(operation: Operation) -> str:
    words = _cut(operation.message)
    return f"{operation.seller.name} says: {words}" if words else ""


def _cut(words: str) -> str:
    one_line = " ".join(words.split())
    return one_line if len(one_line) <= _SAID_CHARS else f"{one_line[: _SAID_CHARS - 1]}…"
