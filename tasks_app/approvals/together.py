"""Deciding on several questions with one word: each by a decision of its own, none held up by another.

What became of each is kept as a report, written as it goes: after a crash it says what was not reached.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from django.db import DatabaseError, InterfaceError, OperationalError
from django.db.models import Prefetch

from tasks_app import clock
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.records import DecisionBatch, DecisionBatchItem
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.lifecycle.errors import TransitionError
from tasks_app.lifecycle.presenters import refusal_words
from tasks_app.lifecycle.refusals import refusal_of
from tasks_app.lifecycle.transitions import exact
from tasks_app.people.models import User
from tasks_app.people.scope import visible

log = structlog.get_logger(__name__)
MOST = 200  # in one batch
_UNKNOWN = "The database refused it; nothing of it was recorded."
_TRANSITION = "transition"  # the code of what a lifecycle refused
NOT_REACHED = "not_reached"
Refusal = DecisionRefusedError | TransitionError


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What became of one: recorded, where nothing refused it."""

    approval_id: uuid.UUID
    refusal: Refusal | None = None


@dataclass(frozen=True, kw_only=True)
class Reported:
    """One line of a report: `code` and `message` are empty where the decision was recorded. `approval`: None
    where the id names none that the viewer may see."""

    approval_id: uuid.UUID
    approval: Approval | None
    code: str
    message: str


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
    if not 0 < len(shown) <= MOST:
        raise ValueError(f"a batch has 1 to {MOST} approvals, not {len(shown)}")
    if verdict not in Decision.Verdict.values:
        raise ValueError(f"verdict is approve or reject, not {verdict!r}")
    batch = DecisionBatch.objects.create(
        user=user,
        verdict=verdict,
        comment=str(exact(comment)).strip(),
        shown=[str(approval_id) for approval_id in shown],
        at=clock.now(),
    )
    for approval_id, digest in shown.items():
        refusal = _refusal(approval_id, digest, user, verdict, comment, on_behalf_of)
        DecisionBatchItem.objects.create(
            batch=batch,
            approval=approval_id,
            code="" if refusal is None else code_of(refusal),
            message="" if refusal is None else words_of(refusal),
            at=clock.now(),
        )
    return batch


def approvals_decide(
    *, shown: Mapping[uuid.UUID, str], user: User, verdict: str, comment: str = ""
) -> list[Decided]:
    """As `batch_decide`, without a report: for callers that show what became of each at once."""
    return [
        Decided(approval_id=approval_id, refusal=_refusal(approval_id, digest, user, verdict, comment, None))
        for approval_id, digest in shown.items()
    ]


def batch_of(viewer: User, batch_id: uuid.UUID) -> DecisionBatch | None:
    """A batch of the viewer's own, with its items; None for anybody else's."""
    items = Prefetch("items", queryset=DecisionBatchItem.objects.order_by("id"))
    return DecisionBatch.objects.filter(user=viewer, pk=batch_id).prefetch_related(items).first()


def report_of(batch: DecisionBatch, viewer: User) -> list[Reported]:
    """What became of each, in the order in which they were to be decided."""
    ids = [uuid.UUID(text) for text in batch.shown]
    seen = {a.pk: a for a in visible(Approval.objects.filter(pk__in=ids).defer("evidence"), viewer)}
    items = {item.approval: item for item in batch.items.all()}
    return [_reported(approval_id, seen.get(approval_id), items.get(approval_id)) for approval_id in ids]


def code_of(refusal: Refusal) -> str:
    """Why, in one word."""
    return _TRANSITION if isinstance(refusal, TransitionError) else refusal.code


def words_of(refusal: Refusal) -> str:
    """Why, in a sentence."""
    return refusal_words(refusal) if isinstance(refusal, TransitionError) else str(refusal)


def _reported(approval_id: uuid.UUID, approval: Approval | None, item: DecisionBatchItem | None) -> Reported:
    if item is None:
        said = "It was not reached: decide again."
        return Reported(approval_id=approval_id, approval=approval, code=NOT_REACHED, message=said)
    return Reported(approval_id=approval_id, approval=approval, code=item.code, message=item.message)


def _refusal(
    approval_id: uuid.UUID, digest: str, user: User, verdict: str, comment: str, principal: User | None
) -> Refusal | None:
    try:
        approval_decide(
            approval_id=approval_id,
            user=user,
            verdict=verdict,
            comment=comment,
            expected_digest=digest or "none",
            on_behalf_of=principal,
        )
    except (DecisionRefusedError, TransitionError) as refused:
        return refused
    except (OperationalError, InterfaceError):
        raise
    except DatabaseError as error:
        known = refusal_of(error)
        if known is None:
            log.exception("decision_refused_by_database", approval=str(approval_id))
        return known or DecisionRefusedError("impossible", _UNKNOWN)
    return None
