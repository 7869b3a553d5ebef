"""The one way a status changes: django-fsm decides, one server-side function writes everything.

Source: document 002 (whole), model.md "Audit entry"; the database functions are in sql/.
"""

from __future__ import annotations

import json
import re
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
from tasks_app.people.actors import actor_key, actor_user, is_login
from tasks_app.people.models import Actor, User
from tasks_app.people.scope import covers
from tasks_app.tracing import trace_id

Who = str | User | Actor

# What a transition writes itself: never part of `changes`.
_OWN = frozenset({"id", "status", "version", "status_since", "created_at"})
# PostgreSQL stores neither NUL nor halves of surrogate pairs; an error's text may hold both.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


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
) -> int:
    """Move `entity` to the status `to`, writing `changes` (field name to value) in the same commit.

    Answers the new version. A declared self-transition is accepted and writes nothing.
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
        return entity.version
    edge = _edge(type(entity), frm, to)
    if edge is None:
        raise _error(InvalidTransitionError, entity, to, "no matching transition rule")
    _permitted(entity, edge, key, to)
    refused = guards.refusal(entity.entity, str(entity.pk), frm, to, {**(context or {}), "entity": entity})
    if refused:
        raise _error(InvalidTransitionError, entity, to, refused)
    version, at = _write(entity, to, key, _why(reason, declared.edges[frm, to]), metadata, changes)
    getattr(entity, edge.name)()
    entity.version, entity.status_since = version, at
    for name, value in (changes or {}).items():
        setattr(entity, name, value)
    return version


def transition_many(
    queryset: models.QuerySet[Any],
    to: str,
    *,
    actor: Who,
    reason: str = "",
    metadata: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> int:
    """Move every row of `queryset` that a declared edge leads to `to`, in one statement; answers how many.

    Rows elsewhere stay as they are. For sweeps of the system and its agents: a guarded edge is taken only
    where the guard offers a queryset filter (its `as_filter()`, a Q), then for the rows that pass it. Raises
    UnknownStatusError, InvalidTransitionError (a person, or a guard without a filter), UnknownActorError,
    TypeError as `transition` does.
    """
    model: type[Stateful] = queryset.model
    declared, key = lifecycle(model.entity), actor_key(actor)
    if to not in declared.states:
        raise UnknownStatusError(model.entity, "many", "", to, f"{to!r} is not a status of {model.entity}")
    if key.startswith("human:"):
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
                _storable(reason),
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


def _permitted(entity: Stateful, edge: FsmTransition, key: str, to: str) -> None:
    if not is_login(key):
        return
    user = actor_user(key)
    if user is None or not edge.permission or not edge.has_perm(entity, user):
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
    return _storable(reason) if reason.strip() else description


def recorded(value: Any, *, floats: bool = False) -> str:
    """`value` as the JSON text that is stored and told of (`exact`). Raises TypeError, ValueError for NaN."""
    return json.dumps(exact(value, floats=floats), ensure_ascii=False, allow_nan=False)


def exact(value: Any, *, floats: bool = False) -> Any:
    """`value` as JSON that is recorded exactly: times, decimals and ids as text. Floats raise TypeError,
    unless allowed because they are a seller's own JSON numbers, kept as they came. What no text column
    can hold (NUL, lone surrogates) becomes U+FFFD."""
    if isinstance(value, str):
        return _storable(value)
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
        return {_storable(str(k)): exact(v, floats=floats) for k, v in value.items()}
    if isinstance(value, Iterable):
        return [exact(v, floats=floats) for v in value]
    raise TypeError(f"{type(value).__name__} cannot be recorded")


def _storable(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text)


def _error(kind: type[TransitionError], entity: Stateful, to: str, why: str) -> TransitionError:
    allowed = entity.declared().targets(entity.status)
    return kind(entity.entity, entity.pk, entity.status, to, why, allowed)
