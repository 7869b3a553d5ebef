"""A seller's books: one SQLite file that survives SIGKILL, and that the judge reads at the end."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Json = dict[str, Any]
_TABLES = """
create table if not exists answers (key text primary key, request text not null, answer text not null);
create table if not exists buys (
    media_buy_id text primary key, number integer not null, key text not null, deal_id text not null,
    account text not null, body text not null
);
create table if not exists tasks (
    task_id text primary key, number integer not null, status text not null, result text not null,
    push text, account text not null, context text, created_at real not null, updated_at real not null, due_at real
);
create table if not exists posts (
    id integer primary key, number integer not null, url text not null, secret text, body text not null,
    copies integer not null, trouble text not null, attempts integer not null default 0,
    due_at real, outcome text not null default ''
);
create table if not exists counters (number integer, what text, n integer not null, primary key (number, what));
create table if not exists traffic (
    id integer primary key, at real not null, begun integer not null, out integer not null,
    looking integer not null, of_one integer not null
);
create table if not exists spans (
    id integer primary key, what text not null, began real not null, ended real not null, told text not null
);
create table if not exists log (id integer primary key, at real not null, number integer not null, what text not null);
"""  # noqa: E501 - tables read best in lines


class Books:
    """The books of one seller; one process writes, any may read."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=60)
        self._db.row_factory = sqlite3.Row
        # What is written reaches the kernel: a SIGKILL loses nothing. A power cut is not part of the run.
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = off")
        self._db.executescript(_TABLES)

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, alone."""
        with self._lock:
            self._db.execute("begin immediate")
            try:
                yield self._db
            except BaseException:  # whatever ends the block, nothing of it stays
                self._db.execute("rollback")
                raise
            self._db.execute("commit")

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def count(self, number: int, what: str) -> int:
        """How often this has happened to the purchase before; counted on."""
        with self.changing() as db:
            row = db.execute(
                "insert into counters values (?, ?, 1) on conflict (number, what) do update set n = n + 1"
                " returning n",
                (number, what),
            ).fetchone()
            return int(row[0]) - 1

    def span(self, what: str, began: float, told: str) -> None:
        """Something that took its time, and what came of it: it has ended now."""
        with self.changing() as db:
            db.execute(
                "insert into spans (what, began, ended, told) values (?, ?, ?, ?)",
                (what, began, time.time(), told),
            )

    def note(self, number: int, what: str) -> None:
        with self.changing() as db:
            db.execute("insert into log (at, number, what) values (?, ?, ?)", (time.time(), number, what))


def text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
