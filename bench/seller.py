"""A seller that answers at once: MCP over HTTP, just enough to be asked, bought from and polled.

`python -m bench.seller CHANNEL` prints its port and serves until its standard input ends. A purchase is
completed in its answer; every task it is asked about is `submitted`. The tests' fake seller is too slow to be
measured against.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from config.supervisor import BASE_DIR

Json = dict[str, Any]
TOOLS = ("get_adcp_capabilities", "get_products", "create_media_buy", "get_media_buys", "get_task_status")


@contextmanager
def running(channel: str) -> Iterator[str]:
    """Run a seller while the block runs and yield its MCP URL."""
    command = [sys.executable, "-m", "bench.seller", channel]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=BASE_DIR, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - a pipe
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        finally:
            process.kill()


class Connection(asyncio.Protocol):
    """One kept connection: requests in, answers out."""

    def __init__(self, channel: str, buys: dict[str, Json]) -> None:
        self._channel, self._buys = channel, buys
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport to answer on."""
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            whole = end + 4 + _length(self._received[:end])
            if len(self._received) < whole:
                return
            is_post, body = self._received.startswith(b"POST"), self._received[end + 4 : whole]
            self._received = self._received[whole:]
            self._answer(json.loads(body) if is_post else None)

    def _answer(self, message: Json | None) -> None:
        if message is None or "id" not in message:
            self._send("405 Method Not Allowed" if message is None else "202 Accepted", b"")
            return
        params = message.get("params", {})
        if message["method"] == "initialize":
            result: Json = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "Bench", "version": "1"},
            }
        elif message["method"] == "tools/list":
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
        else:
            answer = getattr(self, f"_{params['name']}")(params["arguments"])
            text = json.dumps(answer)
            result = {"content": [{"type": "text", "text": text}], "structuredContent": answer}
        self._send("200 OK", json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

    def _send(self, status: str, body: bytes) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        if not self._transport.is_closing():
            self._transport.write(head.encode() + body)

    def _get_adcp_capabilities(self, _: Json) -> Json:
        return {
            "adcp": {
                "major_versions": [3],
                "supported_versions": ["3.2"],
                "idempotency": {"supported": True, "replay_ttl_seconds": 86400},
            },
            "supported_protocols": ["media_buy"],
            "account": {"require_operator_auth": False, "supported_billing": ["operator"]},
            "media_buy": {"buying_modes": ["brief"], "supported_pricing_models": ["cpm"]},
        }

    def _get_products(self, asked: Json) -> Json:
        wanted = (asked.get("filters") or {}).get("channels") or [self._channel]
        option = {
            "pricing_option_id": "cpm-1",
            "pricing_model": "cpm",
            "currency": "USD",
            "fixed_price": 12.5,
        }
        product = {
            "product_id": f"{self._channel}-1",
            "name": f"Everything in {self._channel}",
            "channels": [self._channel],
            "delivery_type": "guaranteed",
            "pricing_options": [option],
        }
        return {"products": [product] if self._channel in wanted else []}

    def _create_media_buy(self, asked: Json) -> Json:
        known = self._buys.get(asked["idempotency_key"])
        if known:
            return known
        name = f"mb-{uuid.uuid4().hex[:12]}"
        flight = {key: asked[key] for key in ("start_time", "end_time")}
        echoed = ("product_id", "pricing_option_id", "budget", "targeting_overlay", "context")
        packages = [
            {"package_id": f"{name}-{number}", **flight, **{key: one[key] for key in echoed if key in one}}
            for number, one in enumerate(asked["packages"])
        ]
        buy = {
            "media_buy_id": name,
            "status": "completed",
            "media_buy_status": "pending_start",
            "confirmed_at": datetime.now(UTC).isoformat(),
            "revision": 1,
            "currency": "USD",
            "total_budget": sum(one["budget"] for one in packages),
            "account": asked.get("account"),
            "context": asked.get("context"),
            "packages": packages,
        }
        self._buys[asked["idempotency_key"]] = buy
        return buy

    def _get_media_buys(self, asked: Json) -> Json:
        wanted = asked.get("media_buy_ids")
        found = [buy for buy in self._buys.values() if not wanted or buy["media_buy_id"] in wanted]
        listed = [{**buy, "status": "pending_start"} for buy in found]
        return {"media_buys": listed, "pagination": {"has_more": False}}

    def _get_task_status(self, asked: Json) -> Json:
        return {"task_id": asked["task_id"], "task_type": "create_media_buy", "status": "submitted"}


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0


async def _serve(channel: str) -> None:
    buys: dict[str, Json] = {}
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Connection(channel, buys), "127.0.0.1", 0, backlog=1024)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
