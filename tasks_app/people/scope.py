"""Who sees what: root entities belong to a team and mostly to an advertiser of it (decision 0030).

A viewer sees what their teams own; of a team in which they have some advertisers only, what is those
advertisers'. What belongs to no advertiser goes by team.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from django.apps import apps
from django.contrib.postgres.expressions import ArraySubquery
from django.core.exceptions import FieldDoesNotExist
from django.db.models import BooleanField, Exists, F, Func, Model, OuterRef, Q, QuerySet

from tasks_app.people.actors import SYSTEM, actor_key, is_login
from tasks_app.people.models import Advertiser, Membership, Team, User
from tasks_app.people.roles import ADMINISTRATOR

M = TypeVar("M", bound=Model)
_HELD = "_roles_held"
_NESTED = 5  # a command of an operation of a job of a campaign
_LEADS_TO_CAMPAIGN = frozenset({"campaign_id", "operation", "subject_type", "subject_id"})
_ASKED = ("requested_by", "subject_type", "subject_id")
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
    scope = _scopes([viewer])[viewer.pk]
    viewer._scope = scope
    return scope


def standing_read(people: Collection[User]) -> None:
    """Read the scopes and the roles of many people, for `scope_of` and `roles_held`: two queries."""
    scopes = _scopes(people)
    names: dict[uuid.UUID, set[str]] = {one.pk: set() for one in people}
    held = User.groups.through.objects.filter(user__in=names).values_list("user_id", "group__name")
    for pk, name in held:
        names[pk].add(name)
    for one in people:
        one._scope = scopes[one.pk]
        one.__dict__[_HELD] = _answering(one, names[one.pk])


def _scopes(people: Collection[User]) -> dict[uuid.UUID, Scope]:
    rows: dict[uuid.UUID, list[tuple[uuid.UUID, bool, uuid.UUID | None]]] = {one.pk: [] for one in people}
    seats = Membership.objects.filter(user__in=rows)
    told = seats.values_list("user_id", "team_id", "every_advertiser", "advertisers")
    for pk, team, every, one in told:
        rows[pk].append((team, every, one))
    return {
        pk: Scope(
            whole=frozenset(team for team, every, _ in own if every),
            limited=frozenset(team for team, every, _ in own if not every),
            advertisers=frozenset(one for _, every, one in own if not every and one is not None),
        )
        for pk, own in rows.items()
    }


def visible(queryset: QuerySet[M], viewer: User, *, team: str = "team") -> QuerySet[M]:
    """`queryset` narrowed to the viewer's scope; `team` is the lookup path to the owning team."""
    if viewer.is_superuser:
        return queryset
    return queryset.filter(in_scope(queryset.model, viewer, team=team))


def in_scope(model: type[Model], viewer: User, *, team: str = "team") -> Q:
    """Of rows of `model`, those in the viewer's scope; what belongs to no team is everybody's where the model
    says so. Sets are spelt out, so that the planner knows how many rows an advertiser has."""
    own = _own(model, viewer, team)
    return own | Q(**{f"{team}__isnull": True}) if getattr(model, "teamless_is_everybodys", False) else own


def _own(model: type[Model], viewer: User, team: str) -> Q:
    scope = scope_of(viewer)
    path = advertiser_path(model, team)
    if path is None or not scope.limited:
        return Q(**{f"{team}__in": scope.whole | scope.limited})
    own = Q(**{f"{path}__in": scope.advertisers}) | _nobodys(model, team, path, viewer)
    part = Q(**{f"{team}__in": scope.limited}) & own
    return Q(**{f"{team}__in": scope.whole}) | part if scope.whole else part


def covers(viewer: User, row: Model) -> bool:
    """Whether a row at hand is in the viewer's scope; a step goes by its job, what is no team's by rights."""
    owner: Any = getattr(row, "job", row)
    team = getattr(owner, "team_id", None)
    if team is None or viewer.is_superuser:
        return True
    scope, advertiser = scope_of(viewer), getattr(owner, "advertiser_id", None)
    if team in scope.whole or team not in scope.limited:
        return team in scope.whole
    if advertiser is None:
        return not _is_requesters(owner) or owner.requested_by == actor_key(viewer)
    return advertiser in scope.advertisers


@cache
def advertiser_path(model: type[Model], team: str) -> str | None:
    """The lookup path to the owning advertiser, beside that to the team; None for what goes by team alone.

    A model says it by `advertiser_path`, or has a field `advertiser`.
    """
    prefix, owner = team.removesuffix("team"), _owner(model, team)
    if prefix.endswith("advertiser__"):
        return prefix.removesuffix("__")
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


def team_named(viewer: User, given: str) -> Team | None:
    """The team of the viewer's with this id or name."""
    try:
        found = teams_of(viewer).filter(pk=uuid.UUID(given))
    except ValueError:
        found = teams_of(viewer).filter(name=given)
    return found.first()


def people_known(viewer: User) -> QuerySet[User]:
    """Whom the viewer may name: who shares a team with them, and may sign in."""
    people = User.objects.filter(is_active=True, is_service=False)
    if viewer.is_superuser:
        return people
    seats = Membership.objects.filter(team__in=viewer.teams.all())
    return people.filter(pk__in=seats.values("user"))


def roles_held(user: User) -> frozenset[str]:
    """Names of the person's roles, read once for each `user` object, as Django reads rights; a superuser
    answers for everything, as an Administrator does."""
    held: frozenset[str] | None = user.__dict__.get(_HELD)
    if held is None:
        held = _answering(user, user.groups.values_list("name", flat=True))
        user.__dict__[_HELD] = held
    return held


def _answering(user: User, names: Iterable[str]) -> frozenset[str]:
    return frozenset({*names, ADMINISTRATOR} if user.is_superuser else names)


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


