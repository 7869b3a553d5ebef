"""A light seller for the benches: MCP over HTTP just far enough to be polled, on one asyncio loop.

It keeps connections open as long as the client does, and answers every get_task_status with `submitted` after
`--delay` seconds. Prints its port when it listens.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

HOST = "127.0.0.1"


class Seller(asyncio.Protocol):
    """One connection: requests in, answers out, in order."""

    delay = 0.0

    def __init__(self) -> None:
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            length = _length(self._received[:end])
            if len(self._received) < end + 4 + length:
                return
            method = self._received.split(b" ", 1)[0]
            body = self._received[end + 4 : end + 4 + length]
            self._received = self._received[end + 4 + length :]
            self._answer(method, body)

    def _answer(self, method: bytes, body: bytes) -> None:
        message = json.loads(body) if body else {}
        if method != b"POST":
            self._write("405 Method Not Allowed", b"")
        elif "id" not in message:
            self._write("202 Accepted", b"")
        elif message["method"] == "initialize":
            self._result(message, _opened(message))
        else:
            result = _polled(message["params"]["arguments"]["task_id"])
            asyncio.get_running_loop().call_later(self.delay, self._result, message, result)

    def _result(self, message: dict[str, Any], result: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self._write("200 OK", body)

    def _write(self, status: str, body: bytes) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        if not self._transport.is_closing():
            self._transport.write(head.encode() + body)


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0


def _opened(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "protocolVersion": message["params"]["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "Polled", "version": "1"},
    }


def _polled(task_id: str) -> dict[str, Any]:
    told = {
        "task_id": task_id,
        "task_type": "create_media_buy",
        "status": "submitted",
        "message": "In review",
    }
    return {"content": [{"type": "text", "text": json.dumps(told)}], "structuredContent": told}


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(Seller, HOST, 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Until whoever started it goes away.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay", type=float, default=0.0)
    Seller.delay = parser.parse_args().delay
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
