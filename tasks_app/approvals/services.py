"""The one choke point of human decisions: admin, API and command all come through here.

Nobody decides on their own request, twice, without the right, or after what was shown has changed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Literal

from django.db import IntegrityError, transaction
from django.db.models import Count, F, OuterRef, QuerySet, Subquery

from tasks_app import clock
from tasks_app.approvals.counting import counted, given, given_on
from tasks_app.approvals.delegation import own_words, why_not, why_not_in_place_of
from tasks_app.approvals.kinds import (
    EffectRefusedNowError,
    Fate,
    Outcome,
    fate_of,
    kind_of,
    kinds_set_off,
    tell_closed,
)
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.approvals.policy_applying import Base, named_versions, policies_apply
from tasks_app.approvals.policy_escalation import approval_keep_waiting
from tasks_app.approvals.policy_roles import has_a_role, not_your_role
from tasks_app.approvals.question import TITLE, Question, evidence_digest
from tasks_app.approvals.selectors import approval_successor
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.references import next_reference
from tasks_app.lifecycle.transitions import Who, create, exact, moved_by, note, transition
from tasks_app.people.actors import SYSTEM, actor_ensure, actor_key
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE
from tasks_app.people.scope import advertiser_of, visible
from tasks_app.people.setting_off import set_off_by
from tasks_app.troubles.rows import each_row, held_back
from tasks_app.troubles.works import work_on

_EXPIRY = work_on("approval_expiry", "approval")
_COUNT = work_on("approvals_counted", "approval")

Code = Literal[
    "not_found",
    "no_right",
    "own_request",
    "already_decided",
    "not_open",
    "changed",
    "digest",
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


def approval_open(*, question: Question, requested_by: Who, opened_by: Who) -> Approval:
    """Return the open approval for a question; open one, as the policies in force say, if there is none.

    Args:
        question: What people are asked.
        requested_by: On whose behalf. They do not decide. If the system asks again, the last requester stays.
        opened_by: Who acted: the actor of the first audit entry.
    """
    asked = _asked(question)
    if asked is not None:
        return asked
    try:
        with transaction.atomic():
            return _ask(question, requested_by, opened_by)
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


def _asker(question: Question, requested_by: Who) -> str:
    """The key of who asks, or of who last asked what the system asks anew, however that one ended."""
    key = actor_key(requested_by)
    if key != SYSTEM:
        return key
    earlier = Approval.objects.filter(
        kind=question.kind, subject_type=question.subject_type, subject_id=question.subject_id
    ).exclude(requested_by=SYSTEM)
    return earlier.order_by("-pk").values_list("requested_by", flat=True).first() or SYSTEM


def _set_off(question: Question, asker: str) -> list[str]:
    """Who set off what it is about, but for `asker`, where that counts, and who had when it was asked."""
    counts = question.kind in kinds_set_off()
    now = set_off_by(question.subject_type, question.subject_id) if counts else ()
    earlier = Approval.objects.filter(
        kind=question.kind, subject_type=question.subject_type, subject_id=question.subject_id
    ).order_by("-pk")
    before = earlier.values_list("set_off_by", flat=True).first() or ()
    return sorted({*now, *before} - {asker})


def _voided_before(question: Question) -> Approval | None:
    """The voided question in whose place this one is asked: what it showed is what this one differs from."""
    latest = Approval.objects.filter(
        kind=question.kind, subject_type=question.subject_type, subject_id=question.subject_id
    ).order_by("-pk")
    before = latest.defer("evidence").first()
    return before if before is not None and before.status == ApprovalStatus.VOIDED else None


def _ask(question: Question, requested_by: Who, opened_by: Who) -> Approval:
    evidence, asker = exact(question.evidence), _asker(question, requested_by)
    wanted = policies_apply(
        kind=question.kind,
        judged_as=question.judged_as,
        team_id=question.team.pk if question.team else None,
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
        title=question.title[:TITLE],
        subject_type=question.subject_type,
        subject_id=question.subject_id,
        subject_version=question.subject_version,
        opened_by=actor_key(opened_by),
        requested_by=asker,
        set_off_by=_set_off(question, asker),
        amount=question.amount,
        currency=question.currency,
        evidence=evidence,
        evidence_digest=evidence_digest(evidence),
        replaces=question.instead_of or _voided_before(question),
        **wanted,
    )
    create(
        approval,
        actor=opened_by,
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
    expected_digest: str | None = None,
    on_behalf_of: User | None = None,
    budgets: Mapping[int, Decimal] | None = None,
) -> Approval:
    """Record one person's decision and, where it settles the question, its effect: one commit.

    `expected_digest`: of the evidence the person saw; every way in says it, and an empty one is refused. A
    rejection needs a comment. `on_behalf_of`: for whom the person stands in, by a delegation in force.
    `budgets`: approve in part, line number as shown (from 1) to its budget in the approval's currency, 0 to
    leave the line out; what is not named stays. The subject is then changed, this question voided, the
    changed one asked in its place and this decision recorded on it: answers that one.

    Raises DecisionRefusedError; `changed` means that the question was voided and asked anew,
    `impossible` that the effect cannot be had (the kind says why) and nothing was recorded, `limits` that a
    budget is outside of them.
    """
    with transaction.atomic():
        approval, refused = _judged(approval_id, user, verdict, comment, expected_digest, on_behalf_of)
        if not refused:
            if budgets:
                approval = _amended(approval, user, verdict, budgets, on_behalf_of)
            _decide(approval, user, verdict, comment.strip(), on_behalf_of)
    if refused:
        raise refused
    return approval


def approval_check(
    *,
    approval_id: uuid.UUID,
    user: User,
    verdict: str,
    comment: str,
    expected_digest: str,
    on_behalf_of: User | None,
) -> None:
    """Whether a decision would be taken now, its effect aside; records none. What was shown and has changed
    is voided and asked anew. Raises DecisionRefusedError."""
    with transaction.atomic():
        _, refused = _judged(approval_id, user, verdict, comment, expected_digest, on_behalf_of)
    if refused:
        raise refused


def _judged(
    approval_id: uuid.UUID,
    user: User,
    verdict: str,
    comment: str,
    expected_digest: str | None,
    on_behalf_of: User | None,
) -> tuple[Approval, DecisionRefusedError | None]:
    """The question, locked, and the refusal to raise once its commit is done where what was shown has
    changed: it is voided and asked anew. Raises DecisionRefusedError for every other reason."""
    approval = approval_locked(approval_id, user)
    _check(approval, user, verdict, comment, on_behalf_of)
    _check_digest(approval, expected_digest)
    fate = fate_of(approval)
    return approval, None if fate == Fate.STANDS else _void_and_ask_again(approval, fate)


def _check_digest(approval: Approval, said: str | None) -> None:
    if said == "":
        raise DecisionRefusedError("digest", "Say what you were shown: the digest of its evidence.")
    if said is not None and said != approval.evidence_digest:
        raise DecisionRefusedError("changed", "This is not what you were shown: read it again.")


def approvals_expire_due(*, limit: int = 100) -> int:
    """Close questions whose deadline passed; that never approves. Answers how many. One whose effect raises
    stays open and is put back."""
    due = Approval.objects.filter(status=ApprovalStatus.OPEN, due_at__lte=clock.now())
    due = due.exclude(pk__in=held_back(_EXPIRY)).order_by("due_at")
    return each_row(_EXPIRY, due.values_list("pk", flat=True)[:limit], _expire)


def approvals_count_again(*, limit: int = 100) -> int:
    """Approve what has enough approvals that count by now, though too few when the last was given: who gave
    one may decide again, or more roles may. Looks at open questions alone that have as many as they need,
    counting or not. Answers how many."""
    asked = _with_enough()
    count = given(asked)
    enough = [one.pk for one in asked if count[one.pk] >= one.quorum]
    return each_row(_COUNT, enough[:limit], _count_again)


def _with_enough() -> list[Approval]:
    approving = Decision.objects.filter(approval=OuterRef("pk"), verdict=Decision.Verdict.APPROVE).order_by()
    many = approving.values("approval").annotate(many=Count("pk")).values("many")
    asked = Approval.objects.filter(status=ApprovalStatus.OPEN, quorum__gt=1, due_at__gt=clock.now())
    rows = asked.exclude(pk__in=held_back(_COUNT)).annotate(many=Subquery(many))
    return list(rows.filter(many__gte=F("quorum")).defer("evidence").order_by("due_at", "pk"))


@transaction.atomic
def _count_again(approval_id: uuid.UUID) -> bool:
    asked = Approval.objects.filter(pk=approval_id, status=ApprovalStatus.OPEN, due_at__gt=clock.now())
    approval = asked.select_for_update(skip_locked=True, no_key=True).first()
    approving = counted([approval])[approval.pk] if approval else []
    if approval is None or len(approving) < approval.quorum:
        return False
    fate = fate_of(approval)
    if fate == Fate.STANDS:
        _end_by(approval, approving[-1])
    else:
        _void_and_ask_again(approval, fate)
    return fate == Fate.STANDS


def approval_void(
    *, approval: Approval, reason: str, actor: Who = SYSTEM, rights: Sequence[str] = ()
) -> None:
    """Withdraw an open question whose subject is gone or settled. `actor`: whose act that follows from, by
    one of `rights`."""
    by = moved_by(approval, actor, rights)
    transition(approval, ApprovalStatus.VOIDED, actor=by, reason=reason, rights=rights)
    tell_closed(approval)


def approval_ask_again(*, approval: Approval, reason: str, ask: Callable[[], object]) -> None:
    """Withdraw an open question that is not the one to be asked any more; `ask` puts that in its place."""
    transition(approval, ApprovalStatus.VOIDED, actor=SYSTEM, reason=reason)
    ask()
    tell_closed(approval)


def approval_ended_by(approval: Approval) -> str:
    """The actor's key of whoever ended it."""
    return approval_ends(approval).values_list("actor", flat=True).get()


