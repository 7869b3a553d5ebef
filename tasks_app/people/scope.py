"""Who sees what: root entities belong to a team; a viewer sees those of their own teams."""

from __future__ import annotations

from typing import Any, TypeVar

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import BooleanField, F, Func, Model, Q, QuerySet

from tasks_app.people.models import Team, User
from tasks_app.people.roles import ADMINISTRATOR

M = TypeVar("M", bound=Model)
_HELD = "_roles_held"
_ANY_OF: dict[str, Any] = {"template": "%(expressions)s", "arg_joiner": " ?| "}


def visible(queryset: QuerySet[M], viewer: User, *, team: str = "team") -> QuerySet[M]:
    """`queryset` narrowed to the viewer's teams; `team` is the lookup path to the owning team."""
    if viewer.is_superuser:
        return queryset
    return queryset.filter(**{f"{team}__in": viewer.teams.all()})


def teams_of(viewer: User) -> QuerySet[Team]:
    """The viewer's teams: what they make is made for one of these."""
    return Team.objects.all() if viewer.is_superuser else viewer.teams.all()


def roles_held(user: User) -> frozenset[str]:
    """Names of the person's roles, read once for each `user` object, as Django reads rights; a superuser
    answers for everything, as an Administrator does."""
    held: frozenset[str] | None = user.__dict__.get(_HELD)
    if held is None:
        names = user.groups.values_list("name", flat=True)
        held = frozenset({*names, ADMINISTRATOR} if user.is_superuser else names)
        user.__dict__[_HELD] = held
    return held


def role_held(user: User) -> Q:
    """Rows whose JSON column `roles` names none, or one that the person holds; asks nothing by itself."""
    if user.is_superuser:
        return Q(roles=[]) | Q(roles__has_any_keys=sorted(roles_held(user)))
    mine = ArraySubquery(user.groups.values("name"))
    return Q(roles=[]) | Q(Func(F("roles"), mine, **_ANY_OF, output_field=BooleanField()))
