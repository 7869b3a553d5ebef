"""Roles that policies name: groups whose members may decide."""

from __future__ import annotations

from collections.abc import Collection

from django.contrib.auth.models import Group

from tasks_app.people.models import User
from tasks_app.people.roles import DECIDE
from tasks_app.people.scope import roles_held


def roles_that_decide() -> list[str]:
    """Roles whose right it is to decide at all: others cannot be named by a policy."""
    app, codename = DECIDE.split(".")
    groups = Group.objects.filter(
        permissions__codename=codename, permissions__content_type__app_label=app
    ).order_by("name")
    return list(groups.values_list("name", flat=True))


def has_a_role(user: User, roles: Collection[str]) -> bool:
    """Whether the person has one of `roles`; true where none is named."""
    return not roles or not roles_held(user).isdisjoint(roles)


def not_your_role(roles: Collection[str]) -> str:
    """What somebody without one of `roles` is told."""
    return f"Its policies want a decision of the role {' or '.join(roles)}; you may read it."
