"""The one way a status changes: django-fsm decides, one server-side function writes everything.

Source: document 002 (whole). What an entry holds: docs/audit-proof.md; the database functions are in sql/.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, cast
from uuid import UUID

from django.db import connection, models, transaction
from django_fsm import FSMField
from django_fsm import Transition as FsmTransition

from tasks_app import clock
from tasks_app.lifecycle import guards
from tasks_app.lifecycle.declarations import lifecycle
from tasks_app.lifecycle.errors import (
    InvalidTransitionError,
    StaleVersionError,
    TransitionError,
    UnknownStatusError,
)
from tasks_app.lifecycle.inserting import rows_insert
from tasks_app.lifecycle.models import Stateful
from tasks_app.lifecycle.prepared import prepared_row
from tasks_app.people.actors import SYSTEM, actor_key, actor_user, is_login
from tasks_app.people.models import Actor, User
from tasks_app.people.scope import covers
from tasks_app.storable import storable
from tasks_app.tracing import trace_id

Who = str | User | Actor

# What a transition writes itself: never part of `changes`.
_OWN = frozenset({"id", "status", "version", "status_since", "created_at"})


def transition(
    entity: Stateful,
    to: str,
    *,
    actor: Who,
    reason: str = "",
    context: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    expected_version: int | None = None,
    rights: Sequence[str] = (),
) -> int:
    """Move `entity` to the status `to`, writing `changes` (field name to value) in the same commit.

    Answers the new version. A declared self-transition is accepted and writes nothing. `rights`: those of an
    act from which this move follows; a person needs one of them, instead of the edge's own.
    Raises UnknownStatusError, InvalidTransitionError (no rule, guard, or no right), StaleVersionError
    (somebody moved it first), UnknownActorError, TypeError for metadata or changes that cannot be
    recorded exactly (floats). The instance is updated only when the change is written; where a surrounding
    transaction is rolled back afterwards, read it again (a stale one is refused, never written over).
    """
    key = actor_key(actor)
    frm = entity.status
    declared = entity.declared()
    _known(entity, to)
    if expected_version is not None and expected_version != entity.version:
        raise _error(StaleVersionError, entity, to, f"version is {entity.version}, not {expected_version}")
    if frm == to and declared.self_transitions and (frm, to) in declared.edges:
        if changes:
            raise TypeError("a self-transition writes nothing")
        return _still(entity)
    edge = _edge(type(entity), frm, to)
    if edge is None:
        raise _error(InvalidTransitionError, entity, to, "no matching transition rule")
    _permitted(entity, edge, key, to, rights)
    refused = guards.refusal(entity.entity, str(entity.pk), frm, to, {**(context or {}), "entity": entity})
    if refused:
        raise _error(InvalidTransitionError, entity, to, refused)
    version, at = _write(entity, to, key, _why(reason, declared.edges[frm, to]), metadata, changes)
    getattr(entity, edge.name)()
    entity.version, entity.status_since = version, at
    for name, value in (changes or {}).items():
        setattr(entity, name, value)
    return version


def note(
    entity: Stateful,
    *,
    actor: Who,
    reason: str,
    metadata: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> int:
    """Record something of `entity` that leaves its status as it is: an entry of its trail, and `changes` in
    the same commit. Answers the new version. Raises StaleVersionError, UnknownActorError, TypeError as
    `transition` does, ValueError without a reason."""
    if not reason.strip():
        raise ValueError(f"a note on a {entity.entity} has a reason")
    written = recorded(_columns(entity, changes), floats=True) if changes else None
    row = prepared_row(
        f"select fd_note_{entity.entity}(%s, %s, %s, %s, %s, %s, %s, %s)",
        [
            entity.pk,
            entity.version,
            actor_key(actor),
            storable(reason),
            recorded(metadata or {}),
            written,
            trace_id(),
            clock.frozen(),
        ],
    )
    if row is None or row[0] is None:
        raise _error(StaleVersionError, entity, entity.status, "it was changed by somebody else meanwhile")
    entity.version += 1
    for name, value in (changes or {}).items():
        setattr(entity, name, value)
    return entity.version


def transition_many(
    queryset: models.QuerySet[Any],
    to: str,
    *,
    actor: Who,
    reason: str = "",
    metadata: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    rights: Sequence[str] = (),
) -> int:
    """Move every row of `queryset` that a declared edge leads to `to`, in one statement; answers how many.

    Rows elsewhere stay as they are. For sweeps of the system and its agents: a guarded edge is taken only
    where the guard offers a queryset filter (its `as_filter()`, a Q), then for the rows that pass it. A
    person moves many only with what an act of theirs ends, by one of its `rights`. Raises UnknownStatusError,
    InvalidTransitionError (a person without, or a guard without a filter), UnknownActorError,
    TypeError as `transition` does.
    """
    model: type[Stateful] = queryset.model
    declared, key = lifecycle(model.entity), actor_key(actor)
    if to not in declared.states:
        raise UnknownStatusError(model.entity, "many", "", to, f"{to!r} is not a status of {model.entity}")
    if is_login(key) and not (rights and _holds(key, rights)):
        raise InvalidTransitionError(model.entity, "many", "", to, "people move one at a time")
    sources = [before for (before, after) in declared.edges if after == to and before != to]
    rows = queryset.order_by().filter(status__in=sources)
    for source in sources:
        rows = guards.narrow(rows, model.entity, source, to)
    reasons = {source: _why(reason, declared.edges[source, to]) for source in sources}
    ids, id_params = rows.values("pk").query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(
            f"select fd_move_many_{model.entity}(array({ids}), %s, %s, %s, %s, %s, %s, %s)",
            [
                *id_params,
                to,
                key,
                recorded(reasons),
                recorded(metadata or {}),
                recorded(_columns(model(), changes), floats=True) if changes else None,
                trace_id(),
                clock.frozen(),
            ],
        )
        return int(cursor.fetchone()[0])


def create(entity: Stateful, *, actor: Who, reason: str, metadata: Mapping[str, Any] | None = None) -> None:
    """Insert `entity` in its initial status with audit entry 1. Raises InvalidTransitionError."""
    create_many([entity], actor=actor, reason=reason, metadata=metadata)


def create_many(
    entities: Iterable[Stateful], *, actor: Who, reason: str, metadata: Mapping[str, Any] | None = None
) -> None:
    """Insert entities of one model, each with its first audit entry, in one commit."""
    rows = list(entities)
    if not rows:
        return
    key = actor_key(actor)
    for row in rows:
        if row.status != row.declared().initial or row.version != 1:
            raise _error(InvalidTransitionError, row, row.status, "an entity begins in its initial status")
    with transaction.atomic():
        rows_insert(rows)
        append_birth(rows, actor=key, reason=reason, metadata=metadata or {})


def append_birth(rows: Sequence[Stateful], *, actor: Who, reason: str, metadata: Mapping[str, Any]) -> None:
    """Audit entry 1 of rows of one model, inserted in this transaction. Raises ValueError without reason."""
    if not reason.strip():
        raise ValueError(f"a {rows[0].entity} begins for a reason")
    with connection.cursor() as cursor:
        cursor.execute(
            f"select fd_birth_{rows[0].entity}(%s, %s, %s, %s, %s, %s)",
            [
                [row.pk for row in rows],
                actor_key(actor),
                storable(reason),
                recorded(metadata),
                trace_id(),
                clock.frozen(),
            ],
        )


def allowed_transitions(entity: Stateful) -> tuple[str, ...]:
    """Statuses that a declared edge leads to from here."""
    return entity.declared().targets(entity.status)


def _known(entity: Stateful, to: str) -> None:
    states = entity.declared().states
    for status in (entity.status, to):
        if status not in states:
            raise _error(UnknownStatusError, entity, to, f"{status!r} is not a status of {entity.entity}")


@cache
def _edge(model: type[Stateful], frm: str, to: str) -> FsmTransition | None:
    field = next(field for field in model._meta.fields if isinstance(field, FSMField))
    for method in field.transitions[model].values():
        edge = method._django_fsm.transitions.get(frm)
        if edge is not None and edge.target == to:
            return edge
    return None


def _still(entity: Stateful) -> int:
    """The version of an entity that stays where it is. Raises StaleVersionError where somebody moved it."""
    as_known = type(entity)._base_manager.filter(pk=entity.pk, version=entity.version)
    if not as_known.exists():
        raise _error(StaleVersionError, entity, entity.status, "it was changed by somebody else meanwhile")
    return entity.version


def _holds(key: str, rights: Sequence[str]) -> bool:
    user = actor_user(key)
    return user is not None and any(user.has_perm(right) for right in rights)


def moved_by(entity: models.Model, actor: Who, rights: Sequence[str]) -> str:
    """As whose a move is recorded that follows from an act of `actor`, who did it by one of `rights`: theirs,
    and the system's where the moved row is none of their teams' and advertisers'."""
    key = actor_key(actor)
    if not is_login(key):
        return key
    user = actor_user(key) if _holds(key, rights) else None
    return key if user is not None and covers(user, entity) else SYSTEM


