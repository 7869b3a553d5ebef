"""What every request passes before Django: bodies of a bounded size and time, and for strangers (who bring no
session or token that is somebody's) an allowance that is counted in memory.

A stranger's request waits for one of few slots and is answered whole before it is sent, so that it holds
neither a thread nor a database connection while somebody sends or reads slowly. People who are signed in, and
agents with a token, pass beside all that. Webhooks have an edge of their own (`tasks_app.webhooks.edge`).
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import time
from collections import Counter
from enum import StrEnum
from urllib.parse import urlsplit

import structlog
from django.conf import settings
from django.db import OperationalError, connections
from django.urls import reverse
from prometheus_client import Counter as Counted

from tasks_app.allowances import network_of, per_minute
from tasks_app.asgi import (
    Asgi,
    Message,
    Receive,
    Scope,
    Send,
    TooLargeError,
    answer,
    headers_of,
    read_body,
    source_of,
)
from tasks_app.installation import start_lacks
from tasks_app.metrics import metrics_may_be_read
from tasks_app.people.credentials import Credentials
from tasks_app.webhooks.answer import LATER
from tasks_app.webhooks.edge import tell_sender, webhook_seller

log = structlog.get_logger(__name__)
_STRANGER_BODY = 64 * 2**10
_SENDERS = 3  # all strangers together have as much as so many that ask without end
_SLOT_WITHIN_S = 20.0
_MOST_WAITING = 20  # for each slot
_HEALTH_S = 1.0
_LOOKED_EVERY_S = 1.0
_HEALTH_KINDS = ("", "*/*", "text/html", "text/plain", "application/json")  # what may be accepted
_LOGGED_EVERY_S = 10.0
REFUSED = Counted("flightdeck_strangers_refused", "Requests of strangers beyond their allowance", ["kind"])


class Kind(StrEnum):
    """What a stranger asks for."""

    SIGN_IN = "sign_in"  # a password is hashed
    FILE = "file"
    PAGE = "page"


class WholeInstallation:
    """Stands before every other edge: nothing is served before the database has said that nothing is lacking
    (`start_lacks`), whichever server runs the application. Until it answers, 503; what it then says is
    lacking ends the process."""

    def __init__(self, app: Asgi) -> None:
        self._app, self._whole, self._asked_at = app, False, -_LOOKED_EVERY_S
        self._asking = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            begun = await receive()
            lack = await self._lack()
            if lack:
                await send({"type": "lifespan.startup.failed", "message": lack})
                return
            await self._app(scope, _first(begun, receive), send)
        elif self._whole or not await self._turned_away(scope, send):
            await self._app(scope, receive, send)

    async def _turned_away(self, scope: Scope, send: Send) -> bool:
        lack = await self._lack()
        if lack:
            log.critical("installation_lacks", lack=lack)
            os.kill(os.getpid(), signal.SIGTERM)
        if self._whole:
            return False
        if webhook_seller(scope) is None:
            await _say(scope, send, 503, "The database does not answer: come again in a moment.", 2)
        else:
            await tell_sender(send, LATER)
        return True

    async def _lack(self) -> str:
        """The first thing that is lacking; empty where nothing is, or nobody can tell yet."""
        async with self._asking:
            if self._whole or time.monotonic() - self._asked_at < _LOOKED_EVERY_S:
                return ""
            lacks = await asyncio.to_thread(_lacks)
            self._asked_at, self._whole = time.monotonic(), lacks == []
            return lacks[0] if lacks else ""


def _lacks() -> list[str] | None:
    """None where the database is away."""
    try:
        return start_lacks()
    except OperationalError:
        return None
    finally:
        connections.close_all()


class KnownMethods:
    """Stands before the edges that read a method: one that is not written in capitals is answered 501
    (RFC 9110, section 9.1). Django would take `post` for POST, and what stands before it would not."""

    def __init__(self, app: Asgi) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] != scope["method"].upper():
            await _say(scope, send, 501, "Methods are written in capitals.", close=True)
            return
        await self._app(scope, receive, send)


class Edge:
    """Stands before Django and its streams, which are `app`."""

    def __init__(self, app: Asgi) -> None:
        self._app = app
        self._credentials = Credentials()
        self._allowances = {
            Kind.SIGN_IN: per_minute(settings.STRANGERS_SIGN_INS, senders=_SENDERS),
            Kind.FILE: per_minute(settings.STRANGERS_FILES, senders=_SENDERS),
            Kind.PAGE: per_minute(settings.STRANGERS_PAGES, senders=_SENDERS),
        }
        # A sign-in hashes a password on another core; pages and files take turns with those of people.
        pages = asyncio.Semaphore(1)
        self._slots = {Kind.SIGN_IN: asyncio.Semaphore(1), Kind.FILE: pages, Kind.PAGE: pages}
        self._waiting: Counter[Kind] = Counter()
        set_password = reverse("password_set", args=["-", "-"]).removesuffix("-/-/")
        self._passwords = (reverse("admin:login"), reverse("admin_password_reset"), set_password)
        self._health = reverse("health")
        self._metrics = reverse("metrics")
        self._host = (b"host", urlsplit(settings.PUBLIC_URL).netloc.encode())
        self._healths: dict[str, tuple[float, list[Message]]] = {}
        self._looking = asyncio.Lock()
        self._refused, self._logged_at = 0, 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, kind = headers_of(scope["headers"]), self._kind(scope)
        if kind is not Kind.SIGN_IN and (
            self._reads_metrics(scope, headers) or await self._credentials.any_known(headers)
        ):
            body = await _body(scope, headers, receive, send, most=settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
            if body is not None:
                await self._app(scope, _replay(body, receive), send)
        elif self._asks_health(scope, headers):
            await self._tell_health(scope, headers, send)
        else:
            await self._stranger(kind, scope, headers, receive, send)

    def _reads_metrics(self, scope: Scope, headers: dict[str, str]) -> bool:
        """Whoever may is no stranger: what is measured in a flood is of most use."""
        return scope["path"] == self._metrics and metrics_may_be_read(
            source=source_of(scope), authorization=headers.get("authorization", "")
        )

    def _kind(self, scope: Scope) -> Kind:
        if scope["method"] == "POST" and scope["path"].startswith(self._passwords):
            return Kind.SIGN_IN
        return Kind.FILE if scope["path"].startswith(settings.STATIC_URL) else Kind.PAGE

    async def _stranger(
        self, kind: Kind, scope: Scope, headers: dict[str, str], receive: Receive, send: Send
    ) -> None:
        wait = self._allowances[kind].take(network_of(source_of(scope)))
        if wait is not None:
            self._count(kind)
            await _say(
                scope, send, 429, f"Too many requests that are not signed in: come again in {wait} s.", wait
            )
            return
        body = await _body(scope, headers, receive, send, most=_STRANGER_BODY)
        if body is None:
            return
        if not await self._slot_taken(kind):
            self._count(kind)
            await _say(scope, send, 503, "Many ask at once: come again in a moment.", 5)
            return
        try:
            said = await self._whole(scope, body)
        finally:
            self._slots[kind].release()
        for message in said:
            await send(message)

    async def _slot_taken(self, kind: Kind) -> bool:
        """Wait for the slot, where not too many do already."""
        if self._waiting[kind] >= _MOST_WAITING:
            return False
        self._waiting[kind] += 1
        try:
            async with asyncio.timeout(_SLOT_WITHIN_S):
                return await self._slots[kind].acquire()
        except TimeoutError:
            return False
        finally:
            self._waiting[kind] -= 1

    async def _whole(self, scope: Scope, body: bytes) -> list[Message]:
        """The app's answer. It is not told when the sender hangs up: a slot is free when its work is done."""
        said: list[Message] = []

        async def keep(message: Message) -> None:
            said.append(message)

        await self._app(scope, _replay(body, _never), keep)
        return said

    def _asks_health(self, scope: Scope, headers: dict[str, str]) -> bool:
        plain = scope["method"] == "GET" and not scope["query_string"]
        return plain and scope["path"] == self._health and headers.get("accept", "") in _HEALTH_KINDS

    async def _tell_health(self, scope: Scope, headers: dict[str, str], send: Send) -> None:
        """Asked for by machines that must not be turned away: one answer serves all for a second. It is asked
        for at our own address, so that nothing a stranger sends besides is in it."""
        accepted = headers.get("accept", "")
        asked = [(b"accept", accepted.encode())] if accepted else []
        own = {**scope, "scheme": "https", "headers": [self._host, *asked]}
        async with self._looking:
            at, said = self._healths.get(accepted, (-math.inf, []))
            if time.monotonic() - at > _HEALTH_S:
                said = await self._whole(own, b"")
                self._healths[accepted] = (time.monotonic(), said)
        for message in said:
            await send(message)

    def _count(self, kind: Kind) -> None:
        REFUSED.labels(kind).inc()
        self._refused += 1
        if time.monotonic() - self._logged_at > _LOGGED_EVERY_S:
            log.warning("strangers_refused", count=self._refused)
            self._refused, self._logged_at = 0, time.monotonic()


