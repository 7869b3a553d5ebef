"""Entries as PostgreSQL holds them, column by column in its binary format: what verification judges.

Read past the ORM for two reasons: its types would blur what is compared (jsonb through Python's floats), and
they take several times as long as the verification itself.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from django.db import connection
from psycopg import sql
from psycopg.types.string import ByteaBinaryLoader

# entity id (16 bytes), seq, from, to, at (8 bytes: microseconds since 2000), actor, reason, metadata,
# changes (a byte 1, then text), trace id, format version, body, previous hash, hash, then the entity's
# stored status and version (None where there is no such entity). Texts are UTF-8 bytes.
Row = tuple[Any, ...]
ID, SEQ, FROM, TO, AT, ACTOR, REASON, METADATA = range(8)
CHANGES, TRACE, FORMAT, BODY, PREVIOUS, HASH, STATUS, VERSION = range(8, 16)
_POSTGRES_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_AS_BYTES = ("uuid", "timestamptz", "jsonb", "text", "varchar")
_CHUNK = 200

_ENTRIES = sql.SQL(
    "select a.entity_id, a.seq, a.from_status, a.to_status, a.at, a.actor, a.reason, a.metadata, a.changes,"
    " a.trace_id, a.format_version, a.body, a.prev_hash, a.hash, t.status, t.version"
    " from tasks_app_auditentry a left join {table} t on t.id = a.entity_id"
    " where a.entity_type = %(kind)s and {narrowed} order by a.entity_id, a.seq"
)
_TRAILLESS = sql.SQL(
    "select t.id, t.status, t.version from {table} t where not exists (select from tasks_app_auditentry a"
    " where a.entity_type = %(kind)s and a.entity_id = t.id) and {narrowed} order by t.id"
)
_NOWHERE = sql.SQL(
    "(select null::uuid as id, null::text as status, null::int as version,"
    " null::timestamptz as status_since where false)"
)
_RECENT = sql.SQL(
    "a.entity_id in (select r.entity_id from tasks_app_auditentry r where r.entity_type = %(kind)s"
    " and r.at >= %(since)s union select n.id from {table} n where n.status_since >= %(since)s)"
)
_RECENT_ROW = sql.SQL("t.status_since >= %(since)s")
_ALL = sql.SQL("true")
# The application's limits are for short transactions; which of them there are depends on the version.
_NO_HURRY = (
    "select set_config(name, '0', true) from pg_settings"
    " where name in ('transaction_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout')"
)


@dataclass(frozen=True, kw_only=True)
class Part:
    """Which entries: of one kind of entity (`table` holds them; empty: none does), narrowed to one of them
    or to those that moved since a moment."""

    kind: str
    table: str = ""
    entity_id: uuid.UUID | None = None
    since: datetime | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        return {"kind": self.kind, "entity_id": self.entity_id, "since": self.since}

    @property
    def source(self) -> sql.Composable:
        return sql.Identifier(self.table) if self.table else _NOWHERE

    def narrowed(self, one: str, recent: sql.SQL) -> sql.Composable:
        if self.entity_id is not None:
            return sql.SQL(one)
        return recent.format(table=self.source) if self.since is not None else _ALL


@contextmanager
def snapshot() -> Iterator[psycopg.Connection[Any]]:
    """A connection of its own that sees one moment of what is committed, however long it reads.

    Raises django.db.OperationalError where the database does not answer.
    """
    own = connection.copy()
    try:
        own.ensure_connection()
        with own.wrap_database_errors:
            own.connection.execute("begin transaction isolation level repeatable read, read only")
            own.connection.execute(_NO_HURRY)
            yield own.connection
    finally:
        own.close()


def entries_stored(raw: psycopg.Connection[Any], part: Part) -> Generator[Row, None, None]:
    """Entries in order of entity and seq, in constant memory; close it before `raw` is used again."""
    narrowed = part.narrowed("a.entity_id = %(entity_id)s", _RECENT)
    query = _ENTRIES.format(table=part.source, narrowed=narrowed)
    yield from _cursor(raw).stream(query, part.parameters, binary=True, size=_CHUNK)


def without_entries(raw: psycopg.Connection[Any], part: Part) -> Generator[Row, None, None]:
    """(id, status, version) of entities that the trail knows nothing of."""
    narrowed = part.narrowed("t.id = %(entity_id)s", _RECENT_ROW)
    query = _TRAILLESS.format(table=part.source, narrowed=narrowed)
    yield from _cursor(raw).stream(query, part.parameters, binary=True, size=_CHUNK)


def entries_of_one(part: Part) -> list[Row]:
    """One entity's entries, one statement, seen from the present transaction; without entries, one row of
    None with the entity's status and version, if it exists."""
    connection.ensure_connection()
    raw = connection.connection
    with connection.wrap_database_errors:
        return list(entries_stored(raw, part)) or [
            (*(None,) * STATUS, row[1], row[2]) for row in without_entries(raw, part)
        ]


def kinds_stored(raw: psycopg.Connection[Any]) -> list[str]:
    """Every entity type that an entry names."""
    rows = raw.execute("select distinct entity_type::text from tasks_app_auditentry").fetchall()
    return [str(row[0]) for row in rows]


def at_bytes(at: datetime) -> bytes:
    """A moment as PostgreSQL sends it."""
    return ((at - _POSTGRES_EPOCH) // timedelta(microseconds=1)).to_bytes(8, "big", signed=True)


def at_time(sent: bytes) -> datetime:
    """A moment that PostgreSQL sent, UTC. Raises OverflowError for one beyond Python's years."""
    return _POSTGRES_EPOCH + timedelta(microseconds=int.from_bytes(sent, "big", signed=True))


def _cursor(raw: psycopg.Connection[Any]) -> psycopg.Cursor[Row]:
    # Not Django's cursor: that one's types are Django's.
    cursor: psycopg.Cursor[Row] = psycopg.Cursor(raw)
    for name in _AS_BYTES:
        cursor.adapters.register_loader(name, ByteaBinaryLoader)
    return cursor
