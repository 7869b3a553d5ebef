"""The books of a fake seller: one SQLite file that survives SIGKILL.

The seller's process keeps it. Tests and the chaos run read it, and write scripts and faults into it.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Json = dict[str, Any]
#: What a product's script says where it says nothing. `first`: the status of the answer to create_media_buy.
#: A task that this opens ends as `end` after `pace_s` seconds (None: never). `webhooks`: how its end is
#: announced (see `webhooks`). `webhook_faults`: what happens to the first attempts to deliver it.
DEFAULT_SCRIPT: Json = {
    "first": "completed",
    "end": "completed",
    "pace_s": 0,
    "webhooks": "none",
    "webhook_faults": [],
}
_TABLES = """
create table if not exists scripts (product_id text primary key, script text not null);
create table if not exists faults (
    id integer primary key, tool text not null, product_id text, fault text not null, times integer not null
);
create table if not exists requests (
    id integer primary key, tool text not null, arguments text not null, at text not null
);
create table if not exists answers (key text primary key, request text not null, answer text not null);
create table if not exists buys (
    media_buy_id text primary key, product_id text not null, key text not null, body text not null
);
create table if not exists tasks (
    task_id text primary key, product_id text not null, key text not null, status text not null,
    body text not null, push text not null, created_at real not null, updated_at real not null, due_at real
);
create table if not exists webhooks (
    id integer primary key, url text not null, secret text, body text not null, copies integer not null,
    faults text not null, attempts integer not null default 0, due_at real, answer integer
);
"""


class Books:
    """One connection to the file, for all threads of a process."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=60)
        self._db.row_factory = sqlite3.Row
        # The kernel has what was written, so a SIGKILL loses nothing. No test cuts the power.
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = off")
        self._db.executescript(_TABLES)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._db.execute("begin immediate")
            try:
                yield self._db
            except BaseException:
                self._db.execute("rollback")
                raise
            self._db.execute("commit")

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def execute(self, statement: str, *values: object) -> None:
        with self.transaction() as db:
            db.execute(statement, values)

    def add_script(self, product_id: str, script: Json) -> None:
        self.execute("insert into scripts values (?, ?)", product_id, dump(script))

    def add_fault(self, tool: str, fault: Json, *, times: int, product_id: str | None) -> None:
        """Store a fault for the next `times` calls of the tool (0: all)."""
        statement = "insert into faults (tool, product_id, fault, times) values (?, ?, ?, ?)"
        self.execute(statement, tool, product_id, dump(fault), times)

    def take_fault(self, tool: str, product_id: str) -> Json:
        """Return the first fault for this call and count it down; return {} without one."""
        with self.transaction() as db:
            query = (
                "select * from faults where tool in (?, '*') and coalesce(product_id, ?) = ?"
                " order by id limit 1"
            )
            row = db.execute(query, (tool, product_id, product_id)).fetchone()
            if row is None:
                return {}
            db.execute("update faults set times = times - 1 where id = ? and times > 0", (row["id"],))
            db.execute("delete from faults where id = ? and times = 0 and ? > 0", (row["id"], row["times"]))
        fault: Json = json.loads(row["fault"])
        return fault

    def add_request(self, tool: str, arguments: Json) -> None:
        statement = "insert into requests (tool, arguments, at) values (?, ?, ?)"
        self.execute(statement, tool, dump(arguments), timestamp())


def dump(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def timestamp(seconds: float | None = None) -> str:
    """Return a moment (default: now) as AdCP writes it."""
    moment = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat().replace("+00:00", "Z")
