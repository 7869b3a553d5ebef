"""What the faulty seller does when it is well: just enough AdCP to be bought from. Standard library only."""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
_PRODUCT: dict[str, Any] = {
    "product_id": "faulty-display",
    "name": "Faulty Display",
    "description": "Display across a network that is not always well.",
    "publisher_properties": [{"publisher_domain": "faulty.example", "selection_type": "all"}],
    "channels": ["display"],
    "format_options": [{"format_kind": "image", "params": {"width": 300, "height": 250}}],
    "delivery_type": "guaranteed",
    "pricing_options": [
        {
            "pricing_option_id": "faulty-cpm",
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

    def __init__(self, code: str, message: str, *, recovery: str = "correctable", **more: Any) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "recovery": recovery, **more}


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


class Shop:
    """What the seller does when it is well. `mode`: how create_media_buy ends: completed or submitted.

    State is kept in `path`, so that a killed and restarted process knows what was bought.
    """

    def __init__(self, path: Path, *, mode: str, channel: str) -> None:
        self._path = path
        self._mode = mode
        self._channel = channel
        self._lock = threading.Lock()
        self.state: dict[str, Any] = {"buys": [], "tasks": {}, "keys": {}, "requests": [], "faults": []}
        if path.exists():
            self.state = json.loads(path.read_text())

    @contextlib.contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """The state under its lock, written to disk afterwards."""
        with self._lock:
            yield self.state
            draft = self._path.with_suffix(".new")
            draft.write_text(json.dumps(self.state))
            draft.replace(self._path)

    def answer(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The right answer to a task.

        Raises:
            RefusalError: the task is refused with an AdCP error.
        """
        with self.changing() as state:
            return getattr(self, f"_{tool}")(state, arguments)

    def _get_adcp_capabilities(self, state: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
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

    def _get_products(self, state: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        wanted = (arguments.get("filters") or {}).get("channels") or [self._channel]
        products = [{**_PRODUCT, "channels": [self._channel]}] if self._channel in wanted else []
        return {"status": "completed", "products": products, "cache_scope": "public"}

    def _account(self, reference: dict[str, Any] | None) -> dict[str, Any]:
        brand = ((reference or {}).get("brand") or {}).get("domain", "faulty-buyer.example")
        operator = (reference or {}).get("operator", brand)
        return {
            "account_id": (reference or {}).get("account_id", f"faulty-{brand}"),
            "name": brand,
            "status": "active",
            "brand": {"domain": brand},
            "operator": operator,
            "billing": "operator",
        }

    def _list_accounts(self, state: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        return {"status": "completed", "accounts": [self._account(arguments.get("account"))]}

    def _sync_accounts(self, state: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        results = [{**self._account(entry), "action": "created"} for entry in arguments["accounts"]]
        return {"status": "completed", "accounts": results}

    def _create_media_buy(self, state: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        key = arguments.get("idempotency_key")
        if not key:
            raise RefusalError("INVALID_REQUEST", "idempotency_key is missing", field="idempotency_key")
        payload = json.dumps(arguments, sort_keys=True)
        known = state["keys"].get(key)
        if known:
            if known["payload"] != payload:
                raise RefusalError("IDEMPOTENCY_CONFLICT", "idempotency_key reused with a different payload")
            return {**known["answer"], "replayed": True}
        buy = self._buy(arguments)
        state["buys"].append({"idempotency_key": key, **buy})
        answer = self._booked(state, buy)
        state["keys"][key] = {"payload": payload, "answer": answer}
        return answer

    def _buy(self, arguments: dict[str, Any]) -> dict[str, Any]:
        media_buy_id = f"faulty-mb-{uuid.uuid4().hex[:10]}"
        echoed = ("product_id", "pricing_option_id", "budget", "start_time", "end_time", "context")
        flight = {name: arguments[name] for name in ("start_time", "end_time") if name in arguments}
        packages = [
            {"package_id": f"{media_buy_id}-p{number}", **flight, **{n: p[n] for n in echoed if n in p}}
            for number, p in enumerate(arguments.get("packages", ()), start=1)
        ]
        return {
            "media_buy_id": media_buy_id,
            "account": self._account(arguments.get("account")),
            "context": arguments.get("context"),
            "confirmed_at": _now(),
            "revision": 1,
            "currency": "USD",
            "total_budget": sum(p.get("budget", 0) for p in packages),
            "packages": packages,
        }

    def _booked(self, state: dict[str, Any], buy: dict[str, Any]) -> dict[str, Any]:
        done = {"status": "completed", "media_buy_status": "pending_creatives", **buy}
        if self._mode == "completed":
            return done
        return {"status": "submitted", "task_id": self._open_task(state, done), "context": buy["context"]}

    def _open_task(self, state: dict[str, Any], result: dict[str, Any]) -> str:
        task_id = f"faulty-task-{uuid.uuid4().hex[:10]}"
        state["tasks"][task_id] = {
            "task_id": task_id,
            "task_type": "create_media_buy",
            "created_at": _now(),
            "result": result,
        }
        return task_id

    def task_for(self, answer: dict[str, Any]) -> str:
        """The task of an answer; a finished media buy gets one now, with that answer as its result."""
        if "task_id" in answer:
            return str(answer["task_id"])
        with self.changing() as state:
            return self._open_task(state, answer)

    def _get_media_buys(self, state: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        hidden = ("idempotency_key",)
        records = [
            {"status": "pending_creatives", **{k: v for k, v in buy.items() if k not in hidden}}
            for buy in state["buys"]
            if buy["media_buy_id"] in arguments.get("media_buy_ids", [buy["media_buy_id"]])
        ]
        return {"status": "completed", "media_buys": records, "pagination": {"has_more": False}}

    def _get_media_buy_delivery(self, state: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        wanted = arguments.get("media_buy_ids", ())
        rows = [{"media_buy_id": wanted_id, "status": "completed", "is_final": False} for wanted_id in wanted]
        return {"status": "completed", "media_buy_deliveries": rows, "pagination": {"has_more": False}}

    def _get_task_status(self, state: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        """A submitted task is done the first time somebody asks."""
        task = state["tasks"].get(arguments.get("task_id"))
        if task is None:
            raise RefusalError("REFERENCE_NOT_FOUND", "no such task", field="task_id")
        answer = {**self._head(task), "protocol": "media-buy"}
        return answer | ({"result": task["result"]} if arguments.get("include_result") else {})

    def _head(self, task: dict[str, Any]) -> dict[str, Any]:
        moment = _now()
        return {
            "task_id": task["task_id"],
            "task_type": task["task_type"],
            "status": "completed",
            "created_at": task["created_at"],
            "updated_at": moment,
            "completed_at": moment,
        }

    def _list_tasks(self, state: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
        items = [{**self._head(task), "domain": "media-buy"} for task in state["tasks"].values()]
        return {
            "status": "completed",
            "query_summary": {"total_matching": len(items), "returned": len(items)},
            "tasks": items,
            "pagination": {"has_more": False},
        }

    def take_fault(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Note the call; the first fault that waits for this tool, counted down."""
        with self.changing() as state:
            state["requests"].append({"tool": tool, "arguments": arguments, "at": _now()})
            for fault in state["faults"]:
                if fault["tool"] in (tool, "*"):
                    if fault["times"]:
                        fault["times"] -= 1
                        if not fault["times"]:
                            state["faults"].remove(fault)
                    return dict(fault)
        return None
