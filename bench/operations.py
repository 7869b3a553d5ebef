"""The cost of a seller's answers: `make bench-operations`.

Webhooks: sixteen connections deliver completions of purchases, in turn to the web process and to a bare
view (`webhook_view`); then one worker's code applies what was stored. Polls: the sweep asks three sellers
about 2,000 tasks with 200 calls in flight; a bare loop of the `mcp` client makes the same calls, a session
each.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import psycopg

from bench import data, seller, server
from bench.figures import ROUNDS, Figures
from demo.ports import free_port

_SECRET = "the-secret-of-the-webhooks-bench-0123456789"  # noqa: S105
_CONNECTIONS = 16
_SLICES, _SLICE_S, _FASTEST = 6, 0.5, 3000  # no machine takes more webhooks a second
_POLLED, _IN_FLIGHT, _SELLERS = 600, 200, 3
_APPLIED_S = 5
_LENGTH = b"content-length:"
_UNLIMITED = "1000000000"  # one seller sends more here than any seller ever does
_DELIVERIES = """
create table bench_delivery (
    key text not null unique, body jsonb not null, at timestamptz not null default now());
grant select, insert on bench_delivery to flightdeck_app;
"""
_UVICORN = "exec uvicorn {app} --host 127.0.0.1 --port {port} --no-access-log"
Target = list[str]  # our operation id, the seller's task id, our token


def main() -> int:
    """Measure webhooks and polls."""
    figures = Figures()
    webhooks(figures)
    polls(figures)
    figures.tell("webhook_ratio", "webhooks_per_s", "webhook_applied_per_s", "poll_overhead", "polls_per_s")
    return 0


def webhooks(figures: Figures) -> None:
    """Measure deliveries to both servers in turn, then how fast they are applied."""
    ports = {"config.asgi:application": free_port(), "bench.webhook_view:application": free_port()}
    count = int(_FASTEST * _SLICES * _SLICE_S)
    with ExitStack() as closing:
        on = closing.enter_context(
            server.opened(
                "bench",
                BENCH_SECRET=_SECRET,
                FLIGHTDECK_WEBHOOK_SELLER_CAP=_UNLIMITED,
                FLIGHTDECK_WEBHOOK_SELLER_BYTES=_UNLIMITED,
            )
        )
        targets: Iterator[Target] = iter(
            json.loads(on.run("-m", "bench.operations", "fill", str(count * ROUNDS)))
        )
        with psycopg.connect(on.running.urls.owner, autocommit=True) as owner:
            owner.execute(_DELIVERIES)
            owner.execute("vacuum analyze")
        ours, reference = (f"http://127.0.0.1:{port}/webhooks/adcp/bench/" for port in ports.values())
        for (app, port), url in zip(ports.items(), (ours, reference), strict=True):
            command = ["/bin/sh", "-c", _UVICORN.format(app=app, port=port)]
            closing.enter_context(server.processes(on, {app: command}, answers=url))
        for number in range(ROUNDS):
            bodies = [_completion(target) for target in islice(targets, count)]
            _round(number, {"webhooks": ours, "bare_webhooks": reference}, bodies, figures)
        figures.add("webhook_applied_per_s", float(on.run("-m", "bench.operations", "apply")))


def _round(number: int, urls: dict[str, str], bodies: Sequence[bytes], figures: Figures) -> None:
    requests = {name: iter([_signed(url, body) for body in bodies]) for name, url in urls.items()}
    done = dict.fromkeys(urls, 0)
    for turn in range(_SLICES):
        for name in list(urls)[:: 1 if (turn + number) % 2 else -1]:
            done[name] += asyncio.run(_deliver(urls[name], requests[name]))
    for name, count in done.items():
        figures.add(f"{name}_per_s", count / (_SLICES * _SLICE_S))
    figures.add("webhook_ratio", done["webhooks"] / done["bare_webhooks"])


def _completion(target: Target) -> bytes:
    """Return the webhook that completes a purchase of two packages."""
    operation, task, token = target
    packages = [{"package_id": f"pkg-{n}", "product_id": "olv-news", "budget": 12500.5} for n in range(2)]
    result = {"media_buy_id": f"mb-{task}", "media_buy_status": "pending_creatives", "revision": 1}
    body = {
        "idempotency_key": f"whk-{uuid.uuid4()}",
        "notification_id": f"ntf-{uuid.uuid4()}",
        "operation_id": operation,
        "task_id": task,
        "task_type": "create_media_buy",
        "protocol": "media-buy",
        "status": "completed",
        "timestamp": datetime.now(UTC).isoformat(),
        "message": "Media buy created and awaiting creatives",
        "token": token,
        "result": {**result, "packages": packages},
    }
    return json.dumps(body, separators=(",", ":")).encode()


def _signed(url: str, body: bytes) -> bytes:
    """Return the whole HTTP request, with the legacy HMAC of AdCP's webhooks."""
    stamp = str(int(time.time()))
    mac = hmac.digest(_SECRET.encode(), stamp.encode() + b"." + body, hashlib.sha256).hex()
    _, _, authority, path = url.split("/", 3)
    lines = [
        f"POST /{path} HTTP/1.1",
        f"Host: {authority}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"X-AdCP-Signature: sha256={mac}",
        f"X-AdCP-Timestamp: {stamp}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _deliver(url: str, requests: Iterator[bytes]) -> int:
    """Send as fast as the answers come, for one slice; return how many were answered 200."""
    host, _, port = url.split("/")[2].partition(":")
    until, done = time.perf_counter() + _SLICE_S, 0

    async def one() -> None:
        nonlocal done
        reader, writer = await asyncio.open_connection(host, int(port))
        while time.perf_counter() < until:
            writer.write(next(requests))
            head = await reader.readuntil(b"\r\n\r\n")
            length = [line for line in head.split(b"\r\n") if line.lower().startswith(_LENGTH)]
            # Without a length the body comes in chunks.
            body = (
                await reader.readexactly(int(length[0][15:]))
                if length
                else await reader.readuntil(b"0\r\n\r\n")
            )
            if not head.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"a webhook was refused: {head[:40]!r} {body!r}")
            done += 1
        writer.close()

    await asyncio.gather(*(one() for _ in range(_CONNECTIONS)))
    return done


