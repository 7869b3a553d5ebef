"""Who floods and who is measured in `bench.flood`: requests made beforehand on kept connections, each from an
address of its own on loopback. `python -m bench.flood_load URL KIND SECONDS` is the flood, in a process of
its own; it prints how many answers of which status came (0: none).
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from itertools import cycle

from cryptography.hazmat.primitives.asymmetric import ed25519

from bench import webhook_load
from bench.webhook_load import Target

SENDERS, PER_S = 100, 200
NOTHING = "/nothing/"  # where `bench.flood_route` answers 404
_WITHIN_S = 30.0
_CSRF = "a" * 32
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def flood_requests(url: str, kind: str) -> list[bytes]:
    """What strangers send, in turn: `nothing`, `pages` or `webhooks`."""
    if kind == "nothing":
        return [get(url + NOTHING)]
    if kind == "pages":
        form = f"csrfmiddlewaretoken={_CSRF}&username=nobody&password=guessed-at-random".encode()
        return [
            get(f"{url}/api/schema/"),
            get(f"{url}/admin/login/"),
            _request(url, "/admin/login/", form, Cookie=f"csrftoken={_CSRF}"),
            get(f"{url}/api/v1/deals/", Authorization=f"Token fd_{'0' * 61}"),
            get(f"{url}/admin/", Cookie="sessionid=abcdefghijklmnopqrstuvwxyz012345"),
        ]
    body = webhook_load.body_for(Target(operation_id="", task_id="t-1", token=""))
    named = [f"{url}/webhooks/adcp/{seller}/" for seller in ("bench", "bench-signed", "nobody")]
    forged = {"Signature-Input": "sig1=()", "Signature": "sig1=:AAAA:"}
    return [
        webhook_load.signed_request(
            named[0], body, {"X-AdCP-Signature": "sha256=00", "X-AdCP-Timestamp": "1"}
        ),
        webhook_load.signed_request(named[1], body, forged),
        webhook_load.with_rfc9421(named[1], body, ed25519.Ed25519PrivateKey.generate()),
        webhook_load.signed_request(named[2], body, {}),
    ]


def get(url: str, **headers: str) -> bytes:
    """One GET, to be sent on a kept connection."""
    _, _, authority, path = url.split("/", 3)
    lines = [f"GET /{path} HTTP/1.1", f"Host: {authority}", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


async def one_by_one(url: str, requests: Iterable[bytes], *, pause_s: float, seconds: float) -> list[float]:
    """One request after the other on one connection, each so long after the answer before; the milliseconds
    of each. Raises SystemExit for an answer other than 200."""
    taken: list[float] = []
    until = time.perf_counter() + seconds
    connection = await connect(url)
    for request in requests:
        began = time.perf_counter()
        if began >= until:
            break
        status = await ask(connection, request)
        if status != 200:
            raise SystemExit(f"the bench was answered {status}: {request[:60]!r}")
        taken.append(1000 * (time.perf_counter() - began))
        await asyncio.sleep(pause_s)
    connection[1].close()
    return taken


async def flood(url: str, kind: str, seconds: float) -> Counter[int]:
    """`SENDERS` strangers send `PER_S` a second in all, whether they were answered or not: who waits for an
    answer sends the next on another connection."""
    requests, told = flood_requests(url, kind), Counter[int]()
    idle: dict[str, list[Connection]] = {f"127.0.1.{number + 1}": [] for number in range(SENDERS)}

    async def send(source: str, request: bytes) -> None:
        try:
            connection = idle[source].pop() if idle[source] else await connect(url, source)
            told[await ask(connection, request)] += 1
            idle[source].append(connection)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            told[0] += 1

    began, sent = time.perf_counter(), []
    senders = cycle(idle)
    for number in range(int(seconds * PER_S)):
        await asyncio.sleep(max(0.0, began + number / PER_S - time.perf_counter()))
        request = requests[(number + number // SENDERS) % len(requests)]
        sent.append(asyncio.create_task(send(next(senders), request)))
    await asyncio.gather(*sent)
    return told


async def connect(url: str, source: str = "127.0.0.1") -> Connection:
    host, _, port = url.split("/")[2].partition(":")
    return await asyncio.open_connection(host, int(port), local_addr=(source, 0))


async def ask(connection: Connection, request: bytes) -> int:
    """Send one request and read its answer to the end; the status."""
    reader, writer = connection
    writer.write(request)
    async with asyncio.timeout(_WITHIN_S):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")), None
        )
        await (reader.readuntil(b"0\r\n\r\n") if length is None else reader.readexactly(length))
    return int(head[9:12])


def _request(url: str, path: str, form: bytes, **headers: str) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {url.split('/')[2]}",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(form)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + form


if __name__ == "__main__":
    _url, _kind, _seconds = sys.argv[1:4]
    print(json.dumps(asyncio.run(flood(_url, _kind, float(_seconds)))))
