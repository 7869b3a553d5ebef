"""A real HTTP server that misbehaves to the byte: each connection is given to a script."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support import PATIENCE_S, joined


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None

    @property
    def rpc_method(self) -> str:
        return str(self.json.get("method", "")) if self.body else ""


# What to do with one request: write to the socket; afterwards the connection is closed.
Script = Callable[[Request, socket.socket], None]


@dataclass
class RawServer:
    port: int
    requests: list[Request] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    gave_up: bool = False  # who hangs until the test ends has waited for that in vain

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def rpc_methods(self) -> list[str]:
        return [request.rpc_method for request in self.requests if request.method == "POST"]


def response(
    body: bytes | str, *, status: str = "200 OK", content_type: str = "application/json", **headers: str
) -> bytes:
    payload = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(payload)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + payload


@contextmanager
def serve(script: Callable[[RawServer], Script]) -> Iterator[RawServer]:
    """Run a server on a free port of 127.0.0.1 until the block ends."""
    with socket.create_server(("127.0.0.1", 0), backlog=32) as listener:
        server = RawServer(port=listener.getsockname()[1])
        handle = script(server)
        thread = threading.Thread(target=_accept, args=(listener, server, handle), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.stopping.set()
            listener.shutdown(socket.SHUT_RDWR)
            joined(thread)


def _accept(listener: socket.socket, server: RawServer, script: Script) -> None:
    workers = []
    while not server.stopping.is_set():
        try:
            connection, _ = listener.accept()
        except OSError:
            break
        worker = threading.Thread(target=_handle, args=(connection, server, script), daemon=True)
        worker.start()
        workers.append(worker)
    joined(*workers)


def _handle(connection: socket.socket, server: RawServer, script: Script) -> None:
    with connection:
        connection.settimeout(PATIENCE_S)
        try:
            request = _read(connection)
            if request is not None:
                server.requests.append(request)
                script(request, connection)
        except OSError:
            return  # the client went away, as it may


def _read(connection: socket.socket) -> Request | None:
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = connection.recv(65536)
        if not chunk:
            return None
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        chunk = connection.recv(65536)
        if not chunk:
            return None  # a client that was killed before it had said all
        body += chunk
    return Request(method, path, headers, body)
