"""Who has an approval in hand. A claim says "I am at it", for a while; it forbids nobody else to decide.

A claim that locked others out would make a question wait on somebody who left for lunch, with its deadline
running; what must not happen twice is a decision, and that the choke point refuses anyway (decision 0027).
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import transaction

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.notes import note_add
from tasks_app.approvals.records import ApprovalNote
from tasks_app.approvals.services import DecisionRefusedError, approval_locked, decider_check
from tasks_app.lifecycle.transitions import exact
from tasks_app.notifications.services import About, notify
from tasks_app.people.actors import actor_ensure, actor_key, actor_names
from tasks_app.people.models import Actor, User

_REASON = 500
Kind = ApprovalNote.Kind


@transaction.atomic
def approval_claim(*, approval_id: uuid.UUID, user: User) -> Approval:
    """Take it, for settings.APPROVAL_CLAIM or until its deadline; again: for longer.

    Raises DecisionRefusedError as a decision does (who may not decide claims nothing), and `claimed` while
    somebody else has it.
    """
    approval = approval_locked(approval_id, user)
    decider_check(approval, user)
    holder = claimant_of(approval)
    if holder and holder != actor_key(user):
        name = actor_names({holder})[holder]
        raise DecisionRefusedError("claimed", f"{name} has it. It can be reassigned, and you may decide.")
    _claim(approval, user)
    if not holder:
        note_add(approval=approval, kind=Kind.CLAIM, actor=actor_ensure(user=user))
    return approval


@transaction.atomic
def approval_release(*, approval_id: uuid.UUID, user: User) -> Approval:
    """Give it back. Raises DecisionRefusedError: `not_found`, `not_open`, `claimed`: it is not theirs."""
    approval = approval_locked(approval_id, user)
    if approval.is_terminal:
        raise DecisionRefusedError("not_open", f"It is {approval.status} already.")
    if claimant_of(approval) != actor_key(user):
        raise DecisionRefusedError("claimed", "You have not claimed it.")
    claim_drop(approval, actor_ensure(user=user))
    return approval


@transaction.atomic
def approval_reassign(*, approval_id: uuid.UUID, user: User, to: User, comment: str = "") -> Approval:
    """Give it to somebody who may decide on it, whoever has it now; they are told.

    Raises DecisionRefusedError as a decision does, for `user` and for `to` (`cannot_decide`).
    """
    approval = approval_locked(approval_id, user)
    decider_check(approval, user)
    _check_receiver(approval, to)
    _claim(approval, to)
    actor, said = actor_ensure(user=user), str(exact(comment)).strip()[:_REASON]
    note = note_add(approval=approval, kind=Kind.REASSIGN, actor=actor, to=actor_ensure(user=to), body=said)
    if to.pk != user.pk:
        notify(
            kind="approval_reassigned",
            title=f"{actor.name} asks you to decide: {approval.title}",
            body=said,
            about=About(type="approval", id=approval.pk),
            person=to,
            key=f"approval_note:{note.pk}:{to.pk}",
        )
    return approval


def claim_drop(approval: Approval, actor: Actor) -> None:
    """Whoever has it gives it back; the caller holds the approval."""
    approval.claimed_by, approval.claimed_until = "", None
    approval.save(update_fields=["claimed_by", "claimed_until"])
    note_add(approval=approval, kind=Kind.RELEASE, actor=actor)


def claimant_of(approval: Approval) -> str:
    """The actor's key of who has it now; empty where nobody has, or their time is over."""
    until = approval.claimed_until
    return approval.claimed_by if until is not None and until > clock.now() else ""


def _check_receiver(approval: Approval, to: User) -> None:
    try:
        approval_locked(approval.pk, to)
        decider_check(approval, to)
    except DecisionRefusedError as refused:
        raise DecisionRefusedError("cannot_decide", f"{to} cannot decide on this.") from refused


def _claim(approval: Approval, user: User) -> None:
    approval.claimed_by = actor_ensure(user=user).key
    approval.claimed_until = min(clock.now() + settings.APPROVAL_CLAIM, approval.due_at)
    approval.save(update_fields=["claimed_by", "claimed_until"])
