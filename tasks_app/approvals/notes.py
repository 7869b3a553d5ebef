"""The thread of an approval: what people said, and who took or passed on the work. Append-only."""

from __future__ import annotations

import uuid

from django.db import transaction
from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.records import ApprovalNote
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.lifecycle.transitions import exact
from tasks_app.notifications.services import About, notify
from tasks_app.people.actors import actor_ensure, actor_user
from tasks_app.people.models import Actor, User
from tasks_app.people.scope import visible

VIEW = "tasks_app.view_approval"
LONGEST = 4000


@transaction.atomic
def approval_comment(*, approval_id: uuid.UUID, user: User, body: str) -> ApprovalNote:
    """Say something about an approval, open or closed; whoever takes part in it is told.

    Raises DecisionRefusedError: `not_found`, `no_right` (who may not read approvals), `comment` (no words, or
    more than LONGEST).
    """
    approval = visible(Approval.objects.all(), user).filter(pk=approval_id).first()
    if approval is None:
        raise DecisionRefusedError("not_found", "There is no such approval in your teams.")
    if not user.is_active or not user.has_perm(VIEW):
        raise DecisionRefusedError("no_right", "You have no right to read approvals.")
    said = str(exact(body)).strip()
    if not said or len(said) > LONGEST:
        raise DecisionRefusedError("comment", f"A comment has 1 to {LONGEST} characters.")
    note = note_add(
        approval=approval, kind=ApprovalNote.Kind.COMMENT, actor=actor_ensure(user=user), body=said
    )
    for person in _participants(approval):
        if person.pk != user.pk:
            _tell(approval, note, person)
    return note


def note_add(
    *, approval: Approval, kind: str, actor: Actor, body: str = "", to: Actor | None = None
) -> ApprovalNote:
    """One more line in the thread."""
    return ApprovalNote.objects.create(
        approval=approval,
        kind=kind,
        actor=actor.key,
        actor_name=actor.name,
        to=to.key if to else "",
        to_name=to.name if to else "",
        body=body,
        at=clock.now(),
    )


def thread_of(approval: Approval) -> QuerySet[ApprovalNote]:
    """Its notes, oldest first; of an approval that the viewer was found to see."""
    return ApprovalNote.objects.filter(approval=approval).order_by("id")


def _participants(approval: Approval) -> list[User]:
    """Who asked, has it, decided or spoke before, of those who still see it."""
    spoke = ApprovalNote.objects.filter(approval=approval).values_list("actor", flat=True)
    decided = approval.decisions.values_list("actor", flat=True)
    keys = {approval.requested_by, approval.claimed_by, *spoke, *decided} - {""}
    people = [person for key in sorted(keys) if (person := actor_user(key)) and not person.is_service]
    return [p for p in people if visible(Approval.objects.filter(pk=approval.pk), p).exists()]


def _tell(approval: Approval, note: ApprovalNote, person: User) -> None:
    notify(
        kind="approval_comment",
        title=f"{note.actor_name} on {approval.reference}: {approval.title}",
        body=note.body,
        about=About(type="approval", id=approval.pk),
        person=person,
        key=f"approval_note:{note.pk}:{person.pk}",
    )
