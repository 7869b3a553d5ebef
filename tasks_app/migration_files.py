"""The database stores a digest of the migration files that made it.

Until the first release, migrations are regenerated under the same names. Django would silently skip a changed
file, so a process compares the digests before it starts, and `migrate` before it changes anything.

Delete this module at the first release: it refuses every new migration.
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
# The rules migrations read the others.
_FILES = (
    "*/migrations/*.py",
    "*/migrations/sql/*.sql",
    "tasks_app/lifecycle/data/*.json",
    "tasks_app/lifecycle/install.py",
)
_OTHER_FILES = (
    "The migration files have changed since this database was created, and it cannot be upgraded. All its"
    " data will be lost: run make demo-reset for the embedded database, or use an empty database. (A copy"
    " that was restored without comments looks the same: restore it with them.)"
)


def digest_problem() -> str:
    """Return why this process cannot work on the database: it has another digest. Empty if it can."""
    with connection.cursor() as cursor:
        cursor.execute("select to_regclass('public.django_migrations') is not null")
        exists = cursor.fetchone()[0]
    return _OTHER_FILES if exists and _read_digest(connection) != files_digest() else ""


def check_migration_files(using: str, **_: Any) -> None:
    """Store the digest in a new database. A receiver of `pre_migrate`.

    Raises:
        CommandError: The database has another digest.
    """
    database = connections[using]
    recorder = MigrationRecorder(database)
    if any(app in _APPS for app, _ in recorder.applied_migrations()):
        if _read_digest(database) != files_digest():
            raise CommandError(_OTHER_FILES)
        return
    recorder.ensure_schema()
    comment = sql.SQL("comment on table django_migrations is {}").format(sql.Literal(files_digest()))
    with database.cursor() as cursor:
        cursor.execute(comment)


def files_digest() -> str:
    """Return the SHA-256 digest of all files that decide what migrations install."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in _FILES for path in settings.BASE_DIR.glob(pattern)):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _read_digest(database: BaseDatabaseWrapper) -> str | None:
    with database.cursor() as cursor:
        cursor.execute("select obj_description('public.django_migrations'::regclass)")
        return cursor.fetchone()[0]
