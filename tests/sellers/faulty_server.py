"""The faulty seller's process: MCP over streamable HTTP with JSON answers, and the faults a test asks for.

Started by `tests.faulty_seller.FaultySeller`, whose module lists the faults. Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import hmac
import json
import os
import socket
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.sellers.faulty_shop import TOOLS, RefusalError, Shop

HOST = "127.0.0.1"
CONTROL_HEADER = "X-Control-Token"
#: Kinds that answer without doing what was asked.
_WITHOUT_EFFECT = frozenset({"refuse", "unauthorized", "in_flight", "error", "crash"})


class _Connection(BaseHTTPRequestHandler):
    """One request: /mcp for the buyer, /control for the test."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        if not self._may_control():
            return
        shop = self.server.shop
        answers = {"/control/books": shop.state["buys"], "/control/requests": shop.state["requests"]}
        if self.path in answers:
            self._send(200, answers[self.path])
        else:
            self._send(404, {"error": "no such page"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/control/"):
            if self._may_control():
                self._control(json.loads(body or b"{}"))
        elif self.path != "/mcp":
            self._send(404, {"error": "no such page"})
        elif not hmac.compare_digest(self.headers.get("Authorization") or "", f"Bearer {self.server.token}"):
            self._send(401, {"error": "unauthenticated"})
        else:
            self._mcp(json.loads(body))

    def do_DELETE(self) -> None:
        self._send(200, {})

    def _may_control(self) -> bool:
        if hmac.compare_digest(self.headers.get(CONTROL_HEADER) or "", self.server.control):
            return True
        self._send(404, {"error": "no such page"})
        return False

    def _control(self, order: dict[str, Any]) -> None:
        with self.server.shop.changing() as state:
            if self.path == "/control/faults":
                state["faults"].append(order)
            elif self.path == "/control/clear":
                state["faults"].clear()
            elif self.path == "/control/release":
                self.server.released.set()
        self._send(200, {"ok": True})

    def _mcp(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        if "id" not in message:
            self._send_bytes(202, b"", "application/json")
        elif method == "initialize":
            self._result(message, _initialized(message))
        elif method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
            self._result(message, {"tools": tools})
        elif method == "tools/call":
            self._call(message)
        elif method == "ping":
            self._result(message, {})
        else:
            error = {"code": -32601, "message": f"unknown method {method}"}
            self._send(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})

    def _call(self, message: dict[str, Any]) -> None:
        tool, arguments = message["params"]["name"], message["params"].get("arguments") or {}
        fault = self.server.shop.take_fault(tool, arguments)
        kind = fault["kind"] if fault else None
        if kind == "hang" and fault and fault.get("before"):
            self._hang(fault)
        skipped = fault is not None and (kind in _WITHOUT_EFFECT or fault.get("before"))
        result = {} if skipped else self._carry_out(tool, arguments)
        if fault is None:
            self._result(message, result)
        else:
            self._misbehave(message, fault, result)

    def _carry_out(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if tool not in TOOLS:
            return _text_only(f"Unknown tool: {tool}")
        try:
            answer = self.server.shop.answer(tool, arguments)
        except RefusalError as refusal:
            return _adcp_error(refusal.error)
        if "context" in arguments:
            answer = {**answer, "context": arguments["context"]}
        return _structured(answer)

    def _misbehave(self, message: dict[str, Any], fault: dict[str, Any], result: dict[str, Any]) -> None:
        kind = fault["kind"]
        if kind in ("drop", "refuse"):
            self._hang_up()
        elif kind == "http":
            self._send_bytes(fault.get("status", 500), b"something broke", "text/plain")
        elif kind == "html":
            self._send_bytes(200, b"<!doctype html><title>Maintenance</title>", "text/html")
        elif kind == "unauthorized":
            self._send(401, {"error": "unauthenticated"})
        elif kind == "truncated":
            whole = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
            self._send_bytes(200, whole[: len(whole) // 2], "application/json")
        else:
            if kind == "hang" and not fault.get("before"):
                self._hang(fault)
            self._result(message, self._distorted(fault, result))

    def _distorted(self, fault: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        if fault["kind"] != "status" or "structuredContent" not in result:
            return _distorted(fault, result)
        answer = result["structuredContent"]
        strange = {"status": fault.get("status", "requires_approval")}
        if "media_buy_id" not in answer:
            return _structured(answer | strange)
        return _structured(
            strange | {"task_id": self.server.shop.task_for(answer), "context": answer["context"]}
        )

    def _hang(self, fault: dict[str, Any]) -> None:
        self.server.released.wait(fault.get("seconds", 120))

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _result(self, message: dict[str, Any], result: dict[str, Any]) -> None:
        self._send(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})

    def _send(self, status: int, content: Any) -> None:
        self._send_bytes(status, json.dumps(content).encode(), "application/json")

    def _send_bytes(self, status: int, body: bytes, kind: str) -> None:
        # A buyer that stopped waiting has closed the connection: nothing to tell it any more.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)


def _initialized(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "protocolVersion": message["params"].get("protocolVersion", "2025-06-18"),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "faulty", "version": "1"},
    }


def _structured(answer: dict[str, Any], *, is_error: bool = False) -> dict[str, Any]:
    return {
        "content": [{"type": "text", "text": json.dumps(answer)}],
        "structuredContent": answer,
        "isError": is_error,
    }


def _adcp_error(error: dict[str, Any]) -> dict[str, Any]:
    return _structured({"adcp_error": error, "errors": [error]}, is_error=True)


def _text_only(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _distorted(fault: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    kind = fault["kind"]
    if kind == "crash":
        return _text_only("Internal error: 'NoneType' object is not subscriptable")
    if kind == "in_flight":
        waiting = fault.get("retry_after", 1)
        return _adcp_error(
            {
                "code": "IDEMPOTENCY_IN_FLIGHT",
                "message": "the first request with this key still runs",
                "recovery": "transient",
                "retry_after": waiting,
            }
        )
    if kind == "error":
        error = {"code": fault["code"], "message": fault.get("message", "refused by the script")}
        return _adcp_error({**error, "recovery": fault.get("recovery", "terminal")})
    if "structuredContent" not in result:
        return result
    return _structured(result["structuredContent"] | _changes(fault), is_error=result["isError"])


def _changes(fault: dict[str, Any]) -> dict[str, Any]:
    """What the fault puts over the right answer."""
    match fault["kind"]:
        case "new_task_id":
            return {"task_id": f"faulty-task-{uuid.uuid4().hex[:10]}"}
        case "huge":
            return {"ext": {"faulty": {"padding": "x" * fault.get("bytes", 11 * 1024 * 1024)}}}
        case "merge":
            return dict(fault["answer"])
        case _:
            return {}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, shop: Shop, *, token: str, control: str) -> None:
        super().__init__((HOST, port), _Connection)
        self.shop = shop
        self.token = token
        self.control = control
        self.released = threading.Event()


def main() -> None:
    parser = argparse.ArgumentParser(description="A seller that misbehaves on request.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--state", type=Path, required=True, help="file for what was bought")
    parser.add_argument("--mode", choices=("completed", "submitted"), default="completed")
    parser.add_argument("--channel", default="display")
    parser.add_argument(
        "--script", type=Path, help="JSON list of faults to begin with: [{tool, kind, times, …}]"
    )
    given = parser.parse_args()
    shop = Shop(given.state, mode=given.mode, channel=given.channel)
    if given.script:
        with shop.changing() as state:
            state["faults"] += [{"times": 1, **fault} for fault in json.loads(given.script.read_text())]
    token, control = os.environ["FAULTY_TOKEN"], os.environ["FAULTY_CONTROL"]
    server = _Server(given.port, shop, token=token, control=control)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
