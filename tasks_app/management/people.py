"""Who may do what, for commands that name people."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from tasks_app.approvals.models import Approval
from tasks_app.approvals.selectors import obstacle
from tasks_app.people.holders import users_with
from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE
from tasks_app.people.scope import members_of


def holders(right: str) -> QuerySet[User]:
    """Active users who hold a right, superusers among them, by name."""
    return users_with(right).order_by("username")


def deciders(approval: Approval) -> list[User]:
    """Who can decide on an approval now, superusers among them: whom nothing keeps from it."""
    able = holders(DECIDE).filter(is_service=False).distinct()
    if approval.team_id is not None:
        theirs = members_of(approval.team_id, approval.advertiser_id)
        able = able.filter(theirs | Q(is_superuser=True))
    decisions = list(approval.decisions.all())
    return [user for user in able if not obstacle(approval, user, decisions)]
