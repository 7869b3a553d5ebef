"""Withdrawal of open approvals after something happened to their subject.

An approval's kind says what becomes of it (`kinds.fate_of`): it stands, it is replaced when somebody decides
it, or it is withdrawn. Approvals withdrawn in the commit that changes their subject skip rows that another
transaction has locked, because whoever decides an approval locks it before the subject. A decision checks the
subject again, and the subscriber `orders/obsolete_approvals.py` withdraws the skipped rows later.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from functools import reduce
from operator import or_

from django.db import models, transaction

from tasks_app.approvals.claims import claim_drop, claimant_of
from tasks_app.approvals.kinds import kind_of, kinds_set_off
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import approval_void
from tasks_app.lifecycle.transitions import Who, note
from tasks_app.people.actors import SYSTEM, actor_key, is_login
from tasks_app.people.models import Actor
from tasks_app.people.setting_off import led_to

_REASON = 500  # characters of a reason that are kept


def questions_review(
    subject_type: str,
    subjects: Collection[uuid.UUID],
    *,
    reason: str,
    kinds: Collection[str] = (),
    actor: Who = SYSTEM,
    rights: Sequence[str] = (),
) -> int:
    """Something happened to subjects: withdraw what nobody needs to decide about them any more, in the
    caller's commit. `kinds`: those alone; `actor`: whose act that follows from, by one of `rights`. Answers
    how many were withdrawn."""
    asked = Approval.objects.filter(subject_type=subject_type, subject_id__in=subjects)
    if kinds:
        asked = asked.filter(kind__in=kinds)
    idle = [one for one in _held(asked) if kind_of(one).version(one) is None]
    for approval in idle:
        approval_void(approval=approval, reason=reason[:_REASON], actor=actor, rights=rights)
    return len(idle)


def questions_withdraw(
    subject_type: str,
    subject_id: uuid.UUID,
    *,
    kinds: Collection[str],
    reason: str,
    actor: Who = SYSTEM,
    rights: Sequence[str] = (),
) -> None:
    """What `kinds` ask about a subject has an answer: withdraw it, in the caller's commit. `actor`: whose act
    that follows from, by one of `rights`."""
    asked = Approval.objects.filter(subject_type=subject_type, subject_id=subject_id, kind__in=kinds)
    for approval in _held(asked):
        approval_void(approval=approval, reason=reason[:_REASON], actor=actor, rights=rights)


def questions_end_with_job(
    awaited: Collection[uuid.UUID], *, reason: str, actor: Who, rights: Sequence[str]
) -> None:
    """A job that waited for these has ended: withdraw those that only it needed, in the caller's commit and
    before anything else of the job is locked."""
    asked = Approval.objects.filter(pk__in=awaited, status=ApprovalStatus.OPEN).order_by("pk")
    for approval in asked.select_for_update(no_key=True):
        if not kind_of(approval).outlives_job:
            approval_void(approval=approval, reason=reason[:_REASON], actor=actor, rights=rights)


def questions_set_off(subject_type: str, subject_id: uuid.UUID | None, *, actor: Who, why: str) -> int:
    """Somebody sets a subject off again: they decide on nothing that is asked about it or about what it leads
    to. In the caller's commit, and before what they do locks anything else. Answers how many open questions
    name them from now on."""
    key = actor_key(actor)
    if subject_id is None or not is_login(key):
        return 0
    found = led_to(subject_type, subject_id).items()
    about = reduce(or_, (models.Q(subject_type=kind, subject_id__in=ids) for kind, ids in found))
    asked = Approval.objects.filter(about, kind__in=kinds_set_off(), status=ApprovalStatus.OPEN)
    # Whoever decides at this moment is waited for: a question is decided before, or by somebody else.
    held = asked.order_by("pk").select_for_update(of=("self",), no_key=True)
    theirs = [approval for approval in held if key not in approval.set_off_by]
    for approval in theirs:
        _name(approval, actor, key, why)
    return len(theirs)


def _name(approval: Approval, actor: Who, key: str, why: str) -> None:
    names = sorted({*approval.set_off_by, key})
    note(approval, actor=actor, reason=f"Set off again: {why}"[:_REASON], changes={"set_off_by": names})
    if claimant_of(approval) == key:
        claim_drop(approval, Actor.objects.get(key=key))


@transaction.atomic
def withdraw_if_obsolete(approval_id: uuid.UUID, reason: str) -> None:
    """Withdraw an open approval that needs no decision.

    Waits for whoever holds the approval, so the caller holds no lock on its subject.
    """
    approval = Approval.objects.select_for_update(no_key=True).get(pk=approval_id)
    if approval.status == ApprovalStatus.OPEN and kind_of(approval).version(approval) is None:
        approval_void(approval=approval, reason=reason[:_REASON])


def _held(asked: models.QuerySet[Approval]) -> list[Approval]:
    """Return the open ones that no other transaction has locked, locked."""
    rows = asked.filter(status=ApprovalStatus.OPEN).order_by("pk")
    return list(rows.select_for_update(of=("self",), no_key=True, skip_locked=True))
