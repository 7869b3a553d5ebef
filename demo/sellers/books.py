"""A seller's books: one SQLite file that outlives the process.

Every row that something later depends on is here: accounts, media buys, tasks, the next step of each task
with its due time, the webhooks still to be delivered, and the answers kept for idempotent replay. One
connection, used only from the server's event loop; a transaction never spans an await.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_SCHEMA = """
CREATE TABLE IF NOT EXISTS account (
    account_id TEXT PRIMARY KEY, domain TEXT NOT NULL, operator TEXT NOT NULL, body TEXT NOT NULL,
    UNIQUE (domain, operator));
CREATE TABLE IF NOT EXISTS media_buy (
    number INTEGER PRIMARY KEY AUTOINCREMENT, media_buy_id TEXT NOT NULL UNIQUE, account_id TEXT NOT NULL,
    scope TEXT NOT NULL, idempotency_key TEXT NOT NULL, fingerprint TEXT NOT NULL, answer TEXT NOT NULL,
    body TEXT NOT NULL, UNIQUE (scope, idempotency_key));
CREATE TABLE IF NOT EXISTS task (
    number INTEGER PRIMARY KEY AUTOINCREMENT, task_id TEXT NOT NULL UNIQUE, account_id TEXT NOT NULL,
    media_buy_id TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS step (
    number INTEGER PRIMARY KEY AUTOINCREMENT, task_id TEXT NOT NULL, due_at REAL NOT NULL,
    action TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS delivery (
    number INTEGER PRIMARY KEY AUTOINCREMENT, url TEXT NOT NULL, idempotency_key TEXT NOT NULL,
    body BLOB NOT NULL, secret TEXT, attempts INTEGER NOT NULL DEFAULT 0, due_at REAL, outcome TEXT);
CREATE TABLE IF NOT EXISTS reply (
    scope TEXT NOT NULL, idempotency_key TEXT NOT NULL, fingerprint TEXT NOT NULL, response TEXT NOT NULL,
    expires_at REAL NOT NULL, PRIMARY KEY (scope, idempotency_key));
"""


class Books:
    """Rows in and out; the business rules are in `desk.py`."""

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing. Not to be nested, nor held across an await."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:  # whatever ends the block, nothing of it stays
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # Accounts

    def account(self, account_id: str) -> dict[str, Any] | None:
        row = self._db.execute("SELECT body FROM account WHERE account_id = ?", (account_id,)).fetchone()
        return json.loads(row["body"]) if row else None

    def account_of(self, domain: str, operator: str) -> dict[str, Any] | None:
        row = self._db.execute(
            "SELECT body FROM account WHERE domain = ? AND operator = ?", (domain, operator)
        ).fetchone()
        return json.loads(row["body"]) if row else None

    def accounts(self) -> list[dict[str, Any]]:
        return [
            json.loads(row["body"])
            for row in self._db.execute("SELECT body FROM account ORDER BY account_id")
        ]

    def add_account(self, account: dict[str, Any]) -> None:
        self._db.execute(
            "INSERT INTO account VALUES (?, ?, ?, ?)",
            (account["account_id"], account["brand"]["domain"], account["operator"], json.dumps(account)),
        )

    # Media buys

    def add_buy(
        self,
        buy: dict[str, Any],
        *,
        account_id: str,
        scope: str,
        key: str,
        fingerprint: str,
        answer: dict[str, Any],
    ) -> None:
        self._db.execute(
            "INSERT INTO media_buy"
            " (media_buy_id, account_id, scope, idempotency_key, fingerprint, answer, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (buy["media_buy_id"], account_id, scope, key, fingerprint, json.dumps(answer), json.dumps(buy)),
        )

    def answer_to(self, scope: str, key: str) -> tuple[str, dict[str, Any]] | None:
        """The fingerprint of the request that made a buy with this key, and what was answered."""
        row = self._db.execute(
            "SELECT fingerprint, answer FROM media_buy WHERE scope = ? AND idempotency_key = ?", (scope, key)
        ).fetchone()
        return (row["fingerprint"], json.loads(row["answer"])) if row else None

    def buy(self, media_buy_id: str) -> dict[str, Any] | None:
        row = self._db.execute(
            "SELECT body FROM media_buy WHERE media_buy_id = ?", (media_buy_id,)
        ).fetchone()
        return json.loads(row["body"]) if row else None

    def save_buy(self, buy: dict[str, Any]) -> None:
        self._db.execute(
            "UPDATE media_buy SET body = ? WHERE media_buy_id = ?", (json.dumps(buy), buy["media_buy_id"])
        )

    def buys(self) -> list[dict[str, Any]]:
        """Every media buy, oldest first."""
        return [
            json.loads(row["body"]) for row in self._db.execute("SELECT body FROM media_buy ORDER BY number")
        ]

    # Tasks and their next steps

    def add_task(self, task: dict[str, Any]) -> None:
        self._db.execute(
            "INSERT INTO task (task_id, account_id, media_buy_id, body) VALUES (?, ?, ?, ?)",
            (task["task_id"], task["account_id"], task["media_buy_id"], json.dumps(task)),
        )

    def task(self, task_id: str) -> dict[str, Any] | None:
        row = self._db.execute("SELECT body FROM task WHERE task_id = ?", (task_id,)).fetchone()
        return json.loads(row["body"]) if row else None

    def task_of_buy(self, media_buy_id: str) -> dict[str, Any] | None:
        row = self._db.execute("SELECT body FROM task WHERE media_buy_id = ?", (media_buy_id,)).fetchone()
        return json.loads(row["body"]) if row else None

    def save_task(self, task: dict[str, Any]) -> None:
        self._db.execute("UPDATE task SET body = ? WHERE task_id = ?", (json.dumps(task), task["task_id"]))

    def tasks(self) -> list[dict[str, Any]]:
        """Every task, oldest first."""
        return [json.loads(row["body"]) for row in self._db.execute("SELECT body FROM task ORDER BY number")]

    def add_step(self, task_id: str, *, due_at: float, action: str) -> None:
        """`due_at` in seconds since the epoch."""
        self._db.execute(
            "INSERT INTO step (task_id, due_at, action) VALUES (?, ?, ?)", (task_id, due_at, action)
        )

    def due_step(self, moment: float) -> sqlite3.Row | None:
        return self._db.execute(
            "SELECT * FROM step WHERE due_at <= ? ORDER BY due_at, number LIMIT 1", (moment,)
        ).fetchone()

    def put_off_step(self, number: int, *, due_at: float) -> None:
        self._db.execute("UPDATE step SET due_at = ? WHERE number = ?", (due_at, number))

    def drop_step(self, number: int) -> None:
        self._db.execute("DELETE FROM step WHERE number = ?", (number,))

    def drop_steps(self, task_id: str) -> None:
        self._db.execute("DELETE FROM step WHERE task_id = ?", (task_id,))

    # Webhooks still to be delivered

    def add_delivery(self, *, url: str, key: str, body: bytes, secret: str | None, due_at: float) -> None:
        self._db.execute(
            "INSERT INTO delivery (url, idempotency_key, body, secret, due_at) VALUES (?, ?, ?, ?, ?)",
            (url, key, body, secret, due_at),
        )

    def due_deliveries(self, moment: float) -> list[sqlite3.Row]:
        return self._db.execute(
            "SELECT * FROM delivery WHERE due_at <= ? ORDER BY due_at, number LIMIT 20", (moment,)
        ).fetchall()

    def settle_delivery(self, number: int, *, outcome: str, due_at: float | None) -> None:
        """One more attempt made; `due_at` None ends it and forgets the secret."""
        self._db.execute(
            "UPDATE delivery SET attempts = attempts + 1, outcome = ?, due_at = ?,"
            " secret = CASE WHEN ? IS NULL THEN NULL ELSE secret END WHERE number = ?",
            (outcome, due_at, due_at, number),
        )

    # Answers kept for replay

    def reply(self, scope: str, key: str, moment: float) -> sqlite3.Row | None:
        return self._db.execute(
            "SELECT * FROM reply WHERE scope = ? AND idempotency_key = ? AND expires_at > ?",
            (scope, key, moment),
        ).fetchone()

    def save_reply(self, scope: str, key: str, *, fingerprint: str, response: str, expires_at: float) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO reply VALUES (?, ?, ?, ?, ?)",
            (scope, key, fingerprint, response, expires_at),
        )

    def drop_replies(self, moment: float) -> int:
        return self._db.execute("DELETE FROM reply WHERE expires_at <= ?", (moment,)).rowcount
