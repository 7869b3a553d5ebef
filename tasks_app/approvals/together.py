"""Deciding on several questions with one word: each by a decision of its own, none held up by another.

What became of each is kept as a report, written as it goes: after a crash it says what was not reached.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from django.db import DatabaseError, connection, transaction
from django.db.models import Prefetch

from tasks_app import clock
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.records import DecisionBatch, DecisionBatchItem
from tasks_app.approvals.selectors import UNREAD, asked_now
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.database_connection import is_held_by_another
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.presenters import refusal_words
from tasks_app.lifecycle.refusals import refusal_of
from tasks_app.lifecycle.transitions import exact
from tasks_app.people.models import User
from tasks_app.people.scope import visible
from tasks_app.troubles.rows import connection_lost

log = structlog.get_logger(__name__)
MOST = 200  # in one batch
_BUSY = "Somebody else was at it at this moment; nothing of it was recorded: decide again."
_UNKNOWN = "The database refused it; nothing of it was recorded."
_FAILED = "It failed here; nothing of it was recorded."
_TRANSITION = "transition"  # the code of what a lifecycle refused
NOT_REACHED = "not_reached"
PENDING = "pending"
WITHDRAWN = "withdrawn"
_UNDECIDED = {
    NOT_REACHED: "It was not reached: decide again.",
    PENDING: "It is not recorded yet.",
    WITHDRAWN: "It was undone before it was recorded.",
}
Refusal = DecisionRefusedError | TransitionError


@dataclass(frozen=True, kw_only=True)
class Reported:
    """One line of a report: `code` and `message` are empty where the decision was recorded. `approval`: None
    where the id names none that the viewer may see. `left`: the question's status once the decision was
    recorded; empty where it was not. `now`: what is asked now, where what was shown was not that."""

    approval_id: uuid.UUID
    approval: Approval | None
    code: str
    message: str
    left: str = ""
    now: Approval | None = None


def batch_decide(
    *,
    shown: Mapping[uuid.UUID, str],
    user: User,
    verdict: str,
    comment: str = "",
    on_behalf_of: User | None = None,
) -> DecisionBatch:
    """Decide on each of `shown` (its id to the digest of what was shown; an empty digest is refused), in that
    order, each in its own commit, and keep what became of it.

    Raises ValueError for no or more than MOST questions, or a verdict there is not; what a lost connection
    raises: what was decided before stands, and is reported.
    """
    batch_check(len(shown), verdict)
    batch = DecisionBatch.objects.create(
        user=user,
        verdict=verdict,
        comment=str(exact(comment)).strip(),
        shown=[str(approval_id) for approval_id in shown],
        at=clock.now(),
    )
    for approval_id, digest in shown.items():
        with transaction.atomic():
            item_decide(batch, approval_id, digest, user, on_behalf_of)
    return batch


def batch_check(count: int, verdict: str) -> None:
    """Raises ValueError for no or more than MOST questions, or a verdict there is not."""
    if not 0 < count <= MOST:
        raise ValueError(f"a batch has 1 to {MOST} approvals, not {count}")
    if verdict not in Decision.Verdict.values:
        raise ValueError(f"verdict is approve or reject, not {verdict!r}")


def item_decide(
    batch: DecisionBatch, approval_id: uuid.UUID, digest: str, user: User, principal: User | None
) -> DecisionBatchItem:
    """Decide on one of a batch and keep what became of it, within the caller's transaction: either both are
    there or neither."""
    found = decided_alone(approval_id, digest, user, batch.verdict, batch.comment, principal)
    refusal = None if isinstance(found, Approval) else found
    return DecisionBatchItem.objects.create(
        batch=batch,
        approval=approval_id,
        code="" if refusal is None else code_of(refusal),
        message="" if refusal is None else words_of(refusal),
        status=found.status if isinstance(found, Approval) else "",
        at=clock.now(),
    )


def batch_of(viewer: User, batch_id: uuid.UUID) -> DecisionBatch | None:
    """A batch of the viewer's own, with its items; None for anybody else's."""
    items = Prefetch("items", queryset=DecisionBatchItem.objects.order_by("id"))
    return DecisionBatch.objects.filter(user=viewer, pk=batch_id).prefetch_related(items).first()


def report_of(batch: DecisionBatch, viewer: User) -> list[Reported]:
    """What became of each, in the order in which they were to be decided."""
    ids = [uuid.UUID(text) for text in batch.shown]
    seen = {a.pk: a for a in visible(Approval.objects.filter(pk__in=ids).defer("evidence"), viewer)}
    items = {item.approval: item for item in batch.items.all()}
    now = asked_now([seen[pk] for pk, item in items.items() if item.code in UNREAD and pk in seen], viewer)
    return [_reported(batch, one, seen.get(one), items.get(one), now.get(one)) for one in ids]


def code_of(refusal: Refusal) -> str:
    """Why, in one word."""
    return _TRANSITION if isinstance(refusal, TransitionError) else refusal.code


def words_of(refusal: Refusal) -> str:
    """Why, in a sentence."""
    return refusal_words(refusal) if isinstance(refusal, TransitionError) else str(refusal)


def _reported(
    batch: DecisionBatch,
    approval_id: uuid.UUID,
    approval: Approval | None,
    item: DecisionBatchItem | None,
    now: Approval | None,
) -> Reported:
    if item is None:
        code = WITHDRAWN if batch.withdrawn_at else PENDING if batch.pending else NOT_REACHED
        return Reported(approval_id=approval_id, approval=approval, code=code, message=_UNDECIDED[code])
    return Reported(
        approval_id=approval_id,
        approval=approval,
        code=item.code,
        message=item.message,
        left=item.status,
        now=now,
    )


def decided_alone(
    approval_id: uuid.UUID, digest: str, user: User, verdict: str, comment: str, principal: User | None
) -> Approval | Refusal:
    """One question of several as the decision left it, or why there is none; what the database asks at commit
    is asked here, so that one that it refuses takes nothing else with it."""
    try:
        with transaction.atomic():
            found = _asked(approval_id, digest, user, verdict, comment, principal)
            connection.check_constraints()
            return found
    except Exception as error:  # whatever a kind's effect raises: the next one is decided all the same
        if connection_lost():
            raise
        known = refusal_of(error) if isinstance(error, DatabaseError) else None
        if known is None:
            log.exception("decision_not_recorded", approval=str(approval_id))
        return known or DecisionRefusedError("impossible", _why(error))


def _why(error: Exception) -> str:
    if is_held_by_another(error):
        return _BUSY
    return _UNKNOWN if isinstance(error, DatabaseError) else _FAILED


def _asked(
    approval_id: uuid.UUID, digest: str, user: User, verdict: str, comment: str, principal: User | None
) -> Approval | Refusal:
    """A refusal is answered, not raised: what it did (a question voided and asked anew) stays."""
    try:
        return approval_decide(
            approval_id=approval_id,
            user=user,
            verdict=verdict,
            comment=comment,
            expected_digest=digest,
            on_behalf_of=principal,
        )
    except (DecisionRefusedError, TransitionError) as refused:
        return refused
