"""Who sees what: root entities belong to a team and mostly to an advertiser of it (decision 0030).

A viewer sees what their teams own; of a team in which they have some advertisers only, what is those
advertisers'. What belongs to no advertiser goes by team.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from django.apps import apps
from django.contrib.postgres.expressions import ArraySubquery
from django.core.exceptions import FieldDoesNotExist
from django.db.models import BooleanField, F, Func, Model, Q, QuerySet

from tasks_app.people.actors import actor_key
from tasks_app.people.models import Advertiser, Membership, Team, User
from tasks_app.people.roles import ADMINISTRATOR

M = TypeVar("M", bound=Model)
_HELD = "_roles_held"
_ANY_OF: dict[str, Any] = {"template": "%(expressions)s", "arg_joiner": " ?| "}


@dataclass(frozen=True, kw_only=True)
class Scope:
    """`whole` teams, and those of which only `advertisers` are somebody's."""

    whole: frozenset[uuid.UUID]
    limited: frozenset[uuid.UUID]
    advertisers: frozenset[uuid.UUID]


def scope_of(viewer: User) -> Scope:
    """The viewer's scope; read once for each instance of a user, as Django reads their rights."""
    known: Scope | None = viewer._scope
    if known is not None:
        return known
    rows = list(
        Membership.objects.filter(user=viewer).values_list("team_id", "every_advertiser", "advertisers")
    )
    scope = Scope(
        whole=frozenset(team for team, every, _ in rows if every),
        limited=frozenset(team for team, every, _ in rows if not every),
        advertisers=frozenset(one for _, every, one in rows if not every and one is not None),
    )
    viewer._scope = scope
    return scope


def visible(queryset: QuerySet[M], viewer: User, *, team: str = "team") -> QuerySet[M]:
    """`queryset` narrowed to the viewer's scope; `team` is the lookup path to the owning team."""
    if viewer.is_superuser:
        return queryset
    return queryset.filter(in_scope(queryset.model, viewer, team=team))


def in_scope(model: type[Model], viewer: User, *, team: str = "team") -> Q:
    """Of rows of `model`, those in the viewer's scope. Sets are spelt out, so that the planner knows how
    many rows an advertiser has."""
    scope = scope_of(viewer)
    path = advertiser_path(model, team)
    if path is None or not scope.limited:
        return Q(**{f"{team}__in": scope.whole | scope.limited})
    own = Q(**{f"{path}__in": scope.advertisers}) | _nobodys(model, path, viewer)
    part = Q(**{f"{team}__in": scope.limited}) & own
    return Q(**{f"{team}__in": scope.whole}) | part if scope.whole else part


def covers(viewer: User, row: Model) -> bool:
    """Whether a row at hand is in the viewer's scope; a step goes by its job, what is no team's by rights."""
    owner: Any = getattr(row, "job", row)
    team = getattr(owner, "team_id", None)
    if team is None or viewer.is_superuser:
        return True
    scope, advertiser = scope_of(viewer), getattr(owner, "advertiser_id", None)
    return team in scope.whole or (
        team in scope.limited and (advertiser is None or advertiser in scope.advertisers)
    )


@cache
def advertiser_path(model: type[Model], team: str) -> str | None:
    """The lookup path to the owning advertiser, beside that to the team; None for what goes by team alone.

    A model says it by `advertiser_path`, or has a field `advertiser`.
    """
    prefix = team.removesuffix("team")
    if prefix.endswith("advertiser__"):
        return prefix.removesuffix("__")
    owner: Any = model
    for name in prefix.split("__")[:-1]:
        owner = owner._meta.get_field(name).related_model
    said = getattr(owner, "advertiser_path", "")
    if said or team == "pk":
        return f"{prefix}{said}" if said else None
    try:
        owner._meta.get_field("advertiser")
    except FieldDoesNotExist:
        return None
    return f"{prefix}advertiser"


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


def members_of(team_id: uuid.UUID, advertiser_id: uuid.UUID | None) -> Q:
    """Of users, those who see what is this team's and, where it has one, this advertiser's."""
    return members_of_any([team_id], advertiser_id)


def members_of_any(teams: Collection[uuid.UUID] | QuerySet[Team], advertiser_id: uuid.UUID | None) -> Q:
    """As `members_of`, of any of the teams."""
    seats = Membership.objects.filter(team__in=teams)
    if advertiser_id is not None:
        named = Membership.advertisers.through.objects.filter(advertiser=advertiser_id).values("membership")
        seats = seats.filter(Q(every_advertiser=True) | Q(pk__in=named))
    return Q(pk__in=seats.values("user"))


_owned: dict[str, tuple[str, str]] = {"advertiser": ("tasks_app.Advertiser", "pk")}


def owned_register(subject_type: str, model: str, path: str = "advertiser") -> None:
    """Say where a subject's advertiser stands: `path` on `model` ("app.Model"). Called by the storey that
    has the model, when the application starts."""
    _owned[subject_type] = (model, path)


def advertiser_of(subject_type: str, subject_id: uuid.UUID | None) -> uuid.UUID | None:
    """The advertiser of what a row is about; None where it has none, or is of a type that has none."""
    if subject_id is None or subject_type not in _owned:
        return None
    model, path = _owned[subject_type]
    rows: Any = apps.get_model(model)._default_manager
    found: uuid.UUID | None = rows.filter(pk=subject_id).values_list(path, flat=True).first()
    return found


def advertisers_seen(viewer: User) -> QuerySet[Advertiser]:
    """The advertisers the viewer buys for."""
    return visible(Advertiser.objects.all(), viewer)


def _nobodys(model: type[Model], path: str, viewer: User) -> Q:
    nobodys = Q(**{f"{path}__isnull": True})
    if getattr(model, "unowned_is_requesters", False):
        return nobodys & Q(requested_by=actor_key(viewer))
    return nobodys


def role_held(user: User) -> Q:
    """Rows whose JSON column `roles` names none, or one that the person holds; asks nothing by itself."""
    if user.is_superuser:
        return Q(roles=[]) | Q(roles__has_any_keys=sorted(roles_held(user)))
    mine = ArraySubquery(user.groups.values("name"))
    return Q(roles=[]) | Q(Func(F("roles"), mine, **_ANY_OF, output_field=BooleanField()))
