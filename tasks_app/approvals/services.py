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
from django.db import IntegrityError, transaction

from tasks_app import clock
from tasks_app.approvals.delegation import why_not, why_not_in_place_of
from tasks_app.approvals.kinds import Outcome, kind_of, tell_closed
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.approvals.policies import FactsOf, no_facts
from tasks_app.approvals.policy_applying import Base, named_versions, policies_apply
from tasks_app.approvals.policy_escalation import approval_keep_waiting
from tasks_app.approvals.policy_roles import has_a_role, not_your_role
from tasks_app.lifecycle.references import next_reference
from tasks_app.lifecycle.transitions import Who, create, exact, transition
from tasks_app.people.actors import SYSTEM, actor_ensure, actor_key
from tasks_app.people.models import Team, User
from tasks_app.people.roles import DECIDE
from tasks_app.people.scope import advertiser_of, visible

log = structlog.get_logger(__name__)
_I_JSON_INTEGER = 2**53 - 1

Code = Literal[
    "not_found",
    "no_right",
    "own_request",
    "already_decided",
    "not_open",
    "changed",
    "comment",
    "impossible",
    "no_delegation",
    "claimed",
    "cannot_decide",
    "limits",
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
    # What policies judge by besides kind and amount.
    advertiser_id: uuid.UUID | None = None
    facts: FactsOf = no_facts


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
    """Ask people, as the policies in force demand; the same open question about the same subject is not asked
    twice."""
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


def _voided_before(question: Question) -> Approval | None:
    """The voided question in whose place this one is asked: what it showed is what this one differs from."""
    latest = Approval.objects.filter(
        kind=question.kind, subject_type=question.subject_type, subject_id=question.subject_id
    ).order_by("-pk")
    before = latest.defer("evidence").first()
    return before if before is not None and before.status == ApprovalStatus.VOIDED else None


def _ask(question: Question, requested_by: Who) -> Approval:
    evidence = exact(question.evidence)
    wanted = policies_apply(
        kind=question.kind,
        team_id=question.team.pk,
        advertiser_id=question.advertiser_id,
        amount=question.amount,
        currency=question.currency,
        facts_of=question.facts,
        base=Base(policy=question.policy, quorum=question.quorum, due_at=question.due_at),
    )
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
        amount=question.amount,
        currency=question.currency,
        evidence=evidence,
        evidence_digest=evidence_digest(evidence),
        replaces=_voided_before(question),
        **wanted,
    )
    create(
        approval,
        actor=requested_by,
        reason=question.title,
        metadata={"evidence_digest": approval.evidence_digest, **named_versions(approval.policies)},
    )
    return approval


def approval_decide(
    *,
    approval_id: uuid.UUID,
    user: User,
    verdict: str,
    comment: str = "",
    expected_digest: str = "",
    on_behalf_of: User | None = None,
    budgets: Mapping[int, Decimal] | None = None,
) -> Approval:
    """Record one person's decision and, where it settles the question, its effect: one commit.

    `expected_digest`: the evidence the person saw, where the caller knows it. A rejection needs a
    comment. `on_behalf_of`: for whom the person stands in, by a delegation in force. `budgets`: approve in
    part, line number as shown (from 1) to its budget in the approval's currency, 0 to leave the line out;
    what is not named stays. The subject is then changed, this question voided, the changed one asked in its
    place and this decision recorded on it: answers that one.

    Raises DecisionRefusedError; `changed` means that the question was voided and asked anew,
    `impossible` that the effect cannot be had (the kind says why) and nothing was recorded, `limits` that a
    budget is outside of them.
    """
    refused = None
    with transaction.atomic():
        approval = approval_locked(approval_id, user)
        _check(approval, user, verdict, comment, on_behalf_of)
        if expected_digest and expected_digest != approval.evidence_digest:
            raise DecisionRefusedError("changed", "This is not what you were shown: read it again.")
        if kind_of(approval).version(approval) != approval.subject_version:
            refused = _void_and_ask_again(approval)
        else:
            if budgets:
                approval = _amended(approval, user, verdict, budgets, on_behalf_of)
            _decide(approval, user, verdict, comment.strip(), on_behalf_of)
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


