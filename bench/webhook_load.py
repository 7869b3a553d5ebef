"""What sends webhooks in `bench.operations_webhooks`: keep-alive connections, requests made beforehand."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric import ed25519

SECRET = "the-secret-of-the-webhooks-bench-0123456789"  # noqa: S105
CONNECTIONS = 16
_LENGTH = b"content-length:"
_COVERED = '("@method" "@target-uri" "@authority" "content-type" "content-digest")'


@dataclass(frozen=True)
class Target:
    """A purchase that waits at the seller: our id and token, the seller's task."""

    operation_id: str
    task_id: str
    token: str = field(repr=False)


@dataclass
class Told:
    """What a slice led to: deliveries answered 200, seconds, and each one's milliseconds."""

    done: int = 0
    seconds: float = 0.0
    milliseconds: list[float] = field(default_factory=list)


def body_for(target: Target, *, ext: object = None) -> bytes:
    """The webhook that completes a purchase of two packages; `ext` is what the seller adds of its own."""
    told = {
        "idempotency_key": f"whk-{uuid.uuid4()}",
        "notification_id": f"ntf-{uuid.uuid4()}",
        "operation_id": target.operation_id,
        "task_id": target.task_id,
        "task_type": "create_media_buy",
        "protocol": "media-buy",
        "status": "completed",
        "timestamp": datetime.now(UTC).isoformat(),
        "message": "Media buy created and awaiting creatives",
        "token": target.token,
        "result": {
            "media_buy_id": f"mb-{target.task_id}",
            "media_buy_status": "pending_creatives",
            "revision": 1,
            "packages": [
                {"package_id": f"pkg-{n}", "product_id": "olv-news", "budget": 12500.5} for n in range(2)
            ],
            **({} if ext is None else {"ext": ext}),
        },
    }
    return json.dumps(told, separators=(",", ":")).encode()


def with_hmac(url: str, body: bytes) -> bytes:
    """One request, signed with the shared secret."""
    stamp = str(int(time.time()))
    mac = hmac.digest(SECRET.encode(), stamp.encode() + b"." + body, hashlib.sha256).hex()
    return signed_request(url, body, {"X-AdCP-Signature": f"sha256={mac}", "X-AdCP-Timestamp": stamp})


def with_rfc9421(url: str, body: bytes, key: ed25519.Ed25519PrivateKey) -> bytes:
    """One request, signed with the seller's key `bench`."""
    now, nonce = int(time.time()), _b64url(uuid.uuid4().bytes)
    digest = f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"
    params = (
        f'{_COVERED};created={now};expires={now + 300};nonce="{nonce}";keyid="bench";alg="ed25519"'
        ';tag="adcp/webhook-signing/v1"'
    )
    authority = url.split("/")[2]
    base = "\n".join(
        [
            '"@method": POST',
            f'"@target-uri": {url}',
            f'"@authority": {authority}',
            '"content-type": application/json',
            f'"content-digest": {digest}',
            f'"@signature-params": {params}',
        ]
    )
    signature = _b64url(key.sign(base.encode()))
    return signed_request(
        url,
        body,
        {"Content-Digest": digest, "Signature-Input": f"sig1={params}", "Signature": f"sig1=:{signature}:"},
    )


def flat_out(url: str, requests: Iterator[bytes], seconds: float) -> Told:
    """Every connection sends as soon as it was answered, until the time is over."""
    return asyncio.run(_flat_out(url, requests, seconds))


def at_rate(url: str, requests: Sequence[bytes], rate: float) -> Told:
    """One request every 1/rate seconds, whatever the answers do; milliseconds count from when it was due."""
    return asyncio.run(_at_rate(url, requests, rate))


async def _flat_out(url: str, requests: Iterator[bytes], seconds: float) -> Told:
    told = Told()
    until = time.perf_counter() + seconds

    async def one() -> None:
        connection = await _connect(url)
        for request in requests:
            await _send(connection, request)
            told.done += 1
            if time.perf_counter() >= until:
                break
        connection[1].close()

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
    told.seconds = time.perf_counter() - began
    return told


async def _at_rate(url: str, requests: Sequence[bytes], rate: float) -> Told:
    told, began = Told(), time.perf_counter()
    due = iter([(began + number / rate, request) for number, request in enumerate(requests)])

    async def one() -> None:
        connection = await _connect(url)
        for at, request in due:
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            await _send(connection, request)
            told.milliseconds.append(1000 * (time.perf_counter() - at))
        connection[1].close()

    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
    told.done, told.seconds = len(requests), time.perf_counter() - began
    return told


async def _connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = url.split("/")[2].partition(":")
    return await asyncio.open_connection(host, int(port))


async def _send(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], request: bytes) -> None:
    reader, writer = connection
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(_LENGTH)), None)
    # Without CommonMiddleware Django names no length: the body comes in chunks.
    body = await reader.readuntil(b"0\r\n\r\n") if length is None else await reader.readexactly(length)
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"the bench was refused: {head[:40]!r} {body!r}")


def signed_request(url: str, body: bytes, headers: dict[str, str]) -> bytes:
    """One POST of a webhook with the headers that prove it."""
    _, _, authority, path = url.split("/", 3)
    lines = [
        f"POST /{path} HTTP/1.1",
        f"Host: {authority}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _b64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
