"""The webhooks of a task: written into the books with the change they tell of, as the script says."""

from __future__ import annotations

import sqlite3
import uuid
from datetime import UTC, datetime

from bench.chaos.plan import Script
from bench.chaos.seller.books import Json, text

_SOON_S = 1.5  # between the news and what contradicts it


def announce(
    db: sqlite3.Connection, script: Script, push: Json, task_id: str, result: Json, *, at: float
) -> None:
    """The task has ended; `result` is what it came to."""
    if script.told == "never":
        return
    right = _body(script, push, task_id, script.end, result, at=at)
    rejected = _body(script, push, task_id, "rejected", {"reason": "On second thoughts, no."}, at=at)
    another = _body(
        script, push, task_id, "completed", {**result, "media_buy_id": f"mb-{uuid.uuid4().hex[:12]}"}, at=at
    )
    working = _body(script, push, task_id, "working", {"percentage": 50}, at=at - _SOON_S)
    bodies = {
        "reordered": (right, working),
        "then_rejected": (right, rejected),
        "first_rejected": (rejected, right),
        "then_another_buy": (right, another),
    }.get(script.told, (right,))
    for position, body in enumerate(bodies):
        trouble = script.post if position == 0 else ()
        _post(db, script, push, body, trouble, due_at=at + position * _SOON_S)


def progress(db: sqlite3.Connection, script: Script, push: Json, task_id: str, *, at: float) -> None:
    """The task is being worked on."""
    _post(db, script, push, _body(script, push, task_id, "working", {"percentage": 10}, at=at), (), due_at=at)


def _body(script: Script, push: Json, task_id: str, status: str, result: Json, *, at: float) -> Json:
    body = {
        "idempotency_key": f"whk-{uuid.uuid4()}",
        "task_id": task_id,
        "task_type": "create_media_buy",
        "protocol": "media-buy",
        "status": status,
        "timestamp": datetime.fromtimestamp(at, UTC).isoformat(),
        "message": "News of your order.",
        "token": push.get("token"),
        "result": result,
    }
    if script.number % 3:  # sellers of AdCP 3.0 do not echo it
        body["operation_id"] = push.get("operation_id")
    if status != "working":
        body["notification_id"] = f"{task_id}:{status}"
    return body


def _post(
    db: sqlite3.Connection, script: Script, push: Json, body: Json, trouble: tuple[str, ...], *, due_at: float
) -> None:
    authentication = push.get("authentication") or {}
    db.execute(
        "insert into posts (number, url, secret, body, copies, trouble, due_at) values (?, ?, ?, ?, ?, ?, ?)",
        (script.number, push["url"], authentication.get("credentials"), text(body),
         2 if script.told == "doubled" else 1, text(list(trouble)), due_at),
    )  # fmt: skip
