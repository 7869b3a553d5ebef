"""The webhook endpoint as an ASGI application in front of Django: what is too large is refused before it is
read, and a delivery passes through none of the chain that pages need.

Deliveries are taken in a few threads, each with a database connection that stays open. What the edge does not
take (another method, plain http where https is required) goes on to Django and its view.
"""

from __future__ import annotations

import asyncio
import json
import re
import select
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from tasks_app.webhooks.answer import Answer, Incoming
from tasks_app.webhooks.receive import MAX_BODY_BYTES, TOO_LARGE, delivery_receive
from tasks_app.webhooks.refusals import delivery_refuse
from tasks_app.webhooks.senders import seller_of

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Any, Any, Any], Awaitable[None]]

log = structlog.get_logger(__name__)
_PATH = re.compile(r"/webhooks/adcp/([-a-zA-Z0-9_]+)/")
_BODY_WITHIN_S = 30.0
_MOST_WAITING = 256
_LATER = Answer(status=503, word="unavailable", headers={"Retry-After": "2"})


class TooLargeError(Exception):
    """The body is larger than a webhook may be."""


class WebhookEdge:
    """Takes webhooks; everything else is for `app`."""

    def __init__(self, app: Asgi) -> None:
        self._app = app
        self._waiting = 0
        self._threads = ThreadPoolExecutor(settings.WEBHOOK_THREADS, thread_name_prefix="webhook")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        slug = _slug(scope)
        if slug is None:
            await self._app(scope, receive, send)
            return
        headers = _headers(scope["headers"])
        source = str((scope.get("client") or ("",))[0])
        try:
            body = await _read_body(headers, receive)
        except TooLargeError:
            refused = await self._in_thread(partial(_unread, slug, source, TOO_LARGE, 413))
            await _answer(send, refused, close=True)
            return
        except TimeoutError:
            refused = await self._in_thread(partial(_unread, slug, source, "webhook_body_incomplete", 408))
            await _answer(send, refused, close=True)
            return
        if body is None:  # the sender is gone
            return
        incoming = Incoming(seller=slug, url=_url(scope), headers=headers, body=body, source=source)
        await _answer(send, await self._in_thread(partial(delivery_receive, incoming)))

    async def _in_thread(self, work: Callable[[], Answer]) -> Answer:
        if self._waiting >= _MOST_WAITING:
            log.warning("webhook_postponed", waiting=self._waiting)
            return _LATER
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, _guarded, work)
        finally:
            self._waiting -= 1


def _guarded(work: Callable[[], Answer]) -> Answer:
    """Whatever goes wrong here is not the sender's fault: it comes again."""
    _drop_dead_connection()
    try:
        return work()
    except (OperationalError, InterfaceError) as error:
        log.warning("webhook_database_lost", error=type(error).__name__)
        connection.close()
    except Exception:  # ours to mend; the sender is asked to come again
        log.exception("webhook_failed")
        connection.close()
    return _LATER


def _drop_dead_connection() -> None:
    """A connection that has something to say while nobody asked has ended: the next query opens another."""
    raw = connection.connection
    if raw is None:
        return
    if not raw.closed:
        told = select.poll()
        told.register(raw.fileno(), select.POLLIN)
        if not told.poll(0):
            return
        raw.close()
    connection.close()


def _unread(slug: str, source: str, reason: str, status: int) -> Answer:
    """Refuse a delivery whose body was not read to its end."""
    seller, _ = seller_of(slug)
    if seller is None:
        return delivery_refuse(seller=None, source=source, reason="webhook_unknown_seller", status=404)
    return delivery_refuse(seller=seller, source=source, reason=reason, status=status)


def _slug(scope: Scope) -> str | None:
    """The seller's part of the path, None for what is not ours to take."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    found = _PATH.fullmatch(scope["path"])
    return found.group(1) if found and _is_secure(scope) else None


def _is_secure(scope: Scope) -> bool:
    """As Django's SecurityMiddleware judges it; the others it sends elsewhere."""
    if not settings.SECURE_SSL_REDIRECT or scope.get("scheme") == "https":
        return True
    forwarded = _headers(scope["headers"]).get("x-forwarded-proto", "")
    return bool(settings.SECURE_PROXY_SSL_HEADER) and forwarded.partition(",")[0].strip() == "https"


def _headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _url(scope: Scope) -> str:
    """As the sender addressed it: our public address, the path byte by byte."""
    path = scope.get("raw_path") or scope["path"].encode()
    query = scope.get("query_string", b"")
    target = path.split(b"?")[0] + (b"?" + query if query else b"")
    return f"{settings.PUBLIC_URL}{target.decode('latin-1')}"


async def _read_body(headers: dict[str, str], receive: Receive) -> bytes | None:
    """The whole body, None when the sender hung up. Raises TooLargeError, TimeoutError."""
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:12]) > MAX_BODY_BYTES:
        raise TooLargeError
    parts, size = [], 0
    async with asyncio.timeout(_BODY_WITHIN_S):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            size += len(part)
            if size > MAX_BODY_BYTES:
                raise TooLargeError
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)


async def _answer(send: Send, answer: Answer, *, close: bool = False) -> None:
    body = json.dumps(answer.body).encode()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **answer.headers}
    if close:
        headers["Connection"] = "close"
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
