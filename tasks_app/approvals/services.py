"""The one choke point of human decisions: admin, API and command all come through here.

Nobody decides on their own request, twice, without the right, or after what was shown has changed.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

import rfc8785
import structlog
from django.conf import settings
from django.db import IntegrityError, transaction

from tasks_app import clock
from tasks_app.approvals.kinds import Outcome, kind_of, tell_closed
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.lifecycle.references import next_reference
from tasks_app.lifecycle.transitions import Who, create, exact, transition
from tasks_app.people.actors import SYSTEM, actor_ensure, actor_key
from tasks_app.people.models import Team, User
from tasks_app.people.roles import DECIDE
from tasks_app.people.scope import advertiser_of, visible

log = structlog.get_logger(__name__)
_I_JSON_INTEGER = 2**53 - 1

Code = Literal[
    "not_found", "no_right", "own_request", "already_decided", "not_open", "changed", "comment", "impossible"
]


class DecisionRefusedError(Exception):
    """A decision was not taken; `code` says why in one word, the text in a sentence."""

    def __init__(self, code: Code, message: str) -> None:
        self.code = code
        super().__init__(message)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked: `subject_version` and the digest of `evidence` bind the answer to what was shown."""

    kind: str
    team: Team
    title: str
    subject_type: str
    subject_id: uuid.UUID
    subject_version: int
    evidence: Mapping[str, Any]
    policy: str
    amount: Decimal | None = None
    currency: str = ""
    due_at: datetime | None = None
    quorum: int = 1


