"""Who can do something: the people who hold a right in a team, and the roles that carry it."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Permission
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import F, OuterRef, Q, QuerySet

from tasks_app.people.models import Team, User
from tasks_app.people.roles import ADMINISTRATOR, ROLES
from tasks_app.people.scope import members_of_any

_MOST = 2000  # rows of people and rights that one question reads


Teams = Collection[uuid.UUID] | QuerySet[Team]


class RoleBackend(ModelBackend):
    """Signs in with a password; rights come from roles alone, never from a person's own permissions, which
    nothing writes and nothing here reads."""

    def _get_user_permissions(self, user_obj: User) -> QuerySet[Permission]:
        return Permission.objects.none()


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Somebody who holds a right, and all their roles (a superuser's: an Administrator's among them)."""

    name: str
    roles: frozenset[str]


def users_with(right: str) -> QuerySet[User]:
    """Active users who hold `right` in any team, services and superusers among them."""
    return _holding([right]).distinct()


def people_with(
    right: str, team_id: uuid.UUID | None, advertiser_id: uuid.UUID | None = None
) -> QuerySet[User]:
    """Active people who hold `right` and see what is the team's and, where it has one, the advertiser's,
    superusers last; in any team where it is nobody's for certain (None)."""
    teams = None if team_id is None else [team_id]
    return _people([right], teams, advertiser_id).distinct().order_by("is_superuser", "pk")


def holders_of(
    rights: Collection[str], teams: Teams, advertiser_id: uuid.UUID | None = None
) -> dict[str, dict[uuid.UUID, Holder]]:
    """Right to the people who hold it and see what is one of the teams' and, where it has one, the
    advertiser's (by id), superusers last; one query."""
    found: dict[str, dict[uuid.UUID, Holder]] = {right: {} for right in rights}
    if not found:
        return found
    rows = (
        _people(rights, teams, advertiser_id)
        .annotate(
            app=F("groups__permissions__content_type__app_label"),
            code=F("groups__permissions__codename"),
            roles=ArraySubquery(roles_of(OuterRef("pk"))),
        )
        .order_by("is_superuser", "pk")
    )
    for person in rows[:_MOST]:
        held = f"{vars(person)['app']}.{vars(person)['code']}"
        answering = (ADMINISTRATOR,) if person.is_superuser else ()
        holder = Holder(name=str(person), roles=frozenset({*vars(person)["roles"], *answering}))
        for right in found if person.is_superuser else {held} & found.keys():
            found[right][person.pk] = holder
    return found


def with_role(right: str) -> Q:
    """Of users, those of whose roles one carries the right."""
    app, _, codename = right.partition(".")
    return Q(groups__permissions__codename=codename, groups__permissions__content_type__app_label=app)


def roles_of(person: OuterRef) -> QuerySet[Any, Any]:
    """The names of a person's roles, as a subquery of whatever refers to people."""
    return User.groups.through.objects.filter(user=person).values("group__name")


def roles_with(right: str) -> list[str]:
    """The roles that carry a right for people, in the order of the table of roles."""
    return [role for role, rights in ROLES.items() if right in rights and role != "Integration"]


def _people(rights: Iterable[str], teams: Teams | None, advertiser_id: uuid.UUID | None) -> QuerySet[User]:
    people = _holding(rights).filter(is_service=False)
    if teams is None:
        return people
    return people.filter(members_of_any(teams, advertiser_id) | Q(is_superuser=True))


def _holding(rights: Iterable[str]) -> QuerySet[User]:
    """Active users who hold one of the rights; once for each role that carries it."""
    held = Q(is_superuser=True)
    for right in rights:
        held |= with_role(right)
    return User.objects.filter(held, is_active=True)