_owned: dict[str, tuple[str, str, str]] = {"advertiser": ("tasks_app.Advertiser", "pk", "team")}
_sold: dict[str, str] = {}


def owned_register(
    subject_type: str, model: str, path: str = "advertiser", team: str = "team", seller: str = ""
) -> None:
    """Say where a subject's advertiser, its team and its seller (empty: it has none) stand: paths on `model`
    ("app.Model"). Called by the storey that has the model, when the application starts."""
    _owned[subject_type] = (model, path, team)
    if seller:
        _sold[subject_type] = seller


def about_seller(seller_id: uuid.UUID, *, nested: int = 1) -> Q:
    """Of rows with a subject, those about something of the seller's, or about what is itself about it."""
    about = Q()
    for subject_type, path in _sold.items():
        model: Any = apps.get_model(_owned[subject_type][0])
        its = Q(**{path: seller_id})
        if nested and any(field.name == "subject_type" for field in model._meta.get_fields()):
            its |= about_seller(seller_id, nested=nested - 1)
        rows = model._default_manager.filter(its, pk=OuterRef("subject_id"))
        about |= Q(Exists(rows), subject_type=subject_type)
    return about


def owner_of(subject_type: str, subject_id: uuid.UUID | None) -> tuple[uuid.UUID | None, uuid.UUID | None]:
    """The team and the advertiser of what a row is about; None where it has none, or is of a type that has
    none."""
    if subject_id is None or subject_type not in _owned:
        return None, None
    model, path, team = _owned[subject_type]
    rows: Any = apps.get_model(model)._default_manager
    found: tuple[uuid.UUID | None, uuid.UUID | None] | None
    found = rows.filter(pk=subject_id).values_list(team, path).first()
    return found or (None, None)


def advertiser_of(subject_type: str, subject_id: uuid.UUID | None) -> uuid.UUID | None:
    """The advertiser of what a row is about, as `owner_of`."""
    return owner_of(subject_type, subject_id)[1]


def campaign_of(subject_type: str, subject_id: uuid.UUID | None) -> uuid.UUID | None:
    """Return the campaign of a subject: its own, its deal's, or that of what it is about; or None."""
    for _ in range(_NESTED):
        if subject_type == "campaign":
            return subject_id
        if subject_id is None or subject_type not in _owned:
            return None
        model: Any = apps.get_model(_owned[subject_type][0])
        known = {field.name for field in model._meta.get_fields()} & _LEADS_TO_CAMPAIGN
        row = (model._default_manager.filter(pk=subject_id).values(*known).first() if known else None) or {}
        if row.get("campaign_id"):
            return uuid.UUID(str(row["campaign_id"]))
        operation = row.get("operation")
        subject_type = "operation" if operation else row.get("subject_type", "")
        subject_id = operation or row.get("subject_id")
    return None


def asker_of(subject_type: str, subject_id: uuid.UUID | None) -> str:
    """The key of the login that asked for a subject of a registered type; where the system did in somebody's
    stead, of who asked for what that is about. SYSTEM where nobody did, or it is not known."""
    for _ in range(_NESTED):
        if subject_id is None or subject_type not in _owned:
            break
        model: Any = apps.get_model(_owned[subject_type][0])
        known = {field.name for field in model._meta.get_fields()} & {*_ASKED}
        row = model._default_manager.filter(pk=subject_id).values(*known).first() if known else None
        if row is None:
            break
        if is_login(row.get("requested_by", SYSTEM)):
            return str(row["requested_by"])
        subject_type, subject_id = row.get("subject_type", ""), row.get("subject_id")
    return SYSTEM


def advertisers_seen(viewer: User) -> QuerySet[Advertiser]:
    """The advertisers the viewer buys for."""
    return visible(Advertiser.objects.all(), viewer)


def _owner(model: type[Model], team: str) -> Any:
    """The model at whose end of the path `team` the owning team stands."""
    owner: Any = model
    for name in team.removesuffix("team").split("__")[:-1]:
        owner = owner._meta.get_field(name).related_model
    return owner


def _nobodys(model: type[Model], team: str, path: str, viewer: User) -> Q:
    """Rows of no advertiser: everybody's of the team, but for those that are their requester's alone, and
    their sender's until it is known what they are about."""
    nobodys, prefix, owner = Q(**{f"{path}__isnull": True}), team.removesuffix("team"), _owner(model, team)
    unknown = getattr(owner, "senders_until", None)
    if unknown is not None:
        known_by, sender = (f"{prefix}{name}" for name in unknown)
        return nobodys & (Q(**{f"{known_by}__isnull": False}) | Q(**{sender: actor_key(viewer)}))
    whose = getattr(owner, "unowned_is_requesters", False)
    if not whose:
        return nobodys
    mine = Q(**{f"{prefix}requested_by": actor_key(viewer)})
    return nobodys & (mine if whose is True else mine | ~Q(**{f"{prefix}subject_type__in": whose}))


def _is_requesters(row: Any) -> bool:
    whose: Any = getattr(row, "unowned_is_requesters", False)
    return whose is True or (bool(whose) and row.subject_type in whose)


def role_held(user: User) -> Q:
    """Rows whose JSON column `roles` names none, or one that the person holds; asks nothing by itself."""
    if user.is_superuser:
        return Q(roles=[]) | Q(roles__has_any_keys=sorted(roles_held(user)))
    mine = ArraySubquery(user.groups.values("name"))
    return Q(roles=[]) | Q(any_of("roles", mine))


def any_of(column: str, texts: ArraySubquery) -> Func:
    """Whether a JSON column's list has one of `texts`."""
    return Func(F(column), texts, **_ANY_OF, output_field=BooleanField())