def _permitted(entity: Stateful, edge: FsmTransition, key: str, to: str, rights: Sequence[str]) -> None:
    if not is_login(key):
        return
    user = actor_user(key)
    may = user is not None and (
        any(user.has_perm(right) for right in rights)
        if rights
        else bool(edge.permission) and edge.has_perm(entity, user)
    )
    if user is None or not may:
        raise _error(InvalidTransitionError, entity, to, "this person has no right to it")
    if not covers(user, entity):
        raise _error(InvalidTransitionError, entity, to, "it is not of this person's teams and advertisers")


def _write(
    entity: Stateful,
    to: str,
    key: str,
    reason: str,
    metadata: Mapping[str, Any] | None,
    changes: Mapping[str, Any] | None,
) -> tuple[int, datetime]:
    row = prepared_row(
        # The entity's name is its class's, never input.
        f"select fd_move_{entity.entity}(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [
            entity.pk,
            entity.status,
            to,
            entity.version,
            key,
            reason,
            recorded(metadata) if metadata else "{}",
            recorded(_columns(entity, changes), floats=True) if changes else None,
            trace_id(),
            clock.frozen(),
        ],
    )
    if row is None or row[0] is None:
        raise _error(StaleVersionError, entity, to, "it was changed by somebody else meanwhile")
    return entity.version + 1, row[0]


