"""The seller's process: MCP or A2A over HTTP, each call disturbed as its purchase's script says."""

from __future__ import annotations

import argparse
import hmac
import json
import os
import signal
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.chaos.plan import LATE_S, SELLERS, UNDONE, Script, plan
from bench.chaos.seller import wire
from bench.chaos.seller.books import Books, Json
from bench.chaos.seller.post import Post
from bench.chaos.seller.shop import TOOLS, RefusalError, Shop
from bench.chaos.seller.signing import Signer

HOST = "127.0.0.1"
TOKEN_VARIABLE = "CHAOS_SELLER_TOKEN"  # noqa: S105 - the variable's name
_DELAYED_S = 1.2
_TICK_S = 0.05
_COUNTED = {"create_media_buy": "call", "get_task_status": "poll", "get_media_buys": "read"}


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Seller

    def log_message(self, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        if self.path == "/jwks.json":
            self._send(200, self.server.signer.jwks())
        elif self.path == "/.well-known/agent-card.json" and self.server.transport == "a2a":
            self._send(200, wire.card(self.server.name, self.server.address))
        else:
            self._send(405, {"error": "nothing to read here"})

    def do_DELETE(self) -> None:
        self._send(200, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        wanted = f"Bearer {self.server.token}"
        if not hmac.compare_digest(self.headers.get("Authorization") or "", wanted):
            self._send(401, {"error": "unauthenticated"})
            return
        message = json.loads(body)
        opening = wire.opening(message, TOOLS)
        if opening is not None:
            self._send(202 if "id" not in message else 200, opening)
            return
        self._call(message, *wire.call_in(message))

    def _call(self, message: Json, tool: str, arguments: Json) -> None:
        script = self.server.shop.script_of(tool, arguments)
        trouble = self.server.trouble(tool, script)
        number = script.number if script else 0
        if trouble in UNDONE:
            answer = {"adcp_error": wire.BUSY} if trouble == "busy" else {}
        else:
            answer = self.server.carry_out(tool, arguments)
        self.server.books.note(number, f"{tool} {trouble}: {answer.get('status') or 'error'}")
        if "context" in arguments and "adcp_error" not in answer:
            answer = {**answer, "context": arguments["context"]}
        self._reply(message, wire.distorted(trouble, answer), trouble)

    def _reply(self, message: Json, answer: Json, trouble: str) -> None:
        whole = wire.reply(message, answer, self.server.transport)
        if trouble in ("drop", "drop_before"):
            self._hang_up()
        elif trouble == "truncated":
            raw = json.dumps(whole).encode()
            self._send_bytes(200, raw[: len(raw) // 2], "application/json")
        elif trouble == "html":
            self._send_bytes(200, b"<!doctype html><title>Maintenance</title>", "text/html")
        elif trouble in ("http_500", "http_503_before"):
            self._send_bytes(int(trouble[5:8]), b"something broke", "text/plain", {"Retry-After": "1"})
        else:
            time.sleep({"late": LATE_S, "delayed": _DELAYED_S}.get(trouble, 0))
            self._send(200, whole)

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _send(self, status: int, content: object) -> None:
        self._send_bytes(status, json.dumps(content).encode(), "application/json")

    def _send_bytes(self, status: int, body: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        # A buyer that stopped waiting has closed the connection: nothing to tell it any more.
        with suppress(OSError):
            self.send_response(status)
            headers = {"Content-Type": kind, "Content-Length": str(len(body)), **(more or {})}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)


class Seller(ThreadingHTTPServer):
    """One seller: its books, its shop, its post."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, name: str, port: int, folder: Path, scripts: list[Script], *, token: str) -> None:
        self.name, self.token = name, token
        self.transport, signed = SELLERS[name]
        self.books = Books(folder / "books.db")
        self.signer = Signer(name)
        mine = {script.product_id: script for script in scripts if script.seller == name}
        self.shop = Shop(self.books, mine, tells=signed != "none")
        self.post = Post(self.books, self.signer)
        super().__init__((HOST, port), _Connection)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}"

    def trouble(self, tool: str, script: Script | None) -> str:
        """What befalls this call; "" for nothing."""
        if script is None or tool not in _COUNTED:
            return ""
        before = self.books.count(script.number, _COUNTED[tool])
        if tool == "create_media_buy" and script.always:
            return script.always
        planned = {"call": script.call, "poll": script.poll, "read": script.read}[_COUNTED[tool]]
        return planned[before] if before < len(planned) else ""

    def carry_out(self, tool: str, arguments: Json) -> Json:
        try:
            return self.shop.answer(tool, arguments)
        except RefusalError as refusal:
            return {"adcp_error": refusal.error}

    def work(self, stopping: threading.Event) -> None:
        """End tasks and send the post, until asked to stop."""
        while not stopping.wait(_TICK_S):
            self.shop.finish_due()
            self.post.deliver_due()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.chaos.seller", description="One seller.")
    parser.add_argument("--name", choices=tuple(SELLERS), required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--operations", type=int, required=True)
    given = parser.parse_args()
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    scripts = plan(seed=given.seed, operations=given.operations)
    seller = Seller(given.name, given.port, given.folder, scripts, token=os.environ[TOKEN_VARIABLE])
    threading.Thread(target=seller.serve_forever, daemon=True).start()
    seller.work(stopping)


if __name__ == "__main__":
    main()
