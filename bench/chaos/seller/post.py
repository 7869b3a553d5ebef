"""Delivering the webhooks: each again and again until the buyer takes it, spoilt on its way as planned."""

from __future__ import annotations

import http.client
import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from bench.chaos.seller.books import Books
from bench.chaos.seller.signing import KEY_ID, UNKNOWN_KEY_ID, WRONG, Signer

_TIMEOUT_S = 10.0
_BACKOFF_S = (0.5, 1.0, 2.0, 4.0)
_SIDE_BY_SIDE = 4
_TAKEN, _NEVER_AGAIN = range(200, 300), 409  # AdCP L3/webhooks: a sender must stop after 409


class Post:
    """The outgoing post of one seller."""

    def __init__(self, books: Books, signer: Signer) -> None:
        self._books = books
        self._signer = signer
        self._hands = ThreadPoolExecutor(_SIDE_BY_SIDE)

    def deliver_due(self) -> int:
        """Begin one attempt for what is due; the attempt and the next one's time are written before."""
        due = self._books.rows(
            "select * from posts where due_at <= ? order by due_at limit ?", time.time(), 4 * _SIDE_BY_SIDE
        )
        for row in due:
            wait = _TIMEOUT_S + _BACKOFF_S[min(row["attempts"], len(_BACKOFF_S) - 1)]
            with self._books.changing() as db:
                db.execute(
                    "update posts set attempts = attempts + 1, due_at = ? where id = ?",
                    (time.time() + wait, row["id"]),
                )
            for copy in range(row["copies"]):
                self._hands.submit(self._attempt, row, counts=copy == 0)
        return len(due)

    def hurry(self) -> None:
        """Whatever has not been taken yet is due now, though an answer to it may still come."""
        with self._books.changing() as db:
            db.execute("update posts set due_at = min(due_at, ?) where due_at is not null", (time.time(),))

    def _attempt(self, row: sqlite3.Row, *, counts: bool) -> None:
        body = row["body"].encode()
        trouble = json.loads(row["trouble"])
        spoilt = trouble[row["attempts"]] if row["attempts"] < len(trouble) else ""
        sent = {"cut": body[: len(body) // 2], "not_json": b"<html>gateway</html>"}.get(spoilt, body)
        key_id = UNKNOWN_KEY_ID if spoilt == "unknown_key" else KEY_ID
        signed = body if spoilt == "cut" else sent
        headers = self._signer.headers(row["url"], signed, row["secret"], key_id=key_id)
        if spoilt == "bad_signature":
            headers |= WRONG[row["secret"] is not None]
        began = time.time()
        status = self._send(row["url"], sent, headers)
        self._books.span("webhook", began, str(status))
        told = f"webhook {json.loads(body)['status']}{' ' + spoilt if spoilt else ''}: {status}"
        self._books.note(row["number"], told)
        if counts:
            self._settle(row, status)

    def _settle(self, row: sqlite3.Row, status: int) -> None:
        done = status in _TAKEN or status == _NEVER_AGAIN
        due = None if done else time.time() + _BACKOFF_S[min(row["attempts"], len(_BACKOFF_S) - 1)]
        with self._books.changing() as db:
            db.execute("update posts set due_at = ?, outcome = ? where id = ?", (due, str(status), row["id"]))

    def _send(self, url: str, body: bytes, headers: dict[str, str]) -> int:
        """The HTTP status of the answer; 0 when none came."""
        where = urlsplit(url)
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=_TIMEOUT_S)
        try:
            connection.request("POST", where.path, body, {"Content-Type": "application/json", **headers})
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()