def _columns(entity: Stateful, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Field names and values to column names and what PostgreSQL's jsonb_populate_record reads."""
    columns: dict[str, Any] = {}
    for name, value in changes.items():
        field = cast("models.Field[Any, Any]", entity._meta.get_field(name))
        if name in entity.unaudited or name in _OWN:
            raise TypeError(f"{name} cannot be written with a status change")
        column = field.attname if isinstance(field, models.ForeignKey) else str(field.column)
        value = getattr(value, "pk", value) if isinstance(field, models.ForeignKey) else value
        columns[column] = value if isinstance(field, models.JSONField) else field.get_prep_value(value)
    return columns


def _why(reason: str, description: str) -> str:
    return storable(reason) if reason.strip() else description


def recorded(value: Any, *, floats: bool = False) -> str:
    """`value` as the JSON text that is stored and told of (`exact`). Raises TypeError, ValueError for NaN."""
    return json.dumps(exact(value, floats=floats), ensure_ascii=False, allow_nan=False)


def exact(value: Any, *, floats: bool = False) -> Any:
    """`value` as JSON that is recorded exactly: times, decimals and ids as text. Floats raise TypeError,
    unless allowed because they are a seller's own JSON numbers, kept as they came. What no text column
    can hold (NUL, lone surrogates) becomes U+FFFD."""
    if isinstance(value, str):
        return storable(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        if floats:
            return value
        raise TypeError(f"a float ({value!r}) cannot be recorded exactly: use Decimal or int")
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, datetime) or hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, bytes | memoryview):
        return "\\x" + bytes(value).hex()
    if isinstance(value, Mapping):
        return {storable(str(k)): exact(v, floats=floats) for k, v in value.items()}
    if isinstance(value, Iterable):
        return [exact(v, floats=floats) for v in value]
    raise TypeError(f"{type(value).__name__} cannot be recorded")


def _error(kind: type[TransitionError], entity: Stateful, to: str, why: str) -> TransitionError:
    allowed = entity.declared().targets(entity.status)
    return kind(entity.entity, entity.pk, entity.status, to, why, allowed)
