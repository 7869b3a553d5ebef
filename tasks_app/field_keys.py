"""Rotating the key ring of encrypted columns: what an older key encrypted is encrypted with the first again.

The ring is SECRET_KEY and its fallbacks with FLIGHTDECK_FIELD_KEYS (django-fernet-encrypted-fields); the
first encrypts, all decrypt. Once nothing needs the old keys they can be taken out of the ring.

A fingerprint of each key that a process encrypts with is kept: one whose ring lacks it would write what
others cannot read, and read nothing of theirs, so it does not start (tasks_app.installation).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.apps import apps
from django.db import connection, models, transaction
from django.utils import timezone
from encrypted_fields.fields import EncryptedFieldMixin
from psycopg import sql

_BATCH = 500
_FIRST = sql.SQL("select {key}, {column} from {table} where {column} <> '' order by {key} limit %s")
_NEXT = sql.SQL(
    "select {key}, {column} from {table} where {column} <> '' and {key} > %s order by {key} limit %s"
)
_UPDATE = sql.SQL("update {table} set {column} = %s where {key} = %s and {column} = %s")


class FieldKey(models.Model):
    """A key that something may be encrypted with, by its fingerprint."""

    fingerprint = models.CharField(max_length=32, primary_key=True)
    first_used_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.fingerprint


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


def field_key_missing() -> bool:
    """Whether something is encrypted with a key that this process does not have. Where no fingerprint is kept
    yet, what is stored is asked: of each column the first value."""
    ring = _ring()
    kept = set(FieldKey.objects.values_list("fingerprint", flat=True))
    if kept:
        return not kept <= {_fingerprint(key) for key in ring}
    stored = [rows[0][1] for model, column in encrypted_columns() if (rows := _batch(model, column, None, 1))]
    return bool(stored) and not any(_opens(key, text) for key in map(Fernet, ring) for text in stored)


def field_key_keep() -> None:
    """From now on this process encrypts with the ring's first key."""
    FieldKey.objects.bulk_create([FieldKey(fingerprint=_fingerprint(_ring()[0]))], ignore_conflicts=True)


def field_keys_rotate(*, give_up_lost: bool = False) -> Rotated:
    """Encrypt every value with the ring's first key, a batch a commit: stopped at any point, it goes on where
    it was. A value that is changed meanwhile is under the first key already. In the end the first key is the
    only one that is asked for; one that is not in the ring still is, while values need it, unless they are
    given up."""
    done = Rotated()
    for model, column in encrypted_columns():
        name = f"{model._meta.label}.{column.name}"
        for counts in (done.rotated, done.current, done.unreadable):
            counts[name] = 0
        last: Any = None
        while rows := _batch(model, column, last):
            _rotate(model, column, rows, done, name)
            last = rows[-1][0]
    _keep_first(lost=any(done.unreadable.values()) and not give_up_lost)
    return done


@transaction.atomic
def _keep_first(*, lost: bool) -> None:
    first, *older = [_fingerprint(key) for key in _ring()]
    field_key_keep()
    others = FieldKey.objects.exclude(fingerprint=first)
    (others.filter(fingerprint__in=older) if lost else others).delete()


def _ring() -> list[bytes]:
    """The same for every column; the first encrypts."""
    _, column = next(encrypted_columns())
    return list(column.keys)  # type: ignore[attr-defined]  # EncryptedFieldMixin


def _fingerprint(key: bytes) -> str:
    return hmac.new(key, b"flightdeck field key", hashlib.sha256).hexdigest()[:32]


def _batch(
    model: type[models.Model], column: models.Field[Any, Any], last: Any, most: int = 0
) -> list[tuple[Any, str]]:
    """The next rows by key (`most`, or a batch), as stored: the model's own reading would decrypt them."""
    query = (_FIRST if last is None else _NEXT).format(**_names(model, column))
    with connection.cursor() as cursor:
        cursor.execute(query, [most or _BATCH] if last is None else [last, most or _BATCH])
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
