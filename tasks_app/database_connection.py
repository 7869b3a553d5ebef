"""How moments are read, whether a kept connection still stands, without asking the server, and what a failed
statement means."""

from __future__ import annotations

import select
from datetime import UTC, datetime
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.signals import connection_created
from psycopg.abc import Buffer
from psycopg.errors import DeadlockDetected, LockNotAvailable
from psycopg.types.datetime import TimestamptzLoader


class MomentLoader(TimestamptzLoader):
    """Moments as the server writes them on a connection in UTC, by Python's own parser: an eighth of the time
    of psycopg's regular expression. Anything else (another zone, infinity, years before Christ) is its."""

    timezone = UTC  # Django compares it with the connection's

    def load(self, data: Buffer) -> datetime:
        try:
            moment = datetime.fromisoformat(str(data, "ascii"))
        except ValueError:
            return super().load(data)
        return moment if moment.tzinfo is UTC else super().load(data)


def register() -> None:
    """Called when the application starts."""
    connection_created.connect(_moments_read, dispatch_uid="moments_read")


def _moments_read(connection: Any, **_: Any) -> None:
    if connection.timezone is UTC:
        connection.connection.adapters.register_loader("timestamptz", MomentLoader)


def connection_checked(alias: str = DEFAULT_DB_ALIAS) -> None:
    """Outside a transaction: spare Django's check of a kept connection (`CONN_HEALTH_CHECKS`), which asks the
    server, where nothing has come in on it. A server that ends a connection says so, or closes it; one that
    vanished without a word is found by the next statement, as where it vanishes just after the check."""
    database: Any = connections[alias]
    raw = database.connection
    if raw is None or database.in_atomic_block:
        return
    if raw.closed or database.errors_occurred or _has_come_in(raw.fileno()):
        database.close_if_unusable_or_obsolete()
        database.close_if_health_check_failed()
    else:
        database.health_check_done = True


def is_held_by_another(error: BaseException) -> bool:
    """Whether a statement, or a commit, gave up waiting for a row that another transaction holds, or was
    ended because that one waited for ours as well."""
    return isinstance(error.__cause__, (LockNotAvailable, DeadlockDetected))


def _has_come_in(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
