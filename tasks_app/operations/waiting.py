"""Operations and conflicts that wait on a person and that no approval asks about, for the queue."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Exists, Model, OuterRef, QuerySet

from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.waiting import Waiting, waiting_register
from tasks_app.lifecycle.names import link_to
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import READS, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.selectors import conflicts_of, operations_open
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION

M = TypeVar("M", bound=Model)
_WHO = "Ad Ops"
_OVERDUE = "It becomes overdue at its deadline, and people are asked whether to wait on."
_CONFLICT = "conflict_of_nobody"


@dataclass(frozen=True, kw_only=True)
class _Words:
    """How one state of an operation is put to people."""

    label: str
    title: str
    caught: str
    answers: tuple[tuple[str, str], ...]
    glyph: str = "person"


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
            ("Enter", "New credentials on the seller’s page answer every pause that asked for them."),
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
            ("Nothing", "It stays overdue and is looked at now and then."),
        ),
    ),
}


def register() -> None:
    """Called when the application starts."""
    waiting_register({str(status): words.label for status, words in _WORDS.items()}, operations_waiting)
    waiting_register({_CONFLICT: "Conflict of no team"}, conflicts_waiting)


def operations_waiting(viewer: User, kinds: Collection[str], limit: int) -> list[Waiting]:
    """The viewer's paused and overdue operations about which nobody is asked; overdue reads give up by
    themselves."""
    rows = operations_open(viewer).filter(status__in=kinds).exclude(task_type__in=READS)
    steers = viewer.has_perm(STEER_OPERATION)
    return [_operation(operation, steers) for operation in _unasked(rows, "operation")[:limit]]


def _operation(operation: Operation, steers: bool) -> Waiting:
    words = _WORDS[operation.status]
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
        note=operation.message,
        answers=words.answers,
        subject=("deal", subject) if subject else None,
    )


def conflicts_waiting(viewer: User, _kinds: Collection[str], limit: int) -> list[Waiting]:
    """Open contradictions about operations of no team: nobody can be asked, who steers decides."""
    rows = conflicts_of(viewer).filter(resolved_at__isnull=True, team__isnull=True).defer("first", "second")
    steers = viewer.has_perm(STEER_OPERATION)
    return [_conflict(conflict, steers) for conflict in _unasked(rows, "conflict").order_by("pk")[:limit]]


def _conflict(conflict: Conflict, steers: bool) -> Waiting:
    return Waiting(
        kind=_CONFLICT,
        label="Conflict",
        reference=conflict.reference,
        title="Ask the seller which of two answers holds",
        link=link_to(Conflict, conflict.pk),
        glyph="differs",
        seller=conflict.operation.seller.name,
        caught="A seller contradicts itself",
        who=_WHO,
        since=conflict.at,
        mine=steers,
        note=conflict.note,
        answers=(
            ("Ask", "Writes to the seller, with both payloads; nothing changes yet."),
            ("Nothing", "What was seen first stands; it belongs to no team, so nobody else is asked."),
        ),
    )


def _unasked(rows: QuerySet[M], kind: str) -> QuerySet[M]:
    """Those about which no open approval asks."""
    asked = Approval.objects.filter(subject_type=kind, subject_id=OuterRef("pk"), status=ApprovalStatus.OPEN)
    return rows.exclude(Exists(asked))
