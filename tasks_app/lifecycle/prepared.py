"""Statements prepared by the server, through Django's own connection.

Django binds parameters on the client, so that the server parses and plans each statement anew; for the one
statement of every status change that is a third of its cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg.pq import Format

# Executions of one statement on one connection before the server keeps its plan.
_AFTER = 2
Row = tuple[Any, ...]
Parameters = Sequence[Any] | Mapping[str, Any]


def prepared_row(statement: str, parameters: Parameters) -> Row | None:
    """Run one statement, prepared from its third time on; answers its first row.

    In the caller's transaction, or a commit of its own; errors, query logs and execute wrappers are Django's.
    """
    with _executed(statement, parameters) as cursor:
        row: Row | None = cursor.fetchone()
    return row


def prepared_rows(statement: str, parameters: Parameters) -> list[Row]:
    """As `prepared_row`; answers every row. They come in binary, which costs half: JSON decoded, moments
    aware."""
    with _executed(statement, parameters, Format.BINARY) as cursor:
        rows: list[Row] = cursor.fetchall()
    return rows


@contextmanager
def _executed(statement: str, parameters: Parameters, rows_as: Format = Format.TEXT) -> Iterator[Any]:
    database: Any = connections[DEFAULT_DB_ALIAS]
    database.close_if_health_check_failed()
    database.ensure_connection()
    database.validate_thread_sharing()
    raw = database.connection
    if raw.prepare_threshold is None:  # Django's own cursors bind on the client and are never prepared
        raw.prepare_threshold = _AFTER
    make = database.make_debug_cursor if database.queries_logged else database.make_cursor
    own: psycopg.Cursor[Row] = psycopg.Cursor(raw)
    own.format = rows_as
    with make(own) as cursor:
        cursor.execute(statement, parameters)
        yield cursor
