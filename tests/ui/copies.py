"""Multiplies rows of a database for the tests of large lists.

A copy is like its original, but earlier: each key is that of an earlier moment, references and unique texts
get a number, and each entity's audit trail is chained anew. Triggers are off meanwhile; a recorded import
says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import sql
from psycopg.rows import dict_row

TRAIL = "tasks_app_auditentry"
LEFT_OUT = (TRAIL, "tasks_app_outboxevent")  # chained anew; pruned long ago
_ACTOR = "system"
# The entries of one number in their chains, each hashed over the one before it.
_ENTRIES = """
insert into tasks_app_auditentry (entity_type, entity_id, seq, from_status, to_status, at, actor, reason,
       metadata, changes, trace_id, format_version, body, prev_hash, hash)
select entity_type, its, seq, from_status, to_status, moment, actor, reason,
       metadata, changes, trace_id, format_version, body, before, sha256(body)
  from (select c.*, coalesce(p.hash, ''::bytea) as before,
               fd_body(c.entity_type, c.its, c.seq, c.from_status, c.to_status, c.moment, c.actor, c.reason,
                       c.metadata, c.changes, c.trace_id, coalesce(p.hash, ''::bytea)) as body
          from (select m.entity_type, m.seq, m.from_status, m.to_status, m.actor, m.reason, m.metadata,
                       m.changes, m.trace_id, m.format_version,
                       {its} as its, m.at - n * {apart} as moment
                  from tasks_app_auditentry m, generate_series(1, %(count)s) n
                 where m.entity_id = any(%(ids)s::uuid[]) and m.seq = %(seq)s offset 0) c
          left join tasks_app_auditentry p
            on p.entity_type = c.entity_type and p.entity_id = c.its and p.seq = c.seq - 1
        offset 0) e
"""


@dataclass(frozen=True, kw_only=True)
class Series:
    """So many copies of one model, the latest `apart` before it; `year` stands in their references."""

    name: str
    rows: Mapping[str, Collection[str]]
    count: int
    apart: timedelta
    year: int

    @property
    def tables(self) -> list[str]:
        return [table for table in self.rows if table not in LEFT_OUT]

    @property
    def ids(self) -> list[str]:
        """Keys of the model's rows that are no numbers."""
        return [key for table in self.tables for key in self.rows[table] if "-" in key]


@contextmanager
def loading(admin: Any) -> Iterator[None]:
    """A superuser's transaction that loads in bulk, without triggers."""
    with admin.transaction():
        admin.execute("set local session_replication_role = replica")
        admin.execute("set local synchronous_commit = off")
        # One number after the other, each found by its key: nothing large is sorted or hashed.
        admin.execute("set local enable_hashjoin = off")
        admin.execute("set local enable_mergejoin = off")
        admin.execute("set local transaction_timeout = 0")
        yield


def rows_copy(admin: Any, series: Series) -> None:
    """The rows of a series, in a superuser's transaction without triggers; recorded as an import."""
    admin.execute(
        "insert into tasks_app_import (id, source, source_digest, at, actor, rows, txid)"
        " values (gen_random_uuid(), %s, '', now(), %s, %s, pg_current_xact_id()::text::bigint)",
        [f"copies of {series.name}", _ACTOR, series.count],
    )
    for table in series.tables:
        _copy(admin, series, table)


def _copy(admin: Any, series: Series, table: str) -> None:
    columns = _columns(admin, table)
    key = _key(admin, table)
    rows = _model_rows(admin, series, table, key)
    ids = set(series.ids)
    mapped = {name for name in columns for row in rows if str(row[name]) in ids}
    unique = _unique_texts(admin, table, mapped)
    values = {
        name: _value(name, kind, series, mapped=name in mapped, unique=name in unique)
        for name, kind in columns.items()
        if not (name == key and kind != "uuid")  # a number: the table's own sequence counts on
    }
    statement = sql.SQL(
        "insert into {table} ({names}) select {values}"
        " from (select *, row_number() over (order by {key}) as place, count(*) over () as places"
        " from {table} where {key}::text = any(%(keys)s)) m, generate_series(1, %(count)s) n"
    ).format(
        table=sql.Identifier(table),
        names=sql.SQL(", ").join(map(sql.Identifier, values)),
        values=sql.SQL(", ").join(values.values()),
        key=sql.Identifier(key),
    )
    admin.execute(
        statement, {"keys": list(series.rows[table]), "count": series.count, "ids": sorted(mapped and ids)}
    )


