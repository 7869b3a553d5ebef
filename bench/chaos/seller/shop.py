"""What the seller does and says when nothing disturbs it: AdCP's tasks, idempotent, paged, with context."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from bench.chaos.plan import NEVER, Script
from bench.chaos.seller import news
from bench.chaos.seller.books import Books, Json, text

CAPABILITIES = "get_adcp_capabilities"
TOOLS = (CAPABILITIES, "create_media_buy", "get_media_buys", "get_task_status", "list_tasks")
FINAL = ("completed", "rejected", "failed")
_PAGE = 50


class RefusalError(Exception):
    """An AdCP error to answer with."""

    def __init__(self, code: str, message: str, *, recovery: str = "terminal", **more: Any) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "recovery": recovery, **more}


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


class Shop:
    """`scripts`: by product id. `tells`: whether this seller sends webhooks."""

    def __init__(self, books: Books, scripts: Mapping[str, Script], *, tells: bool) -> None:
        self._books = books
        self._scripts = scripts
        self._numbered = {script.number: script for script in scripts.values()}
        self._tells = tells

    def answer(self, tool: str, arguments: Json) -> Json:
        """The right answer. Raises RefusalError."""
        answers = {
            CAPABILITIES: self._capabilities,
            "create_media_buy": self._create,
            "get_media_buys": self._bought,
            "get_task_status": self._status,
            "list_tasks": self._tasks,
        }
        return answers[tool](arguments)

    def script_of(self, tool: str, arguments: Json) -> Script | None:
        """Whose purchase a call is about, where it is about one."""
        if tool == "create_media_buy":
            packages = arguments.get("packages") or [{}]
            return self._scripts.get(str(packages[0].get("product_id")))
        if tool == "get_task_status":
            found = self._books.rows("select number from tasks where task_id = ?", arguments.get("task_id"))
        elif tool == "get_media_buys" and len(arguments.get("media_buy_ids") or ()) == 1:
            wanted = arguments["media_buy_ids"][0]
            found = self._books.rows("select number from buys where media_buy_id = ?", wanted)
        else:
            found = []
        return self._numbered[found[0]["number"]] if found else None

    def finish_due(self) -> int:
        """End the tasks whose time has come: bought, announced, in one transaction each."""
        due = self._books.rows("select task_id from tasks where due_at <= ?", time.time())
        for row in due:
            with self._books.changing() as db:
                self._finish(db, row["task_id"])
        return len(due)

    def _finish(self, db: sqlite3.Connection, task_id: str) -> None:
        pending = "select * from tasks where task_id = ? and due_at is not null"
        row = db.execute(pending, (task_id,)).fetchone()
        if row is None:
            return
        script, now = self._numbered[row["number"]], time.time()
        told = json.loads(row["result"])
        if script.end == "completed":
            _book(db, script, told["buy"], told["key"])
            result = told["buy"]
        else:
            result = _refusal(script.end)
        db.execute(
            "update tasks set status = ?, result = ?, updated_at = ?, due_at = null where task_id = ?",
            (script.end, text(result), now, task_id),
        )
        if row["push"]:
            news.announce(db, script, json.loads(row["push"]), task_id, result, at=now)

    def _capabilities(self, _arguments: Json) -> Json:
        return {
            "status": "completed",
            "adcp": {
                "major_versions": [3],
                "supported_versions": ["3.2"],
                "idempotency": {"supported": True, "replay_ttl_seconds": 86400},
            },
            "supported_protocols": ["media_buy"],
            "account": {"require_operator_auth": True, "supported_billing": ["operator"]},
            "media_buy": {"buying_modes": ["brief"], "supported_pricing_models": ["cpm"]},
        }

    def _create(self, arguments: Json) -> Json:
        key, request = arguments.get("idempotency_key"), text(arguments)
        script = self.script_of("create_media_buy", arguments)
        if not key or script is None:
            raise RefusalError("INVALID_REQUEST", "no idempotency_key, or no such product", field="packages")
        with self._books.changing() as db:
            known = db.execute("select request, answer from answers where key = ?", (key,)).fetchone()
            if known is None:
                answer = self._act(db, script, key, arguments)
                db.execute("insert into answers values (?, ?, ?)", (key, request, text(answer)))
                return answer
        if known["request"] != request:
            raise RefusalError("IDEMPOTENCY_CONFLICT", "idempotency_key reused with another payload")
        return {**json.loads(known["answer"]), "replayed": True}

    def _act(self, db: sqlite3.Connection, script: Script, key: str, arguments: Json) -> Json:
        if script.first == "completed":
            bought = _buy(arguments)
            _book(db, script, bought, key)
            return {"status": "completed", "media_buy_status": "pending_start", **bought}
        if script.first in FINAL:
            return {"status": script.first, **_refusal(script.first), "context": arguments.get("context")}
        task_id, now = f"task-{script.number:05d}-{uuid.uuid4().hex[:8]}", time.time()
        push = arguments.get("push_notification_config") if self._tells else None
        due = None if script.pace_s == NEVER else now + script.pace_s
        account, context = text(arguments.get("account")), text(arguments.get("context"))
        db.execute(
            "insert into tasks values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (task_id, script.number, script.first, text({"buy": _buy(arguments), "key": key}),
             text(push) if push else None, account, context, now, now, due),
        )  # fmt: skip
        if push and script.first == "working":
            news.progress(db, script, push, task_id, at=now)
        interim = {"status": script.first, "task_id": task_id, "context": arguments.get("context")}
        reason = {"reason": "APPROVAL_REQUIRED"} if script.first == "input-required" else {}
        return {**interim, **reason, "message": "We have it."}

    def _bought(self, arguments: Json) -> Json:
        rows = self._books.rows("select * from buys order by media_buy_id")
        wanted, account = arguments.get("media_buy_ids"), arguments.get("account")
        statuses = arguments.get("status_filter")
        if isinstance(statuses, str):
            statuses = [statuses]
        if statuses is None and not wanted:
            statuses = ["active"]
        listed = [
            {**json.loads(row["body"]), "status": "pending_start", "status_as_of": stamp(time.time())}
            for row in rows
            if (not wanted or row["media_buy_id"] in wanted)
            and (account is None or row["account"] == text(account))
            and (not statuses or "pending_start" in statuses)
        ]
        return {"status": "completed", **_page(listed, "media_buys", arguments)}

    def _status(self, arguments: Json) -> Json:
        found = self._books.rows("select * from tasks where task_id = ?", arguments.get("task_id"))
        if not found:
            raise RefusalError("REFERENCE_NOT_FOUND", "no such task", field="task_id")
        row = found[0]
        answer = {**_head(row), "protocol": "media-buy", "message": "As it stands."}
        if row["status"] in FINAL and arguments.get("include_result"):
            answer["result"] = json.loads(row["result"])
        return answer

    def _tasks(self, arguments: Json) -> Json:
        filters = arguments.get("filters") or {}
        statuses, account = filters.get("statuses"), arguments.get("account")
        since = datetime.fromisoformat(filters.get("created_after") or stamp(0)).timestamp()
        listed = [
            {**_head(row), "domain": "media-buy", "context": json.loads(row["context"])}
            for row in self._books.rows("select * from tasks order by created_at, task_id")
            if (not statuses or row["status"] in statuses)
            and (account is None or row["account"] == text(account))
            and row["created_at"] >= since
        ]
        page = _page(listed, "tasks", arguments)
        summary = {"total_matching": len(listed), "returned": len(page["tasks"])}
        return {"status": "completed", "query_summary": summary, **page}


def _head(row: sqlite3.Row) -> Json:
    ended = {"completed_at": stamp(row["updated_at"])} if row["status"] in FINAL else {}
    return {
        "task_id": row["task_id"],
        "task_type": "create_media_buy",
        "status": row["status"],
        "created_at": stamp(row["created_at"]),
        "updated_at": stamp(row["updated_at"]),
        **ended,
    }


def _page(listed: list[Json], name: str, arguments: Json) -> Json:
    wanted = arguments.get("pagination") or {}
    start = int(wanted.get("cursor") or 0)
    end = start + min(int(wanted.get("max_results") or _PAGE), _PAGE)
    following = {"has_more": True, "cursor": str(end)} if end < len(listed) else {"has_more": False}
    return {name: listed[start:end], "pagination": following}


def _buy(arguments: Json) -> Json:
    media_buy_id = f"mb-{uuid.uuid4().hex[:12]}"
    flight = {name: arguments[name] for name in ("start_time", "end_time")}
    echoed = ("product_id", "pricing_option_id", "budget", "targeting_overlay", "context")
    packages = [
        {"package_id": f"{media_buy_id}-{position}", **flight, **{n: p[n] for n in echoed if n in p}}
        for position, p in enumerate(arguments["packages"], start=1)
    ]
    return {
        "media_buy_id": media_buy_id,
        "account": arguments.get("account"),
        "context": arguments.get("context"),
        "confirmed_at": stamp(time.time()),
        "revision": 1,
        "currency": "USD",
        "total_budget": sum(float(package["budget"]) for package in packages),
        "packages": packages,
    }


def _book(db: sqlite3.Connection, script: Script, bought: Json, key: str) -> None:
    deal_id = str((bought.get("context") or {}).get("deal_id"))
    db.execute(
        "insert into buys values (?, ?, ?, ?, ?, ?)",
        (bought["media_buy_id"], script.number, key, deal_id, text(bought["account"]), text(bought)),
    )


def _refusal(end: str) -> Json:
    error = {"code": "POLICY_VIOLATION", "message": "Not with us.", "recovery": "terminal"}
    return {"reason": "Not with us."} | ({"errors": [error]} if end == "failed" else {})
