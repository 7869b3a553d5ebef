"""What the fake seller answers without a fault: AdCP's tasks, idempotent, paged, with one display product."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from datetime import datetime
from typing import Any

from tests.fake_seller.books import DEFAULT_SCRIPT, Books, Json, dump, timestamp
from tests.fake_seller.webhooks import add_announcement, add_progress

TOOLS = (
    "get_adcp_capabilities",
    "get_products",
    "list_accounts",
    "sync_accounts",
    "create_media_buy",
    "get_media_buys",
    "get_media_buy_delivery",
    "get_task_status",
    "list_tasks",
)
FINAL = ("completed", "rejected", "failed")
_NEW_BUY = "pending_creatives"
_PAGE = 50
_PRODUCT: Json = {
    "product_id": "fake-display",
    "name": "Fake Display",
    "description": "Display across a network with faults.",
    "publisher_properties": [{"publisher_domain": "fake.example", "selection_type": "all"}],
    "format_options": [{"format_kind": "image", "params": {"width": 300, "height": 250}}],
    "delivery_type": "guaranteed",
    "pricing_options": [
        {
            "pricing_option_id": "fake-cpm",
            "pricing_model": "cpm",
            "currency": "USD",
            "fixed_price": 10.0,
            "min_spend_per_package": 100,
        }
    ],
    "reporting_capabilities": {
        "available_reporting_frequencies": ["daily"],
        "expected_delay_minutes": 240,
        "timezone": "UTC",
        "supports_webhooks": False,
        "available_metrics": ["impressions", "spend"],
        "date_range_support": "date_range",
    },
}


class RefusalError(Exception):
    """An AdCP error to answer with."""

    def __init__(self, code: str, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "recovery": "correctable"}
        if field:
            self.error["field"] = field


class Shop:
    """`mode`: the status that answers a purchase without a script, "completed" or "submitted"."""

    def __init__(self, books: Books, *, mode: str, channel: str) -> None:
        self._books = books
        self._mode = mode
        self._channel = channel

    def answer(self, tool: str, arguments: Json, **options: Any) -> Json:
        """Return the answer to a call. Raise RefusalError for an AdCP error.

        Args:
            tool: One of `TOOLS`.
            arguments: The arguments of the call.
            options: `first` for create_media_buy: the status to answer with instead of the script's.
        """
        answer: Json = getattr(self, f"_{tool}")(arguments, **options)
        return {**answer, "context": arguments["context"]} if "context" in arguments else answer

    def find_product(self, tool: str, arguments: Json) -> str:
        """Return the id of the product that a call is about, or an empty string."""
        if tool == "create_media_buy":
            return str((arguments.get("packages") or [{}])[0].get("product_id", ""))
        found: list[sqlite3.Row] = []
        if tool == "get_task_status":
            query = "select product_id from tasks where task_id = ?"
            found = self._books.rows(query, str(arguments.get("task_id")))
        elif tool == "get_media_buys" and len(wanted := arguments.get("media_buy_ids") or ()) == 1:
            found = self._books.rows("select product_id from buys where media_buy_id = ?", wanted[0])
        return str(found[0]["product_id"]) if found else ""

    def finish_due_tasks(self) -> None:
        """End each task that is due: its purchase, its status and its webhooks in one transaction."""
        due = "select * from tasks where due_at <= ?"
        if self._books.rows(due, time.time()):
            with self._books.transaction() as db:
                for row in db.execute(due, (time.time(),)).fetchall():
                    self._finish(db, row)

    def _finish(self, db: sqlite3.Connection, row: sqlite3.Row) -> None:
        script, now = self._script(db, row["product_id"]), time.time()
        result = json.loads(row["body"])
        if script["end"] == "completed":
            _book(db, row["product_id"], row["key"], result)
        else:
            result = _refusal(script["end"])
        db.execute(
            "update tasks set status = ?, body = ?, updated_at = ?, due_at = null where task_id = ?",
            (script["end"], dump(result), now, row["task_id"]),
        )
        add_announcement(db, script, json.loads(row["push"]), row["task_id"], result)

    def _script(self, db: sqlite3.Connection, product_id: str) -> Json:
        found = db.execute("select script from scripts where product_id = ?", (product_id,)).fetchone()
        return DEFAULT_SCRIPT | (json.loads(found["script"]) if found else {"first": self._mode})

    def _get_adcp_capabilities(self, arguments: Json) -> Json:
        return {
            "status": "completed",
            "adcp": {
                "major_versions": [3],
                "supported_versions": ["3.2"],
                "idempotency": {"supported": True, "replay_ttl_seconds": 86400},
            },
            "supported_protocols": ["media_buy"],
            "account": {"require_operator_auth": False, "supported_billing": ["operator"]},
            "media_buy": {"buying_modes": ["brief", "wholesale"], "supported_pricing_models": ["cpm"]},
        }

    def _get_products(self, arguments: Json) -> Json:
        wanted = (arguments.get("filters") or {}).get("channels") or [self._channel]
        products = [{**_PRODUCT, "channels": [self._channel]}] if self._channel in wanted else []
        return {"status": "completed", "products": products, "cache_scope": "public"}

    def _list_accounts(self, arguments: Json) -> Json:
        return {"status": "completed", "accounts": [_account(arguments.get("account"))]}

    def _sync_accounts(self, arguments: Json) -> Json:
        results = [{**_account(entry), "action": "created"} for entry in arguments["accounts"]]
        return {"status": "completed", "accounts": results}

    def _create_media_buy(self, arguments: Json, first: str = "") -> Json:
        key, request = arguments.get("idempotency_key"), dump(arguments)
        if not key:
            raise RefusalError("INVALID_REQUEST", "idempotency_key is missing", field="idempotency_key")
        with self._books.transaction() as db:
            known = db.execute("select request, answer from answers where key = ?", (key,)).fetchone()
            if known is None:
                answer = self._sell(db, arguments, first)
                db.execute("insert into answers values (?, ?, ?)", (key, request, dump(answer)))
                return answer
        if known["request"] != request:
            raise RefusalError("IDEMPOTENCY_CONFLICT", "idempotency_key reused with a different payload")
        return {**json.loads(known["answer"]), "replayed": True}

    def _sell(self, db: sqlite3.Connection, arguments: Json, first: str) -> Json:
        product_id, key = self.find_product("create_media_buy", arguments), arguments["idempotency_key"]
        script = self._script(db, product_id)
        status, bought = first or script["first"], _media_buy(arguments)
        if status == "completed":
            _book(db, product_id, key, bought)
            return bought
        if status in FINAL:
            return {"status": status, **_refusal(status)}
        task_id, now = f"fake-task-{uuid.uuid4().hex[:10]}", time.time()
        due = None if script["pace_s"] is None else now + script["pace_s"]
        push = arguments.get("push_notification_config")
        db.execute(
            "insert into tasks values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (task_id, product_id, key, status, dump(bought), dump(push), now, now, due),
        )
        if status == "working":
            add_progress(db, script, push, task_id)
        if due == now:
            self._finish(db, db.execute("select * from tasks where task_id = ?", (task_id,)).fetchone())
        reason = {"reason": "APPROVAL_REQUIRED"} if status == "input-required" else {}
        return {"status": status, "task_id": task_id, **reason}

    def _get_media_buys(self, arguments: Json) -> Json:
        wanted, statuses = arguments.get("media_buy_ids"), arguments.get("status_filter")
        statuses = [statuses] if isinstance(statuses, str) else statuses
        if statuses is None and wanted is None:
            statuses = ["active"]
        listed = [
            {**json.loads(row["body"]), "status": _NEW_BUY, "status_as_of": timestamp()}
            for row in self._books.rows("select * from buys order by rowid")
            if (wanted is None or row["media_buy_id"] in wanted)
            and (statuses is None or _NEW_BUY in statuses)
        ]
        return _page("media_buys", listed, arguments)

    def _get_media_buy_delivery(self, arguments: Json) -> Json:
        rows = [
            {"media_buy_id": media_buy_id, "status": "completed", "is_final": False}
            for media_buy_id in arguments.get("media_buy_ids", ())
        ]
        return _page("media_buy_deliveries", rows, arguments)

    def _get_task_status(self, arguments: Json) -> Json:
        self.finish_due_tasks()
        found = self._books.rows("select * from tasks where task_id = ?", str(arguments.get("task_id")))
        if not found:
            raise RefusalError("REFERENCE_NOT_FOUND", "no such task", field="task_id")
        answer = {**_task_head(found[0]), "protocol": "media-buy"}
        if found[0]["status"] in FINAL and arguments.get("include_result"):
            answer["result"] = json.loads(found[0]["body"])
        return answer

    def _list_tasks(self, arguments: Json) -> Json:
        filters = arguments.get("filters") or {}
        since = filters.get("created_after") or timestamp(0)
        listed = [
            {**_task_head(row), "domain": "media-buy", "context": json.loads(row["body"]).get("context")}
            for row in self._books.rows("select * from tasks order by rowid")
            if row["status"] in filters.get("statuses", [row["status"]])
            and row["created_at"] >= datetime.fromisoformat(since).timestamp()
        ]
        answer = _page("tasks", listed, arguments)
        summary = {"total_matching": len(listed), "returned": len(answer["tasks"])}
        return {**answer, "query_summary": summary}


def _account(reference: Any) -> Json:
    brand = ((reference or {}).get("brand") or {}).get("domain", "fake-buyer.example")
    return {
        "account_id": (reference or {}).get("account_id", f"fake-{brand}"),
        "name": brand,
        "status": "active",
        "brand": {"domain": brand},
        "operator": (reference or {}).get("operator", brand),
        "billing": "operator",
    }


def _media_buy(arguments: Json) -> Json:
    media_buy_id = f"fake-mb-{uuid.uuid4().hex[:10]}"
    flight = {name: arguments[name] for name in ("start_time", "end_time") if name in arguments}
    echoed = ("product_id", "pricing_option_id", "budget", "start_time", "end_time", "targeting_overlay")
    packages = [
        {
            "package_id": f"{media_buy_id}-p{number}",
            **flight,
            **{name: package[name] for name in (*echoed, "context") if name in package},
        }
        for number, package in enumerate(arguments.get("packages", ()), start=1)
    ]
    return {
        "status": "completed",
        "media_buy_status": _NEW_BUY,
        "media_buy_id": media_buy_id,
        "account": _account(arguments.get("account")),
        "context": arguments.get("context"),
        "confirmed_at": timestamp(),
        "revision": 1,
        "currency": "USD",
        "total_budget": sum(package.get("budget", 0) for package in packages),
        "packages": packages,
    }


def _book(db: sqlite3.Connection, product_id: str, key: str, bought: Json) -> None:
    body = {name: value for name, value in bought.items() if name not in ("status", "media_buy_status")}
    db.execute("insert into buys values (?, ?, ?, ?)", (body["media_buy_id"], product_id, key, dump(body)))


def _refusal(status: str) -> Json:
    error = {"code": "POLICY_VIOLATION", "message": "Against our policy.", "recovery": "terminal"}
    return {"reason": error["message"]} | ({"errors": [error]} if status == "failed" else {})


def _task_head(row: sqlite3.Row) -> Json:
    ended = {"completed_at": timestamp(row["updated_at"])} if row["status"] in FINAL else {}
    return {
        "status": row["status"],
        "task_id": row["task_id"],
        "task_type": "create_media_buy",
        "created_at": timestamp(row["created_at"]),
        "updated_at": timestamp(row["updated_at"]),
        **ended,
    }


def _page(name: str, listed: list[Json], arguments: Json) -> Json:
    wanted = arguments.get("pagination") or {}
    cursor = str(wanted.get("cursor"))
    start = int(cursor) if cursor.isdecimal() else 0
    end = start + min(int(wanted.get("max_results") or _PAGE), _PAGE)
    following = {"has_more": True, "cursor": str(end)} if end < len(listed) else {"has_more": False}
    return {"status": "completed", name: listed[start:end], "pagination": following}