def _value(name: str, kind: str, series: Series, *, mapped: bool, unique: bool) -> sql.Composable:
    column = sql.SQL("m.{}").format(sql.Identifier(name))
    if kind == "uuid" and mapped:
        moved = _moved(column, series, sql.SQL("n"))
        return sql.SQL("case when {} = any(%(ids)s::uuid[]) then {} else {} end").format(
            column, moved, column
        )
    if kind == "timestamp with time zone":
        return sql.SQL("{} - n * {}").format(column, sql.Literal(series.apart))
    if name == "reference" and unique:
        return sql.SQL("split_part({}, '-', 1) || {} || (n * places + place)").format(
            column, sql.Literal(f"-{series.year}-")
        )
    if unique:
        return sql.SQL(
            "case when {0} = '' then '' else left({0}, {1} - length({2} || n)) || {2} || n end"
        ).format(column, sql.Literal(_room(kind)), sql.Literal(f"~{series.year}-"))
    return column


def _room(kind: str) -> int:
    """How many characters a text of that type holds: `character varying(64)`, `text`."""
    return int(kind.partition("(")[2].rstrip(")") or 1000)


def _moved(key: sql.Composable, series: Series, number: sql.Composable) -> sql.Composed:
    """A key as if it had been made `number` times `apart` earlier: RFC 9562's first 48 bits are that moment,
    the rest is the model's own."""
    apart_ms = sql.Literal(series.apart / timedelta(milliseconds=1))
    digits = sql.SQL("replace({}::text, '-', '')").format(key)
    return sql.SQL(
        "(lpad(to_hex(('x' || left({0}, 12))::bit(48)::bigint - ({1} * {2})::bigint), 12, '0')"
        " || substr({0}, 13))::uuid"
    ).format(digits, number, apart_ms)


def trails_copy(admin: Any, series: Series) -> None:
    """Every entity's entries of a series, the first ones first, in a transaction as for `rows_copy`."""
    last = admin.execute(
        f"select coalesce(max(seq), 0) from {TRAIL} where entity_id = any(%s::uuid[])",
        [series.ids],
    ).fetchone()[0]
    statement = sql.SQL(_ENTRIES).format(
        its=_moved(sql.SQL("m.entity_id"), series, sql.SQL("n")),
        apart=sql.Literal(series.apart),
    )
    for seq in range(1, last + 1):
        admin.execute(statement, {"count": series.count, "ids": series.ids, "seq": seq})


def _columns(admin: Any, table: str) -> dict[str, str]:
    found = admin.execute(
        "select attname, format_type(atttypid, atttypmod) from pg_attribute where attrelid = %s::regclass"
        " and attnum > 0 and not attisdropped and attgenerated = '' and attidentity <> 'a'",
        [table],
    )
    return dict(found.fetchall())


def _key(admin: Any, table: str) -> str:
    found = admin.execute(
        "select a.attname from pg_index i"
        " join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]"
        " where i.indrelid = %s::regclass and i.indisprimary",
        [table],
    )
    return str(found.fetchone()[0])


def _unique_texts(admin: Any, table: str, mapped: Collection[str]) -> set[str]:
    """Texts that no other row may have, where no key that moves along makes the difference; one with room for
    less than 20 characters is no name but a kind."""
    found = admin.execute(
        "select array_agg(a.attname::text), array_agg(a.attname::text order by k.place)"
        " filter (where a.atttypid in ('text'::regtype, 'varchar'::regtype) and a.atttypmod not between 0 and"
        " 23)"
        " from pg_index i, unnest(i.indkey::int[]) with ordinality k (number, place), pg_attribute a"
        " where i.indrelid = %s::regclass and i.indisunique and a.attrelid = i.indrelid"
        " and a.attnum = k.number group by i.indexrelid",
        [table],
    )
    return {texts[-1] for names, texts in found.fetchall() if texts and not set(names) & set(mapped)}


def _model_rows(admin: Any, series: Series, table: str, key: str) -> list[dict[str, Any]]:
    wanted = sql.SQL("select * from {} where {}::text = any(%s)").format(
        sql.Identifier(table), sql.Identifier(key)
    )
    with admin.cursor(row_factory=dict_row) as cursor:
        rows: list[dict[str, Any]] = cursor.execute(wanted, [list(series.rows[table])]).fetchall()
        return rows