def polls(figures: Figures) -> None:
    """Measure a round of polls by the sweep and by a bare client, in turn."""
    with server.opened("bench", FLIGHTDECK_SWEEP_BATCH=str(_IN_FLIGHT)) as on, ExitStack() as closing:
        urls = [closing.enter_context(seller.running("display")) for _ in range(_SELLERS)]
        on.run("-m", "bench.operations", "fill_polled", *urls)
        for number in range(ROUNDS):
            orders = {"poll": [], "poll_bare": urls}
            for name in list(orders)[:: 1 if number % 2 else -1]:
                figures.add(f"{name}_s", float(on.run("-m", "bench.operations", name, *orders[name])))
            figures.add("polls_per_s", _POLLED / figures.last("poll_s"))
            figures.add("poll_overhead", figures.last("poll_s") / figures.last("poll_bare_s"))


def fill(count: str) -> None:
    """Create submitted purchases of a seller that signs with a secret; print [id, task id, token] of each."""
    from tasks_app.sellers.models import Seller

    mode = Seller.WebhookMode.HMAC
    made = data.create_seller("bench", idempotency_ttl_s=86400, webhook_mode=mode, webhook_secret=_SECRET)
    rows = _submitted([made], int(count), with_tokens=True)
    print(json.dumps([[str(row.pk), row.task_id, row.webhook_token] for row in rows]))


