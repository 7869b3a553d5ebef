"""Operations that wait on a person and that no approval asks about, for the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Exists, F, OuterRef, QuerySet

from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.waiting import Asked, Source, Waiting, waiting_register
from tasks_app.lifecycle.names import link_to
from tasks_app.operations.answer_stages import (
    ASK_WHETHER,
    LET_BE_SENT,
    Answer,
    Answers,
    ShutBy,
    Stage,
    answers_of,
)
from tasks_app.operations.models import READS, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.selectors import answer_looked_after, operations_open
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.explain import by_two

_WHO = "Ad Ops"
_OVERDUE = "It becomes overdue at its deadline, and people are asked whether to wait on."


@dataclass(frozen=True, kw_only=True)
class _Words:
    """How one state of an operation is put to people."""

    label: str
    title: str
    caught: str
    answers: tuple[tuple[str, str], ...]
    glyph: str = "person"


# Of a question that the seller's transport gave no way to answer.
_UNANSWERABLE = (
    ("Write", "The seller’s transport gave no way to answer: write to it, or stop waiting."),
    ("Nothing", _OVERDUE),
)
# Of a question that was answered, where that came to nothing so far.
_LOST: dict[str, Any] = {
    "title": ASK_WHETHER,
    "caught": "Our answer left, and has no reply",
    "answers": (("Write", "Ask the seller what it has, or stop waiting."), ("Nothing", _OVERDUE)),
}
_SHUT = {
    ShutBy.SELLER: ("Nothing is sent to its seller", "Its seller’s page says who lets it be called again."),
    ShutBy.RISK: ("Its seller replays no key", "Somebody accepts that risk on its seller’s page."),
    ShutBy.ACCOUNT: ("Its account is not active", "Its account’s page says who makes it active."),
}
_WORDS: dict[str, _Words] = {
    S.INPUT_REQUIRED: _Words(
        label="Input required",
        title="Answer the seller’s question",
        caught="The seller asks",
        answers=(
            ("Answer", "It is frozen, a second person releases it, and it is sent once."),
            ("Nothing", _OVERDUE),
        ),
    ),
    S.AUTH_REQUIRED: _Words(
        label="Authorisation required",
        title="Give the seller new credentials",
        caught="Credentials refused",
        answers=(
            ("Enter", f"{by_two('New credentials on the seller’s page answer what asked for them')}."),
            ("Nothing", _OVERDUE),
        ),
    ),
    S.TIMED_OUT: _Words(
        label="Overdue",
        title="Look after it: no answer",
        caught="Past its deadline",
        glyph="overdue",
        answers=(
            ("Stop", "Somebody else decides whether to give it up; the seller may still act."),
            ("Nothing", "It stays overdue."),
        ),
    ),
}


def register() -> None:
    """Called when the application starts."""
    waiting_register(
        Source(
            labels={str(status): words.label for status, words in _WORDS.items()},
            rows=operations_waiting,
            tell=_operations_told,
        )
    )


def operations_waiting(viewer: User, asked: Asked) -> QuerySet[Operation]:
    """The viewer's paused and overdue operations about which nobody is asked, and that nobody has answered;
    overdue reads give up by themselves. Who steers acts on them."""
    if asked.mine and not viewer.has_perm(STEER_OPERATION):
        return Operation.objects.none()
    rows = operations_open(viewer).filter(status__in=asked.kinds).exclude(task_type__in=READS)
    if asked.late:
        rows = rows.filter(deadline_at__lte=clock.now())
    asked_about = Approval.objects.filter(
        subject_type="operation", subject_id=OuterRef("pk"), status=ApprovalStatus.OPEN
    )
    rows = rows.exclude(Exists(asked_about)).exclude(answer_looked_after())
    return rows.order_by(F("deadline_at").asc(nulls_last=True), "pk")


def _operations_told(viewer: User, rows: Sequence[Operation]) -> list[Waiting]:
    steers, answers = viewer.has_perm(STEER_OPERATION), answers_of(rows)
    return [_operation(one, steers, answers) for one in rows]


def _words(operation: Operation, answers: Answers) -> _Words:
    """Of a question that was answered, what became of the answer."""
    words, answer = _WORDS[operation.status], answers.of(operation)
    if answer is not None:
        return replace(words, **_answered(answer), glyph="person")
    if operation.status == S.INPUT_REQUIRED and not answers.may_be_given(operation):
        return replace(words, answers=_UNANSWERABLE)
    return words


def _answered(answer: Answer) -> dict[str, Any]:
    if answer.stage is Stage.LOST:
        return _LOST
    nothing = ("Nothing", _OVERDUE)
    if not answer.is_shut or answer.shut_by is None:
        return {"title": answer.words, "caught": "The seller asked", "answers": (nothing,)}
    caught, does = _SHUT[answer.shut_by]
    return {"title": LET_BE_SENT, "caught": caught, "answers": (("Let", does), nothing)}


def _operation(operation: Operation, steers: bool, answers: Answers) -> Waiting:
    words, answer = _words(operation, answers), answers.of(operation)
    subject = operation.subject_id if operation.subject_type == "deal" else None
    return Waiting(
        kind=str(operation.status),
        label=words.label,
        reference=operation.reference,
        title=words.title,
        link=link_to(Operation, operation.pk),
        glyph=words.glyph,
        seller=operation.seller.name,
        caught=words.caught,
        who=_WHO,
        since=operation.status_since,
        due_at=operation.deadline_at,
        mine=steers,
        note=answer.sentence if answer is not None else operation.message,
        answers=words.answers,
        subject=("deal", subject) if subject else None,
    )
