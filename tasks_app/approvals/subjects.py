"""A question lives as long as its subject: what becomes of an open one when something happens to that.

The room in which it happens says so here. Each question's kind says what it comes to (`kinds.fate_of`): it
stands, it is asked anew once somebody decides on it, or nobody is needed any more and it is withdrawn. Who
sets its subject off again meanwhile does not decide on it.

A question whose row somebody else holds at that moment (it is told of, claimed, decided) is passed over, for
who decides holds the subject next; the next sweep looks at it again.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from functools import reduce
from operator import or_

from django.db import models, transaction

from tasks_app.approvals.claims import claim_drop, claimant_of
from tasks_app.approvals.kinds import kind_of, kinds_set_off
from tasks_app.approvals.models import Approval, ApprovalStatus, QuestionReview
from tasks_app.approvals.services import approval_void
from tasks_app.lifecycle.transitions import Who, note
from tasks_app.people.actors import SYSTEM, actor_key, is_login
from tasks_app.people.models import Actor
from tasks_app.people.setting_off import led_to
from tasks_app.troubles.rows import each_row, held_back
from tasks_app.troubles.works import work_on

_REASON = 500  # characters of a reason that are kept
_WORK = work_on("questions_reviewed", "approval")
_AT_ONCE = 100


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
    idle = [one for one in _held(asked, reason) if kind_of(one).version(one) is None]
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
    for approval in _held(asked, reason):
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


def questions_look_again(*, limit: int = _AT_ONCE) -> int:
    """Withdraw what was passed over while somebody else held it, where nobody is needed any more; answers how
    many. What is still held is looked at by the next sweep."""
    rows = QuestionReview.objects.exclude(approval__in=held_back(_WORK)).order_by("pk")
    return each_row(_WORK, dict.fromkeys(rows.values_list("approval", flat=True)[:limit]), _look_again)


@transaction.atomic
def _look_again(approval_id: uuid.UUID) -> bool:
    # The question's lock first, as where a person decides it.
    rows = Approval.objects.filter(pk=approval_id)
    approval = rows.select_for_update(no_key=True, skip_locked=True).first()
    if approval is None:
        return False
    # Before it is judged: what happens to its subject meanwhile is looked at once more.
    reviews = QuestionReview.objects.filter(approval=approval).order_by("pk")
    reason = reviews.values_list("reason", flat=True).last() or ""
    reviews.delete()
    is_idle = approval.status == ApprovalStatus.OPEN and kind_of(approval).version(approval) is None
    if is_idle:
        approval_void(approval=approval, reason=reason)
    return is_idle


def _held(asked: models.QuerySet[Approval], reason: str) -> list[Approval]:
    """The open ones, locked. What somebody else holds at this moment is looked at again: who waits for it
    here, with the subject's lock, waits for whoever decides and waits for that."""
    rows = asked.filter(status=ApprovalStatus.OPEN).order_by("pk")
    ids = list(rows.values_list("pk", flat=True))
    if not ids:
        return []
    rows = rows.filter(pk__in=ids)
    held = list(rows.select_for_update(of=("self",), no_key=True, skip_locked=True))
    passed_over = set(ids) - {approval.pk for approval in held}
    QuestionReview.objects.bulk_create(
        QuestionReview(approval_id=pk, reason=reason[:_REASON]) for pk in sorted(passed_over)
    )
    return held