def approval_ends(approval: Approval) -> QuerySet[AuditEntry]:
    """The audit entry of its end."""
    return AuditEntry.objects.filter(entity_type="approval", entity_id=approval.pk, seq=approval.version)


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
    if actor_key(user) in approval.asked_by:
        raise DecisionRefusedError("own_request", own_words(approval, actor_key(user)))
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
    if not kind.amend(approval, budgets, by.key):
        return approval
    reason = f"{by.name} approves other amounts: asked as changed"
    transition(approval, ApprovalStatus.VOIDED, actor=by, reason=reason, rights=(DECIDE,))
    question = kind.asks(approval)
    asked = approval_open(question=question, requested_by=approval.requested_by, opened_by=by)
    tell_closed(approval)
    if (asked.kind, asked.replaces_id) != (approval.kind, approval.pk):
        raise DecisionRefusedError("impossible", "It has changed meanwhile: look at it again.")
    decider_check(asked, user, principal)
    return asked


def _decide(approval: Approval, user: User, verdict: str, comment: str, principal: User | None) -> None:
    actor = actor_ensure(user=user)
    stood_for = actor_ensure(user=principal) if principal else None
    decision = Decision.objects.create(
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
    approving = given_on(approval)
    if verdict == Decision.Verdict.APPROVE and approving < approval.quorum:
        why = comment or f"Approved, {approving} of {approval.quorum}"
        note(approval, actor=actor, reason=why, metadata=_told(decision))
        return
    _end_by(approval, decision)


def _end_by(approval: Approval, decision: Decision) -> None:
    """The question ends by this word on it."""
    is_yes = decision.verdict == Decision.Verdict.APPROVE
    answer: Literal["approved", "rejected"] = "approved" if is_yes else "rejected"
    by, why = decision.actor, decision.comment
    transition(approval, answer, actor=by, reason=why, metadata=_told(decision))
    _close(approval, Outcome(answer=answer, actor=by, comment=why))


def _told(decision: Decision) -> dict[str, str]:
    """A decision as an entry of its question's trail tells of it."""
    told = {
        "decision": str(decision.pk),
        "verdict": decision.verdict,
        "evidence_digest": decision.evidence_digest,
    }
    return {**told, "on_behalf_of": decision.on_behalf_of} if decision.on_behalf_of else told


def _close(approval: Approval, outcome: Outcome) -> None:
    try:
        kind_of(approval).apply(approval, outcome)
    except EffectRefusedNowError as error:
        raise DecisionRefusedError("impossible", f"{error}.".replace("..", ".")) from error
    tell_closed(approval)


def _void_and_ask_again(approval: Approval, fate: Fate) -> DecisionRefusedError:
    reason = "What was shown has changed"
    if fate == Fate.MOOT:
        approval_void(approval=approval, reason=reason)
        return DecisionRefusedError("changed", "What it was about is gone.")
    approval_ask_again(approval=approval, reason=reason, ask=lambda: kind_of(approval).reopen(approval))
    again = "it was asked anew" if approval_successor(approval) else "nobody is asked about it any more"
    return DecisionRefusedError("changed", f"What you were shown has changed: {again}.")


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
