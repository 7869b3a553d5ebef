"""Who may do what, for commands that name people."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from tasks_app.approvals.models import Approval
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE
from tasks_app.people.scope import members_of

_BACKEND = "django.contrib.auth.backends.ModelBackend"


def holders(right: str) -> QuerySet[User]:
    """Active users who hold a right, superusers among them, by name."""
    return User.objects.with_perm(right, backend=_BACKEND).order_by("username")


def deciders(approval: Approval) -> list[User]:
    """Who can decide on an open approval: of its team, with the right, not who asked for it."""
    theirs = members_of(approval.team_id, approval.advertiser_id)
    able = holders(DECIDE).filter(theirs | Q(is_superuser=True), is_service=False).distinct()
    decided = set(approval.decisions.values_list("actor", flat=True))
    return [user for user in able if actor_key(user) not in {approval.requested_by, *decided}]
