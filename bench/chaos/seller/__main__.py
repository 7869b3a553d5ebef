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
from contextlib import nullcontext, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.chaos.plan import LATE_S, SELLERS, UNDONE, Script, plan
from bench.chaos.seller import wire
from bench.chaos.seller.books import Books, Json
from bench.chaos.seller.post import Post
from bench.chaos.seller.shop import CAPABILITIES, TOOLS, RefusalError, Shop
from bench.chaos.seller.signing import Signer
from bench.chaos.seller.traffic import Traffic, has_hung_up

HOST = "127.0.0.1"
TOKEN_VARIABLE = "CHAOS_SELLER_TOKEN"  # noqa: S105 - the variable's name
_PAUSES_S = {"late": LATE_S, "working": 2.5, "delayed": 1.2}  # between what is done and its answer
_TICK_S = 0.05
_IMPATIENT_S = 0.5
_REFUSALS = {"busy": wire.BUSY, "in_flight": wire.IN_FLIGHT}
_KEYS_HANG = 3  # so many times whoever asks for the keys waits longer than it will
_COUNTED = {"create_media_buy": "call", "get_task_status": "poll", "get_media_buys": "read"}


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Seller

    def log_message(self, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        if self.path == "/jwks.json":
            if self.server.books.count(0, "keys") < _KEYS_HANG:
                self._hang()
            self._send(200, self.server.signer.jwks())
        elif self.path == "/.well-known/agent-card.json" and self.server.transport == "a2a":
            self._send(200, wire.card(self.server.name, self.server.address))
        else:
            self._send(405, {"error": "nothing to read here"})

    def _hang(self) -> None:
        """Answer nothing, as long as anybody waits, and send what is not taken yet once more meanwhile."""
        began = time.time()
        while time.time() < began + LATE_S and not has_hung_up(self.connection):
            time.sleep(_IMPATIENT_S)
            self.server.post.hurry()
        self.server.books.span("keys", began, "")

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
        # What a seller can do is asked before anything is bought, in nobody's turn.
        counted = self.server.traffic.call(self.connection, looks=tool == "get_task_status")
        with nullcontext() if tool == CAPABILITIES else counted:
            answer = self._acted(script, trouble, tool, arguments)
            time.sleep(_PAUSES_S.get(trouble, 0))
        if "context" in arguments and "adcp_error" not in answer:
            answer = {**answer, "context": arguments["context"]}
        self._reply(message, wire.distorted(trouble, answer), trouble)

    def _acted(self, script: Script | None, trouble: str, tool: str, arguments: Json) -> Json:
        """What comes of it at the seller, noted in its books."""
        if trouble in UNDONE:
            answer = {"adcp_error": _REFUSALS[trouble]} if trouble in _REFUSALS else {}
        else:
            answer = self.server.carry_out(tool, arguments)
        told = f"{tool} {trouble}: {answer.get('status') or 'error'}"
        self.server.books.note(script.number if script else 0, told)
        return answer

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
    """One seller: its books, its shop, its post, the calls it is at."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, name: str, port: int, folder: Path, scripts: list[Script], *, token: str) -> None:
        self.name, self.token = name, token
        self.transport, signed = SELLERS[name]
        self.books = Books(folder / "books.db")
        self.traffic = Traffic(self.books)
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
