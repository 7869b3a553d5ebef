"""Typed actors: the key that audit entries, decisions and observations hold."""

from __future__ import annotations

import re
from uuid import UUID

from django.db.models import CharField, F, OuterRef, Subquery
from django.db.models.functions import Coalesce

from tasks_app.people.models import Actor, User

SYSTEM = "system"
_KEY = re.compile(r"system|(human|agent):[A-Za-z0-9][A-Za-z0-9._-]{0,71}")


class UnknownActorError(ValueError):
    """The actor is not `system`, `human:<id>` or `agent:<id>`."""


def actor_key(who: str | User | Actor) -> str:
    """The typed key of a key, a login or an Actor. Raises UnknownActorError."""
    if isinstance(who, User):
        return f"{'agent' if who.is_service else 'human'}:{who.pk}"
    key = who.key if isinstance(who, Actor) else who
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise UnknownActorError(f"{key!r} is not an actor: system, human:<id> or agent:<id>")
    return key


def actor_ensure(*, user: User) -> Actor:
    """The Actor row of a login, made on first use. A login that became a service account, or was one, has
    two: what it did as the other stays with the first, which alone is tied to it."""
    key = actor_key(user)
    known = Actor.objects.filter(key=key).first()
    if known is not None:
        return known
    kind = Actor.Kind.AGENT if user.is_service else Actor.Kind.HUMAN
    tied = None if Actor.objects.filter(user=user).exists() else user
    actor, _ = Actor.objects.get_or_create(
        key=key, defaults={"kind": kind, "name": str(user)[:160], "user": tied}
    )
    return actor


def is_login(key: str) -> bool:
    """Whether a key is a person's or a service account's, whose rights are asked; agents without a login are
    Flightdeck's own."""
    prefix, _, user_id = key.partition(":")
    return prefix == "human" or (prefix == "agent" and _is_uuid(user_id))


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def actor_user(key: str) -> User | None:
    """The login behind a human's or service account's key, None for the system and for the erased."""
    prefix, _, user_id = key.partition(":")
    if prefix == SYSTEM:
        return None
    try:
        UUID(user_id)
    except ValueError:
        return None
    return User.objects.filter(pk=user_id, is_active=True).first()


def actor_names(keys: set[str]) -> dict[str, str]:
    """Key to name, one query; unknown keys stand for themselves."""
    found = dict(Actor.objects.filter(key__in=keys).values_list("key", "name"))
    return {key: found.get(key, key) for key in keys}


def actor_named(column: str) -> Coalesce:
    """The same for the key in a column, as a part of the query that reads it."""
    names = Actor.objects.filter(key=OuterRef(column)).values("name")
    return Coalesce(Subquery(names), F(column), output_field=CharField())
