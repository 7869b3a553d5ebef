"""The two transports as bytes need them: MCP over streamable HTTP with JSON answers, A2A 1.0 as JSON-RPC."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from bench.chaos.seller.books import Json

BUSY = {"code": "SERVICE_UNAVAILABLE", "message": "Come again.", "recovery": "transient", "retry_after": 1}
IN_FLIGHT = {
    "code": "IDEMPOTENCY_IN_FLIGHT",
    "message": "We are at it.",
    "recovery": "transient",
    "retry_after": 1,
}
_PROFILE = "https://adcontextprotocol.org/extensions/adcp/v3"
_LONG_AGO_S = 3600


def opening(message: Json, tools: Sequence[str]) -> Json | None:
    """The answer to what comes before a call in MCP; None for the call itself."""
    method = message.get("method")
    if "id" not in message:
        return {}
    if method == "initialize":
        version = message["params"].get("protocolVersion", "2025-06-18")
        result: Json = {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "chaos", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}
    elif method == "ping":
        result = {}
    else:
        return None
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def call_in(message: Json) -> tuple[str, Json]:
    """Tool and arguments of a call, in either transport."""
    params = message["params"]
    if message["method"] == "tools/call":
        return params["name"], params.get("arguments") or {}
    data = params["message"]["parts"][0]["data"]
    return data["skill"], data["input"]


def reply(message: Json, answer: Json, transport: str) -> Json:
    """The JSON-RPC answer with an AdCP answer inside."""
    shaped = _mcp(answer) if transport == "mcp" else _a2a(answer)
    return {"jsonrpc": "2.0", "id": message["id"], "result": shaped}


def distorted(trouble: str, answer: Json) -> Json:
    """An answer that says something else than it should: only for questions about a task."""
    if trouble == "rename":
        return {**answer, "task_id": f"task-other-{uuid.uuid4().hex[:8]}"}
    if trouble == "missing":
        error = {"code": "REFERENCE_NOT_FOUND", "message": "no such task", "recovery": "correctable"}
        return {"adcp_error": error}
    bare = {name: value for name, value in answer.items() if name not in ("result", "completed_at")}
    if trouble == "working":
        return {**bare, "status": "working", "updated_at": answer.get("created_at")}
    if trouble == "odd":
        return {**bare, "status": "pending_manual"}
    if trouble == "stale":
        return {**bare, "status": "working", "updated_at": _time(time.time() - _LONG_AGO_S)}
    return answer


def card(name: str, address: str) -> Json:
    """The A2A agent card."""
    skills = ("get_adcp_capabilities", "create_media_buy", "get_media_buys", "get_task_status", "list_tasks")
    return {
        "name": name,
        "description": "A seller of the chaos run",
        "version": "1",
        "capabilities": {"extensions": [{"uri": _PROFILE, "required": False}]},
        "defaultInputModes": ["application/json"],
        "defaultOutputModes": ["application/json"],
        "skills": [{"id": skill, "name": skill, "description": skill, "tags": []} for skill in skills],
        "supportedInterfaces": [
            {"url": f"{address}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
    }


def _mcp(answer: Json) -> Json:
    failed = "adcp_error" in answer
    data = {**answer, "errors": [answer["adcp_error"]]} if failed else answer
    return {
        "content": [{"type": "text", "text": json.dumps(data)}],
        "structuredContent": data,
        "isError": failed,
    }


def _a2a(answer: Json) -> Json:
    state = "TASK_STATE_FAILED" if "adcp_error" in answer else "TASK_STATE_COMPLETED"
    artifact: dict[str, Any] = {"artifactId": "1", "parts": [{"data": _floats(answer)}]}
    return {
        "task": {
            "id": f"a2a-{uuid.uuid4().hex[:12]}",
            "contextId": f"context-{uuid.uuid4().hex[:12]}",
            "status": {"state": state, "timestamp": _time(time.time())},
            "artifacts": [artifact],
        }
    }


def _floats(value: Any) -> Any:
    """Whole numbers as protobuf carries them: 1 becomes 1.0."""
    if isinstance(value, dict):
        return {name: _floats(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_floats(inner) for inner in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