async def _body(
    scope: Scope, headers: dict[str, str], receive: Receive, send: Send, *, most: int
) -> bytes | None:
    """The body; None where the sender hung up, or was told that it will not be had."""
    try:
        return await read_body(headers, receive, most=most)
    except TooLargeError:
        await _say(scope, send, 413, f"At most {most} bytes are taken.", close=True)
    except TimeoutError:
        await _say(scope, send, 408, "The body did not come.", close=True)
    return None


def _replay(body: bytes, then: Receive) -> Receive:
    return _first({"type": "http.request", "body": body, "more_body": False}, then)


def _first(message: Message, then: Receive) -> Receive:
    first = [message]

    async def receive() -> Message:
        return first.pop() if first else await then()

    return receive


async def _never() -> Message:
    return await asyncio.get_running_loop().create_future()


async def _say(
    scope: Scope, send: Send, status: int, text: str, wait: int | None = None, *, close: bool = False
) -> None:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    if wait is not None:
        headers["Retry-After"] = str(wait)
    if scope["path"].startswith("/api/"):
        body = json.dumps({"type": "about:blank", "status": status, "title": text}).encode()
        headers["Content-Type"] = "application/problem+json"
    else:
        body = text.encode()
        headers["Content-Type"] = "text/plain; charset=utf-8"
    await answer(send, status, body, headers, close=close)