def fill_polled(*urls: str) -> None:
    """Create submitted purchases, shared out among sellers."""
    sellers = [
        data.create_seller(
            f"bench-{number}",
            url=url,
            adcp_version="3.2",
            idempotency_ttl_s=86400,
            tools=["create_media_buy", "get_task_status"],
            slots=-(-_IN_FLIGHT // _SELLERS),
            timing={"submitted_s": 3600},  # not due again within the bench
        )
        for number, url in enumerate(urls)
    ]
    _submitted(sellers, _POLLED)


def _submitted(sellers: Sequence[Any], count: int, *, with_tokens: bool = False) -> list[Any]:
    from datetime import timedelta

    from django.db.models import F
    from django.utils import timezone

    from tasks_app import ids
    from tasks_app.lifecycle.transitions import create_many, transition_many
    from tasks_app.operations.models import Operation
    from tasks_app.operations.tokens import webhook_token_of

    request = {"packages": ["x" * 500]}
    rows = [
        Operation(
            id=ids.new_id(),
            reference=f"B-{number}",
            purpose=f"bench:{number}",
            task_type="create_media_buy",
            seller=sellers[number % len(sellers)],
            requested_by="system",
            request_text=json.dumps(request),
            request=request,
            idempotency_key=f"bench-{number:020}",
            task_id=f"task-{number}",
            deadline_at=timezone.now() + timedelta(hours=24),
        )
        for number in range(count)
    ]
    for row in rows if with_tokens else ():
        row.webhook_token = webhook_token_of(row.pk)
    for start in range(0, count, 2000):
        create_many(rows[start : start + 2000], actor="system", reason="A bench")
    sent = {"sent_at": timezone.now()}
    transition_many(Operation.objects.all(), "calling_adcp", actor="system", changes=sent)
    transition_many(Operation.objects.all(), "submitted", actor="system")
    Operation.objects.update(next_poll_at=F("deadline_at"))
    return rows


def apply() -> None:
    """Apply stored webhooks as the sweep does; print how many a second."""
    from tasks_app.webhooks.early import received_apply_due

    began, applied = time.perf_counter(), 0
    while time.perf_counter() < began + _APPLIED_S and (more := received_apply_due()):
        applied += more
    print(applied / (time.perf_counter() - began))


def poll() -> None:
    """Poll every purchase once, as the sweep does; print the seconds."""
    from django.utils import timezone

    from tasks_app.operations.models import Operation
    from tasks_app.operations.sweep import sweep_once

    Operation.objects.update(next_poll_at=timezone.now())
    began = time.perf_counter()
    swept = asyncio.run(sweep_once())
    seconds = time.perf_counter() - began
    if swept.polled != _POLLED:
        raise SystemExit(f"not everything was polled: {swept}")
    print(seconds)


def poll_bare(*urls: str) -> None:
    """Make the same calls by the client library alone; print the seconds."""
    print(asyncio.run(_poll_bare(urls)))


async def _poll_bare(urls: Sequence[str]) -> float:
    import httpx2
    from mcp.client.session import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    class Plain(ClientSession):
        """Without a look at the tool's output schema, which would be one more call each time."""

        async def validate_tool_result(self, name: str, result: Any) -> None:
            return None

    room = asyncio.Semaphore(_IN_FLIGHT)
    limits = httpx2.Limits(max_connections=2 * _IN_FLIGHT, max_keepalive_connections=2 * _IN_FLIGHT)

    async def one(http: Any, number: int) -> None:
        url = urls[number % len(urls)]
        async with room, streamable_http_client(url, http_client=http) as streams, Plain(*streams) as session:
            await session.initialize()
            asked = {"task_id": f"task-{number}", "include_result": True}
            result = await session.call_tool("get_task_status", asked)
            if (result.structured_content or {})["status"] != "submitted":
                raise SystemExit(f"not what the seller says: {result}")

    began = time.perf_counter()
    async with httpx2.AsyncClient(limits=limits, timeout=60) as http:
        await asyncio.gather(*(one(http, number) for number in range(_POLLED)))
    return time.perf_counter() - began


_ORDERS = {one.__name__: one for one in (fill, fill_polled, apply, poll, poll_bare)}

if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(main())
    server.django_setup()
    _ORDERS[sys.argv[1]](*sys.argv[2:])