def evidence_digest(evidence: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of the evidence in RFC 8785 form; integers too large for it stand as text."""
    return hashlib.sha256(rfc8785.dumps(_i_json(exact(evidence)))).hexdigest()


def _i_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _i_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_i_json(inner) for inner in value]
    return str(value) if isinstance(value, int) and abs(value) > _I_JSON_INTEGER else value


def approval_open(*, question: Question, requested_by: Who) -> Approval:
    """Ask people; the same open question about the same subject is not asked twice."""
    asked = _asked(question)
    if asked is not None:
        return asked
    try:
        with transaction.atomic():
            return _ask(question, requested_by)
    except IntegrityError:
        asked = _asked(question)  # somebody asked it meanwhile
        if asked is None:
            raise
        return asked


def _asked(question: Question) -> Approval | None:
    return Approval.objects.filter(
        kind=question.kind,
        subject_type=question.subject_type,
        subject_id=question.subject_id,
        status=ApprovalStatus.OPEN,
    ).first()


def _ask(question: Question, requested_by: Who) -> Approval:
    evidence = exact(question.evidence)
    approval = Approval(
        reference=next_reference("APR"),
        kind=question.kind,
        team=question.team,
        advertiser_id=advertiser_of(question.subject_type, question.subject_id),
        title=question.title[:200],
        subject_type=question.subject_type,
        subject_id=question.subject_id,
        subject_version=question.subject_version,
        requested_by=actor_key(requested_by),
        policy=question.policy,
        quorum=question.quorum,
        amount=question.amount,
        currency=question.currency,
        evidence=evidence,
        evidence_digest=evidence_digest(evidence),
        due_at=question.due_at or clock.now() + settings.APPROVAL_TTL,
    )
    create(
        approval,
        actor=requested_by,
        reason=question.title,
        metadata={"evidence_digest": approval.evidence_digest},
    )
    return approval


def approval_decide(
    *, approval_id: uuid.UUID, user: User, verdict: str, comment: str = "", expected_digest: str = ""
) -> Approval:
    """Record one person's decision and, where it settles the question, its effect: one commit.

    `expected_digest`: the evidence the person saw, where the caller knows it. A rejection needs a
    comment. Raises DecisionRefusedError; `changed` means that the question was voided and asked anew,
    `impossible` that the effect cannot be had (the kind says why) and nothing was recorded.
    """
    refused = None
    with transaction.atomic():
        approval = _locked(approval_id, user)
        _check(approval, user, verdict, comment)
        if expected_digest and expected_digest != approval.evidence_digest:
            raise DecisionRefusedError("changed", "This is not what you were shown: read it again.")
        if kind_of(approval).version(approval) != approval.subject_version:
            refused = _void_and_ask_again(approval)
        else:
            _decide(approval, user, verdict, comment.strip())
    if refused:
        raise refused
    return approval


def approvals_expire_due(*, limit: int = 100) -> int:
    """Close questions whose deadline passed; that never approves. Answers how many. One whose effect raises
    is logged and stays open, and stops no other."""
    due = Approval.objects.filter(status=ApprovalStatus.OPEN, due_at__lte=clock.now())
    done = 0
    for approval_id in list(due.order_by("due_at").values_list("pk", flat=True)[:limit]):
        try:
            done += _expire(approval_id)
        except Exception:  # whatever a kind's effect raises
            log.exception("expiry_failed", approval=str(approval_id))
    return done


def approval_void(*, approval: Approval, reason: str) -> None:
    """Withdraw an open question whose subject is gone or settled."""
    transition(approval, ApprovalStatus.VOIDED, actor=SYSTEM, reason=reason)
    tell_closed(approval)


def _locked(approval_id: uuid.UUID, user: User) -> Approval:
    found = visible(Approval.objects.all(), user).filter(pk=approval_id)
    approval = found.select_for_update(of=("self",), no_key=True).first()
    if approval is None:
        raise DecisionRefusedError("not_found", "There is no such approval in your teams.")
    return approval


def _check(approval: Approval, user: User, verdict: str, comment: str) -> None:
    if verdict not in Decision.Verdict.values:
        raise ValueError(f"verdict is approve or reject, not {verdict!r}")
    if user.is_service or not user.is_active or not user.has_perm(DECIDE):
        raise DecisionRefusedError("no_right", "You have no right to decide on approvals.")
    if approval.requested_by == actor_key(user):
        raise DecisionRefusedError("own_request", "You asked for this yourself: somebody else decides.")
    if approval.status != ApprovalStatus.OPEN:
        raise DecisionRefusedError("not_open", f"It is {approval.status} already.")
    if approval.decisions.filter(actor=actor_key(user)).exists():
        raise DecisionRefusedError("already_decided", "You have decided on this already.")
    if approval.due_at <= clock.now():
        raise DecisionRefusedError("not_open", "Its deadline has passed.")
    if verdict == Decision.Verdict.REJECT and not comment.strip():
        raise DecisionRefusedError("comment", "Say why you reject it.")


def _decide(approval: Approval, user: User, verdict: str, comment: str) -> None:
    actor = actor_ensure(user=user)
    Decision.objects.create(
        approval=approval,
        actor=actor.key,
        actor_name=actor.name,
        verdict=verdict,
        comment=comment,
        evidence_digest=approval.evidence_digest,
        at=clock.now(),
    )
    approving = approval.decisions.filter(verdict=Decision.Verdict.APPROVE).count()
    if verdict == Decision.Verdict.APPROVE and approving < approval.quorum:
        return
    answer: Literal["approved", "rejected"] = (
        "approved" if verdict == Decision.Verdict.APPROVE else "rejected"
    )
    transition(approval, answer, actor=actor, reason=comment)
    _close(approval, Outcome(answer=answer, actor=actor.key, comment=comment))


def _close(approval: Approval, outcome: Outcome) -> None:
    kind_of(approval).apply(approval, outcome)
    tell_closed(approval)


def _void_and_ask_again(approval: Approval) -> DecisionRefusedError:
    kind = kind_of(approval)
    transition(approval, ApprovalStatus.VOIDED, actor=SYSTEM, reason="What was shown has changed")
    if kind.version(approval) is None:
        tell_closed(approval)
        return DecisionRefusedError("changed", "What it was about is gone.")
    kind.reopen(approval)
    tell_closed(approval)
    return DecisionRefusedError("changed", "What you were shown has changed: it was asked anew.")


@transaction.atomic
def _expire(approval_id: uuid.UUID) -> bool:
    approval = (
        Approval.objects.filter(pk=approval_id, status=ApprovalStatus.OPEN, due_at__lte=clock.now())
        .select_for_update(skip_locked=True, no_key=True)
        .first()
    )
    if approval is None:
        return False
    transition(approval, ApprovalStatus.EXPIRED, actor=SYSTEM)
    _close(approval, Outcome(answer="expired", actor=SYSTEM, comment="Nobody decided in time"))
    return True
