"""The database stores a digest of the migration files that made it.

Until the first release, migrations are regenerated under the same names. Django would silently skip a changed
file, so a process compares the digests before it starts, and `migrate` before it changes anything.
"""

from __future__ import annotations

import hashlib
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.recorder import MigrationRecorder
from psycopg import sql

_APPS = ("tasks_app", "orders", "campaigns")
# The rules migrations read these files.
_FILES = ("*/migrations/*.py", "*/migrations/sql/*.sql", "tasks_app/lifecycle/data/*.json")
_OTHER_FILES = (
    "This database was made by other migration files than these, and cannot be brought up to date. Start over"
    " with make demo-reset, which deletes the embedded database, or with an empty database of your own."
)


def other_migrations() -> str:
    """Return why this process cannot work on the database: another digest; empty if there is no reason."""
    with connection.cursor() as cursor:
        cursor.execute("select to_regclass('public.django_migrations') is not null")
        made = cursor.fetchone()[0]
    return _OTHER_FILES if made and _stored(connection) != files_digest() else ""


def migrations_check(using: str, **_: Any) -> None:
    """Store the digest in a new database. A receiver of `pre_migrate`.

    Raises:
        CommandError: The database has another digest.
    """
    migrated = connections[using]
    recorder = MigrationRecorder(migrated)
    if any(app in _APPS for app, _ in recorder.applied_migrations()):
        if _stored(migrated) != files_digest():
            raise CommandError(_OTHER_FILES)
        return
    recorder.ensure_schema()
    with migrated.cursor() as cursor:
        cursor.execute(
            sql.SQL("comment on table django_migrations is {}").format(sql.Literal(files_digest()))
        )


def files_digest() -> str:
    """Return the SHA-256 digest of everything that migrations install."""
    told = hashlib.sha256()
    for path in sorted(path for pattern in _FILES for path in settings.BASE_DIR.glob(pattern)):
        told.update(hashlib.sha256(path.read_bytes()).digest())
    return told.hexdigest()


def _stored(on: BaseDatabaseWrapper) -> str | None:
    with on.cursor() as cursor:
        cursor.execute("select obj_description('public.django_migrations'::regclass)")
        return cursor.fetchone()[0]