def approval_locked(approval_id: uuid.UUID, user: User) -> Approval:
    """One that `user` may see, held still until the caller's commit. Raises DecisionRefusedError
    (`not_found`)."""
    found = visible(Approval.objects.all(), user).filter(pk=approval_id)
    approval = found.select_for_update(of=("self",), no_key=True).first()
    if approval is None:
        raise DecisionRefusedError("not_found", "There is no such approval in your teams.")
    return approval


def decider_check(approval: Approval, user: User, principal: User | None = None) -> None:
    """Whether `user` may decide on it now, for themselves or in the place of `principal`. Raises
    DecisionRefusedError."""
    if user.is_service or not user.is_active or not user.has_perm(DECIDE):
        raise DecisionRefusedError("no_right", "You have no right to decide on approvals.")
    if not has_a_role(user, approval.roles):
        raise DecisionRefusedError("no_right", not_your_role(approval.roles))
    if approval.requested_by == actor_key(user):
        raise DecisionRefusedError("own_request", "You asked for this yourself: somebody else decides.")
    if approval.status != ApprovalStatus.OPEN:
        raise DecisionRefusedError("not_open", f"It is {approval.status} already.")
    decisions = list(approval.decisions.all())
    if any(one.actor == actor_key(user) for one in decisions):
        raise DecisionRefusedError("already_decided", "You have decided on this already.")
    refused = why_not(approval, user, decisions)
    if refused is None and principal is not None:
        refused = why_not_in_place_of(approval, user, principal, decisions)
    if refused is not None:
        raise DecisionRefusedError(*refused)
    if approval.due_at <= clock.now():
        raise DecisionRefusedError("not_open", "Its deadline has passed.")


def _check(approval: Approval, user: User, verdict: str, comment: str, principal: User | None) -> None:
    if verdict not in Decision.Verdict.values:
        raise ValueError(f"verdict is approve or reject, not {verdict!r}")
    decider_check(approval, user, principal)
    if verdict == Decision.Verdict.REJECT and not comment.strip():
        raise DecisionRefusedError("comment", "Say why you reject it.")


def _amended(
    approval: Approval, user: User, verdict: str, budgets: Mapping[int, Decimal], principal: User | None
) -> Approval:
    """The question about other amounts, asked in the place of this one; its own rules hold for it."""
    kind, by = kind_of(approval), actor_ensure(user=user)
    if verdict != Decision.Verdict.APPROVE or kind.amend is None:
        raise DecisionRefusedError("impossible", "Only recommendations can be approved in part.")
    if not kind.amend(approval, budgets):
        return approval
    reason = f"{by.name} approves other amounts: asked as changed"
    transition(approval, ApprovalStatus.VOIDED, actor=SYSTEM, reason=reason, metadata={"by": by.key})
    kind.reopen(approval)
    tell_closed(approval)
    asked = Approval.objects.select_for_update(no_key=True).get(
        replaces=approval, status=ApprovalStatus.OPEN, kind=approval.kind
    )
    decider_check(asked, user, principal)
    return asked


def _decide(approval: Approval, user: User, verdict: str, comment: str, principal: User | None) -> None:
    actor = actor_ensure(user=user)
    stood_for = actor_ensure(user=principal) if principal else None
    Decision.objects.create(
        approval=approval,
        actor=actor.key,
        actor_name=actor.name,
        verdict=verdict,
        comment=comment,
        evidence_digest=approval.evidence_digest,
        at=clock.now(),
        on_behalf_of=stood_for.key if stood_for else "",
        on_behalf_of_name=stood_for.name if stood_for else "",
    )
    approving = approval.decisions.filter(verdict=Decision.Verdict.APPROVE).count()
    if verdict == Decision.Verdict.APPROVE and approving < approval.quorum:
        return
    answer: Literal["approved", "rejected"] = (
        "approved" if verdict == Decision.Verdict.APPROVE else "rejected"
    )
    metadata = {"on_behalf_of": stood_for.key} if stood_for else None
    transition(approval, answer, actor=actor, reason=comment, metadata=metadata)
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
    if approval is None or approval_keep_waiting(approval):
        return False
    transition(approval, ApprovalStatus.EXPIRED, actor=SYSTEM)
    _close(approval, Outcome(answer="expired", actor=SYSTEM, comment="Nobody decided in time"))
    return True
