"""Who may do what, for commands that name people."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from tasks_app.approvals.models import Approval
from tasks_app.approvals.selectors import obstacle
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE
from tasks_app.people.scope import members_of

_BACKEND = "django.contrib.auth.backends.ModelBackend"


def holders(right: str) -> QuerySet[User]:
    """Active users who hold a right, superusers among them, by name."""
    return User.objects.with_perm(right, backend=_BACKEND).order_by("username")


def deciders(approval: Approval) -> list[User]:
    """Who can decide on an approval now, superusers among them: whom nothing keeps from it."""
    theirs = members_of(approval.team_id, approval.advertiser_id)
    able = holders(DECIDE).filter(theirs | Q(is_superuser=True), is_service=False).distinct()
    decisions = list(approval.decisions.all())
    return [user for user in able if not obstacle(approval, user, decisions)]
