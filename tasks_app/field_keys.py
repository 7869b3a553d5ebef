"""Rotating the key ring of encrypted columns: what an older key encrypted is encrypted with the first again.

The ring is SECRET_KEY and its fallbacks with FLIGHTDECK_FIELD_KEYS (django-fernet-encrypted-fields); the
first encrypts, all decrypt. Once nothing needs the old keys they can be taken out of the ring.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.apps import apps
from django.db import connection, models, transaction
from encrypted_fields.fields import EncryptedFieldMixin
from psycopg import sql

_BATCH = 500
_FIRST = sql.SQL("select {key}, {column} from {table} where {column} <> '' order by {key} limit %s")
_NEXT = sql.SQL(
    "select {key}, {column} from {table} where {column} <> '' and {key} > %s order by {key} limit %s"
)
_UPDATE = sql.SQL("update {table} set {column} = %s where {key} = %s and {column} = %s")


@dataclass
class Rotated:
    """What a run did: values by column. `unreadable` ones are under no key of the ring, and left alone."""

    rotated: dict[str, int] = field(default_factory=dict)
    current: dict[str, int] = field(default_factory=dict)
    unreadable: dict[str, int] = field(default_factory=dict)


def encrypted_columns() -> Iterator[tuple[type[models.Model], models.Field[Any, Any]]]:
    """Every encrypted column of every model."""
    for model in apps.get_models():
        for column in model._meta.concrete_fields:
            if isinstance(column, EncryptedFieldMixin):
                yield model, column


def field_keys_rotate() -> Rotated:
    """Encrypt every value with the ring's first key, a batch a commit: stopped at any point, it goes on where
    it was. A value that is changed meanwhile is under the first key already."""
    done = Rotated()
    for model, column in encrypted_columns():
        name = f"{model._meta.label}.{column.name}"
        for counts in (done.rotated, done.current, done.unreadable):
            counts[name] = 0
        last: Any = None
        while rows := _batch(model, column, last):
            _rotate(model, column, rows, done, name)
            last = rows[-1][0]
    return done


def _batch(model: type[models.Model], column: models.Field[Any, Any], last: Any) -> list[tuple[Any, str]]:
    """The next rows by key, as stored: the model's own reading would decrypt them."""
    query = (_FIRST if last is None else _NEXT).format(**_names(model, column))
    with connection.cursor() as cursor:
        cursor.execute(query, [_BATCH] if last is None else [last, _BATCH])
        return list(cursor.fetchall())


@transaction.atomic
def _rotate(
    model: type[models.Model],
    column: models.Field[Any, Any],
    rows: list[tuple[Any, str]],
    done: Rotated,
    name: str,
) -> None:
    ring = [Fernet(key) for key in column.keys]  # type: ignore[attr-defined]  # EncryptedFieldMixin
    update = _UPDATE.format(**_names(model, column))
    for key, stored in rows:
        if _opens(ring[0], stored):
            done.current[name] += 1
            continue
        try:
            fresh = MultiFernet(ring).rotate(stored.encode()).decode()
        except InvalidToken:
            done.unreadable[name] += 1
            continue
        with connection.cursor() as cursor:
            cursor.execute(update, [fresh, key, stored])
        done.rotated[name] += 1


def _opens(key: Fernet, stored: str) -> bool:
    try:
        key.decrypt(stored.encode())
    except InvalidToken:
        return False
    return True


def _names(model: type[models.Model], column: models.Field[Any, Any]) -> dict[str, sql.Composable]:
    primary = model._meta.pk
    return {
        "table": sql.Identifier(model._meta.db_table),
        "key": sql.Identifier(str(primary.column)),
        "column": sql.Identifier(str(column.column)),
    }
