"""Sellers that follow a script: a handshake that works, and then whatever a test wants."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from tasks_app.adcp.client import call
from tasks_app.adcp.types import Endpoint, Seen
from tests.elapsing import elapsing
from tests.support import PATIENCE_S

from .raw_server import RawServer, Request, Script, response, serve

PROTOCOLS = ["mcp", "a2a"]
TOKEN = "bearer-token-of-the-seller"
Answer = bytes | Callable[[Request], bytes]


def endpoint(server: RawServer, protocol: str, **changes: Any) -> Endpoint:
    return Endpoint(
        url=server.url if protocol == "a2a" else f"{server.url}/mcp",
        protocol=protocol,  # type: ignore[arg-type]
        token=TOKEN,
        allow_private=True,
        **{"timeout_s": PATIENCE_S, **changes},
    )


def seller(answer: Answer) -> Callable[[RawServer], Script]:
    """A seller whose handshake works, and whose answer to the task itself is `answer`."""

    def script(server: RawServer) -> Script:
        def handle(request: Request, connection: socket.socket) -> None:
            connection.sendall(handshake(server, request) or _bytes(answer, request))

        return handle

    return script


def broken(answer: bytes) -> Callable[[RawServer], Script]:
    """A seller that answers everything with the same bytes."""

    def script(server: RawServer) -> Script:
        return lambda request, connection: connection.sendall(answer)

    return script


def hanging(server: RawServer) -> Script:
    """A seller whose handshake works and who then says nothing until the test ends."""

    def handle(request: Request, connection: socket.socket) -> None:
        opening = handshake(server, request)
        if opening is not None:
            connection.sendall(opening)
        else:
            server.gave_up = not server.stopping.wait(PATIENCE_S)

    return handle


def _bytes(answer: Answer, request: Request) -> bytes:
    return answer if isinstance(answer, bytes) else answer(request)


def handshake(server: RawServer, request: Request) -> bytes | None:
    if request.method == "GET" and request.path.endswith("agent-card.json"):
        return response(json.dumps(card(server)))
    if request.rpc_method == "initialize":
        result = {
            "protocolVersion": request.json["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "Raw", "version": "1"},
        }
        return response(json.dumps({"jsonrpc": "2.0", "id": request.json["id"], "result": result}))
    if request.rpc_method == "notifications/initialized":
        return response("", status="202 Accepted")
    if request.method in ("GET", "DELETE"):
        return response("", status="405 Method Not Allowed")
    return None


def card(server: RawServer) -> dict[str, Any]:
    return {
        "name": "Raw",
        "description": "A seller in a test",
        "version": "1",
        "capabilities": {},
        "defaultInputModes": ["application/json"],
        "defaultOutputModes": ["application/json"],
        "skills": [{"id": "get_products", "name": "get_products", "description": "", "tags": []}],
        "supportedInterfaces": [
            {"url": f"{server.url}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
    }


def rpc(request: Request, **body: Any) -> bytes:
    return response(json.dumps({"jsonrpc": "2.0", "id": request.json["id"], **body}))


def ask(
    script: Callable[[RawServer], Script],
    protocol: str,
    tool: str = "create_media_buy",
    *,
    takes_too_long: bool = False,
    **changes: Any,
) -> tuple[Seen, RawServer]:
    """What a call of `tool` came to. Where the answer `takes_too_long`, the call's limit elapses once the
    seller has been asked."""

    def asked() -> int:
        return sum(name in ("tools/call", "SendMessage") for name in server.rpc_methods())

    with serve(script) as server, elapsing(asked) if takes_too_long else nullcontext():
        return asyncio.run(
            call(endpoint(server, protocol, **changes), tool, {"a": 1}, secrets=["s3cret-word"])
        ), server


def mcp_result(data: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": json.dumps(data)}], "structuredContent": data}


def a2a_result(data: dict[str, Any]) -> dict[str, Any]:
    status = {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-09-01T10:00:00Z"}
    artifact = {"artifactId": "1", "parts": [{"data": data}]}
    return {"task": {"id": "t-1", "contextId": "c-1", "status": status, "artifacts": [artifact]}}


def answering_with(data: dict[str, Any], protocol: str) -> Callable[[RawServer], Script]:
    result = mcp_result(data) if protocol == "mcp" else a2a_result(data)
    return seller(lambda request: rpc(request, result=result))
