"""The two transports: MCP over streamable HTTP with JSON answers and no session, A2A 1.0 over JSON-RPC."""

from __future__ import annotations

import json
import uuid
from typing import Any

from tests.fake_seller.books import Json, timestamp
from tests.fake_seller.shop import TOOLS

MCP_PATH, A2A_PATH = "/mcp", "/a2a"
PATHS = {"mcp": MCP_PATH, "a2a": A2A_PATH}
CARD_PATH, KEYS_PATH = "/.well-known/agent-card.json", "/jwks.json"
_PROFILE = "https://adcontextprotocol.org/extensions/adcp/v3"


def parse_call(message: Json) -> tuple[str, Json] | None:
    """Return tool and arguments; None if the message calls no tool."""
    params = message.get("params") or {}
    if message.get("method") == "tools/call":
        return params["name"], params.get("arguments") or {}
    if message.get("method") == "SendMessage":
        data = params["message"]["parts"][0]["data"]
        return data["skill"], data["input"]
    return None


def answer_handshake(message: Json) -> Json:
    """Return the answer to a message that calls no tool."""
    match message["method"]:
        case "initialize":
            version = message["params"].get("protocolVersion", "2025-06-18")
            server = {"name": "fake seller", "version": "1"}
            result: Json = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
        case "tools/list":
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
        case "ping":
            result = {}
        case unknown:
            error = {"code": -32601, "message": f"unknown method {unknown}"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def answer_call(path: str, message: Json, answer: Json | str, *, failed: bool) -> Json:
    """Return the JSON-RPC answer around an AdCP answer, or around a text without one."""
    result = (_mcp if path == MCP_PATH else _a2a)(answer, failed=failed)
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def agent_card(address: str) -> Json:
    """Return the A2A agent card."""
    interface = {"url": f"{address}{A2A_PATH}", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {
        "name": "Fake seller",
        "description": "A seller for tests",
        "version": "1",
        "capabilities": {"extensions": [{"uri": _PROFILE, "required": False}]},
        "defaultInputModes": ["application/json"],
        "defaultOutputModes": ["application/json"],
        "skills": [{"id": name, "name": name, "description": name, "tags": []} for name in TOOLS],
        "supportedInterfaces": [interface],
    }


def _mcp(answer: Json | str, *, failed: bool) -> Json:
    if isinstance(answer, str):
        return {"content": [{"type": "text", "text": answer}], "isError": failed}
    text = {"type": "text", "text": json.dumps(answer)}
    return {"content": [text], "structuredContent": answer, "isError": failed}


def _a2a(answer: Json | str, *, failed: bool) -> Json:
    part = {"text": answer} if isinstance(answer, str) else {"data": _as_protobuf(answer)}
    state = "TASK_STATE_FAILED" if failed else "TASK_STATE_COMPLETED"
    task = {
        "id": f"a2a-{uuid.uuid4().hex[:10]}",
        "contextId": f"context-{uuid.uuid4().hex[:10]}",
        "status": {"state": state, "timestamp": timestamp()},
        "artifacts": [{"artifactId": "1", "parts": [part]}],
    }
    return {"task": task}


def _as_protobuf(value: Any) -> Any:
    """Return the value with whole numbers as floats: protobuf carries 1 as 1.0."""
    if isinstance(value, dict):
        return {name: _as_protobuf(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_as_protobuf(inner) for inner in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
