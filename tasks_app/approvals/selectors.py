"""Reading the queue: what waits for whom, what was decided, and why somebody may not decide."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, OuterRef, Q, QuerySet

from tasks_app import clock
from tasks_app.approvals.delegation import delegator_keys, own_words, why_not
from tasks_app.approvals.kinds import kinds_apart
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.approvals.policy_roles import has_a_role, not_your_role
from tasks_app.approvals.records import Delegation
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE
from tasks_app.people.scope import any_of, role_held, visible

_TOGETHER = 100  # offered beside one question, to be decided with it
UNREAD = ("changed", "digest")  # codes of a decision on something else than is asked, or on nothing said


def may_decide(viewer: User) -> bool:
    """Whether the viewer decides on approvals at all."""
    return viewer.is_active and not viewer.is_service and viewer.has_perm(DECIDE)


def approvals_of_teams(viewer: User, *, kind: str = "") -> QuerySet[Approval]:
    """Open ones of the viewer's teams, the most urgent first: of one kind, or of all but those that have a
    page of their own."""
    rows = visible(Approval.objects.filter(status=ApprovalStatus.OPEN), viewer).order_by("due_at", "id")
    return rows.filter(kind=kind) if kind else rows.exclude(kind__in=kinds_apart())


def approvals_waiting_for(viewer: User, *, kind: str = "") -> QuerySet[Approval]:
    """Of those, what the viewer can decide now: right and role held, not their request nor of somebody they
    stand in for, not decided by them or in their place, in time."""
    if not may_decide(viewer):
        return Approval.objects.none()
    key = actor_key(viewer)
    decided = Decision.objects.filter(Q(actor=key) | Q(on_behalf_of=key), approval=OuterRef("pk"))
    return (
        approvals_of_teams(viewer, kind=kind)
        .exclude(requested_by=key)
        .exclude(requested_by__in=delegator_keys(viewer))
        .exclude(set_off_by__contains=[key])
        .exclude(_set_off_by_principals(viewer))
        .filter(~Exists(decided), role_held(viewer), due_at__gt=clock.now())
    )


def _set_off_by_principals(viewer: User) -> Q:
    """Of open ones, those that somebody set off whom the viewer stands in for."""
    theirs = ArraySubquery(delegator_keys(viewer))
    return Q(any_of("set_off_by", theirs))


def approvals_asked_by(viewer: User, *, kind: str = "") -> QuerySet[Approval]:
    """Open ones that the viewer asked for: they wait for somebody else."""
    return approvals_of_teams(viewer, kind=kind).filter(requested_by=actor_key(viewer))


def approvals_claimed_by(viewer: User, *, kind: str = "") -> QuerySet[Approval]:
    """Open ones that the viewer has in hand now."""
    return approvals_of_teams(viewer, kind=kind).filter(
        claimed_by=actor_key(viewer), claimed_until__gt=clock.now()
    )


def approval_after(viewer: User, approval: Approval) -> Approval | None:
    """Return the approval that follows in the viewer's queue; after the last one, the first one."""
    waiting = approvals_waiting_for(viewer).exclude(pk=approval.pk).defer("evidence")
    later = Q(due_at__gt=approval.due_at) | Q(due_at=approval.due_at, pk__gt=approval.pk)
    return waiting.filter(later).first() or waiting.first()


def approvals_narrowed(rows: QuerySet[Approval], *, kind: str = "", late: bool = False) -> QuerySet[Approval]:
    """Of one kind (empty: of any), and where `late` only those whose deadline has passed."""
    if kind:
        rows = rows.filter(kind=kind)
    return rows.filter(due_at__lte=clock.now()) if late else rows


def approvals_shown(rows: QuerySet[Approval], limit: int) -> list[Approval]:
    """At most `limit` with their decisions, in two queries."""
    return list(rows.prefetch_related("decisions")[:limit])


def approvals_closed(viewer: User) -> QuerySet[Approval]:
    """Those that ended, however, the latest end first, with their decisions."""
    ended = visible(Approval.objects.exclude(status=ApprovalStatus.OPEN), viewer)
    return ended.order_by("-status_since", "-id").prefetch_related("decisions")


def approvals_together(viewer: User, approval: Approval, subjects: Collection[uuid.UUID]) -> list[Approval]:
    """The others of one kind about those subjects that the viewer can decide now."""
    others = approvals_waiting_for(viewer).filter(
        kind=approval.kind, subject_type=approval.subject_type, subject_id__in=subjects
    )
    return approvals_shown(others.exclude(pk=approval.pk), _TOGETHER)


def approval_successor(approval: Approval) -> Approval | None:
    """The open question about the same subject that took the place of a voided one: of its kind, or of
    another that was asked instead."""
    about = Approval.objects.filter(
        subject_type=approval.subject_type, subject_id=approval.subject_id, status=ApprovalStatus.OPEN
    )
    others = list(about.exclude(pk=approval.pk).order_by("pk"))
    return next(iter(_places(approval, others)), None)


def asked_now(approvals: Collection[Approval], viewer: User) -> dict[uuid.UUID, Approval]:
    """What is asked now in the place of each, by the id of each: itself while it is open, else what took its
    place; without those that ended."""
    ended = [one for one in approvals if one.status != ApprovalStatus.OPEN]
    about = Approval.objects.filter(subject_id__in={one.subject_id for one in ended})
    opened = list(visible(about.filter(status=ApprovalStatus.OPEN), viewer).order_by("pk")) if ended else []
    found = {one.pk: one for one in approvals if one.status == ApprovalStatus.OPEN}
    return found | {one.pk: places[0] for one in ended if (places := _places(one, opened))}


def _places(approval: Approval, opened: Collection[Approval]) -> list[Approval]:
    """Those of `opened` that stand in its place, of its own kind first."""
    same = [
        one
        for one in opened
        if (one.subject_type, one.subject_id) == (approval.subject_type, approval.subject_id)
        and (one.kind == approval.kind or one.pk > approval.pk)
    ]
    return sorted(same, key=lambda one: one.kind != approval.kind)


def obstacle(
    approval: Approval,
    viewer: User,
    decisions: Collection[Decision],
    held: Collection[Delegation] | None = None,
) -> str:
    """Why the viewer cannot decide on it, in a sentence; empty when they can. `held`: the delegations in
    force by which they stand in for others, read where not given.

    The same rules, in the same order, as `services.approval_decide`, which has the last word.
    """
    key = actor_key(viewer)
    if not may_decide(viewer):
        return "Deciding needs the right of an Approver; you may read it."
    if not has_a_role(viewer, approval.roles):
        return not_your_role(approval.roles)
    if key in approval.asked_by:
        return own_words(approval, key)
    if approval.status != ApprovalStatus.OPEN:
        return f"It is {approval.status} already."
    if any(decision.actor == key for decision in decisions):
        return "You have decided on this already."
    refused = why_not(approval, viewer, decisions, held)
    if refused is not None:
        return refused[1]
    if approval.due_at <= clock.now():
        return "Its deadline has passed: it expires, nothing is bought."
    return ""
