"""The process of the fake seller: MCP and A2A over HTTP, with the faults that its books hold.

Standard library only, except to sign webhooks by RFC 9421: the driver starts it with `-S`.
"""

from __future__ import annotations

import argparse
import contextlib
import hmac
import json
import os
import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.fake_seller import wire
from tests.fake_seller.books import Books, Json
from tests.fake_seller.faults import distort, error_of, is_carried_out
from tests.fake_seller.shop import TOOLS, RefusalError, Shop
from tests.fake_seller.webhooks import public_keys, send_due_webhooks

HOST = "127.0.0.1"
_TICK_S = 0.1
_CRASH = "Internal error: 'NoneType' object is not subscriptable"


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        if self.path == wire.KEYS_PATH:
            self._send(200, public_keys())
        elif self.path == wire.CARD_PATH and self.server.path == wire.A2A_PATH:
            self._send(200, wire.agent_card(f"http://{HOST}:{self.server.server_address[1]}"))
        else:
            self._send(404, {"error": "no such page"})

    def do_DELETE(self) -> None:
        self._send(200, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path != self.server.path:
            self._send(404, {"error": "no such page"})
        elif not hmac.compare_digest(self.headers.get("Authorization") or "", f"Bearer {self.server.token}"):
            self._send(401, {"error": "unauthenticated"})
        elif "id" not in (message := json.loads(body)):
            self._send_bytes(202, b"", "application/json")
        elif call := wire.parse_call(message):
            self._call(message, *call)
        else:
            self._send(200, wire.answer_handshake(message))

    def _call(self, message: Json, tool: str, arguments: Json) -> None:
        books, shop = self.server.books, self.server.shop
        books.add_request(tool, arguments)
        fault = books.take_fault(tool, shop.find_product(tool, arguments))
        if fault.get("before"):
            self._hang(fault)
        answer: Json | str = {}
        if is_carried_out(fault):
            answer = self._carry_out(tool, arguments, fault)
        elif fault["kind"] == "crash":
            answer = _CRASH
        elif error := error_of(fault):
            answer = _refuse(error)
        if not fault.get("before"):
            self._hang(fault)
        failed = isinstance(answer, str) or "adcp_error" in answer
        if not isinstance(answer, str):
            answer = distort(answer, fault)
        self._reply(wire.answer_call(self.path, message, answer, failed=failed), fault)

    def _carry_out(self, tool: str, arguments: Json, fault: Json) -> Json | str:
        if tool not in TOOLS:
            return f"Unknown tool: {tool}"
        is_status = tool == "create_media_buy" and fault.get("kind") == "status"
        options = {"first": fault.get("status", "requires_approval")} if is_status else {}
        try:
            return self.server.shop.answer(tool, arguments, **options)
        except RefusalError as refusal:
            return _refuse(refusal.error)

    def _hang(self, fault: Json) -> None:
        if fault.get("kind") == "hang":
            self.server.released.wait(fault.get("seconds", 120))

    def _reply(self, content: Json, fault: Json) -> None:
        match fault.get("kind"):
            case "drop" | "refuse":
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
            case "http":
                self._send_bytes(fault.get("status", 500), b"something broke", "text/plain")
            case "html":
                self._send_bytes(200, b"<!doctype html><title>Maintenance</title>", "text/html")
            case "unauthorized":
                self._send(401, {"error": "unauthenticated"})
            case "truncated":
                whole = json.dumps(content).encode()
                self._send_bytes(200, whole[: len(whole) // 2], "application/json")
            case _:
                self._send(200, content)

    def _send(self, status: int, content: Any) -> None:
        self._send_bytes(status, json.dumps(content).encode(), "application/json")

    def _send_bytes(self, status: int, body: bytes, kind: str) -> None:
        with contextlib.suppress(OSError):  # a buyer that stopped waiting has closed the connection
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)


def _refuse(error: Json) -> Json:
    return {"adcp_error": error, "errors": [error]}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__((HOST, options.port), _Connection)
        self.path = wire.PATHS[options.protocol]
        self.token = os.environ["FAKE_SELLER_TOKEN"]
        self.books = Books(options.books)
        self.shop = Shop(self.books, mode=options.mode, channel=options.channel)
        self.released = threading.Event()


def main() -> None:
    parser = argparse.ArgumentParser(description="A fake seller for tests.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--books", type=Path, required=True)
    parser.add_argument("--mode", choices=("completed", "submitted"), default="completed")
    parser.add_argument("--channel", default="display")
    parser.add_argument("--protocol", choices=[*wire.PATHS], default="mcp")
    server = _Server(parser.parse_args())
    stopping = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: server.released.set())
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    while not stopping.wait(_TICK_S):
        server.shop.finish_due_tasks()
        send_due_webhooks(server.books)


if __name__ == "__main__":
    main()
