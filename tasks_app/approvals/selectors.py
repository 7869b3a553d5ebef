"""Reading the queue: what waits for whom, what was decided, and why somebody may not decide."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.db.models import Prefetch, QuerySet

from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.approvals.policy_roles import has_a_role, not_your_role
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE
from tasks_app.people.scope import role_held, visible


def may_decide(viewer: User) -> bool:
    """Whether the viewer decides on approvals at all."""
    return viewer.is_active and not viewer.is_service and viewer.has_perm(DECIDE)


def approvals_of_teams(viewer: User) -> QuerySet[Approval]:
    """Open ones of the viewer's teams, the most urgent first."""
    return visible(Approval.objects.filter(status=ApprovalStatus.OPEN), viewer).order_by("due_at", "id")


def approvals_waiting_for(viewer: User) -> QuerySet[Approval]:
    """Open ones the viewer can decide now: right and role held, not their request, not decided by them, in
    time."""
    if not may_decide(viewer):
        return Approval.objects.none()
    key = actor_key(viewer)
    decided = Decision.objects.filter(actor=key).values("approval")
    return (
        approvals_of_teams(viewer)
        .exclude(requested_by=key)
        .exclude(pk__in=decided)
        .filter(role_held(viewer), due_at__gt=clock.now())
    )


def approvals_closed(viewer: User) -> QuerySet[Approval]:
    """Those that ended, however, newest first, with their decisions."""
    return (
        visible(Approval.objects.exclude(status=ApprovalStatus.OPEN), viewer)
        .order_by("-status_since")
        .prefetch_related(Prefetch("decisions", queryset=Decision.objects.order_by("id")))
    )


def approvals_together(viewer: User, approval: Approval, subjects: Collection[uuid.UUID]) -> list[Approval]:
    """The others of one kind about those subjects that the viewer can decide now."""
    others = approvals_waiting_for(viewer).filter(
        kind=approval.kind, subject_type=approval.subject_type, subject_id__in=subjects
    )
    return list(others.exclude(pk=approval.pk))


def approval_successor(approval: Approval) -> Approval | None:
    """The open question about the same subject that took the place of a voided one."""
    return (
        Approval.objects.filter(
            kind=approval.kind,
            subject_type=approval.subject_type,
            subject_id=approval.subject_id,
            status=ApprovalStatus.OPEN,
        )
        .exclude(pk=approval.pk)
        .first()
    )


def obstacle(approval: Approval, viewer: User, decisions: Collection[Decision]) -> str:
    """Why the viewer cannot decide on it, in a sentence; empty when they can.

    The same rules, in the same order, as `services.approval_decide`, which has the last word.
    """
    key = actor_key(viewer)
    if not may_decide(viewer):
        return "Deciding needs the right of an Approver; you may read it."
    if not has_a_role(viewer, approval.roles):
        return not_your_role(approval.roles)
    if approval.requested_by == key:
        return "You asked for this yourself: somebody else decides."
    if approval.status != ApprovalStatus.OPEN:
        return f"It is {approval.status} already."
    if any(decision.actor == key for decision in decisions):
        return "You have decided on this already."
    if approval.due_at <= clock.now():
        return "Its deadline has passed: it expires, nothing is bought."
    return ""
