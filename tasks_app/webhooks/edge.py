"""The webhook endpoint as an ASGI application in front of Django: what is too large is refused before it is
read, and a delivery passes through none of the chain that pages need.

Deliveries are taken in a few threads, each with a database connection that stays open. Those of addresses
that were refused of late, and those that wait for their seller’s keys, are taken aside in fewer threads of
their own; what is beyond the allowance for judging strangers is turned away unread. What was refused is
written by one more thread, once a second and when the process ends. What the edge does not take
(another method, plain http where https is required) goes on to Django and its view.
"""

from __future__ import annotations

import asyncio
import json
import re
import select
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from tasks_app.asgi import (
    Asgi,
    Receive,
    Scope,
    Send,
    TooLargeError,
    answer,
    headers_of,
    read_body,
    source_of,
)
from tasks_app.webhooks.answer import LATER, Answer, Incoming
from tasks_app.webhooks.keys import FetchNeededError
from tasks_app.webhooks.rates import judge_admit, look_admit, source_proven, source_suspected
from tasks_app.webhooks.receive import MAX_BODY_BYTES, TOO_LARGE, delivery_receive
from tasks_app.webhooks.refusals import delivery_refuse, delivery_turn_away, refusals_write, unwritten
from tasks_app.webhooks.senders import seller_of, seller_read, seller_remembered

log = structlog.get_logger(__name__)
_PATH = re.compile(r"/webhooks/adcp/([-a-zA-Z0-9_]+)/")
_MOST_WAITING = 256  # for a thread
_WRITE_S = 1.0
_T = TypeVar("_T")


class _Lane:
    """Threads, and how many deliveries wait for them at most."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._waiting = 0

    async def run(self, work: Callable[[], _T]) -> _T | Answer:
        if self._waiting >= _MOST_WAITING:
            log.warning("webhook_postponed", waiting=self._waiting)
            return LATER
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, _guarded, work)
        finally:
            self._waiting -= 1


class WebhookEdge:
    """Takes webhooks; everything else is for `app`."""

    def __init__(self, app: Asgi) -> None:
        self._app = app
        self._lane = _Lane(settings.WEBHOOK_THREADS, "webhook")
        self._aside = _Lane(settings.WEBHOOK_ASIDE_THREADS, "webhook-aside")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="refusals")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        slug = webhook_seller(scope)
        if slug is None:
            await self._app(scope, receive, send)
            return
        headers, source = headers_of(scope["headers"]), source_of(scope)
        wait = judge_admit(source)
        if wait is not None:
            seller = seller_remembered(slug)
            await tell_sender(send, delivery_turn_away(seller=seller, source=source, wait=wait))
            return
        try:
            body = await read_body(headers, receive, most=MAX_BODY_BYTES)
        except TooLargeError:
            refused = await self._aside.run(partial(_unread, slug, source, TOO_LARGE, 413))
            await tell_sender(send, refused, close=True)
            return
        except TimeoutError:
            refused = await self._aside.run(partial(_unread, slug, source, "webhook_body_incomplete", 408))
            await tell_sender(send, refused, close=True)
            return
        if body is None:  # the sender is gone
            return
        incoming = Incoming(seller=slug, url=_url(scope), headers=headers, body=body, source=source)
        await tell_sender(send, await self._judged(incoming))

    async def _judged(self, incoming: Incoming) -> Answer:
        answer = None
        if not source_suspected(incoming.source):
            answer = await self._lane.run(partial(_received_unfetched, replace(incoming, may_fetch=False)))
        if answer is None:
            answer = await self._aside.run(partial(delivery_receive, incoming))
        if answer.status == 200:
            source_proven(incoming.source)
        return answer

    async def _live(self, receive: Receive, send: Send) -> None:
        """From the web process's start to its end."""
        await receive()
        writing = asyncio.create_task(self._write_on())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        writing.cancel()
        await self._write()
        await send({"type": "lifespan.shutdown.complete"})

    async def _write_on(self) -> None:
        while True:
            await asyncio.sleep(_WRITE_S)
            await self._write()

    async def _write(self) -> None:
        if unwritten:
            await asyncio.get_running_loop().run_in_executor(self._writer, _refusals_written)


def _received_unfetched(incoming: Incoming) -> Answer | None:
    """The answer; None where its seller has to be asked for keys first."""
    try:
        return delivery_receive(incoming)
    except FetchNeededError:
        return None


def _guarded(work: Callable[[], _T]) -> _T | Answer:
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
    return LATER


def _refusals_written() -> None:
    """Where it fails they stay in memory, and are written with the next."""
    _drop_dead_connection()
    try:
        refusals_write()
    except Exception as error:  # whatever it was, deliveries are still taken
        log.warning("webhook_refusals_not_written", error=type(error).__name__)
        connection.close()


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
    if seller is None and look_admit(source):
        seller = seller_read(slug)
    if seller is None:
        return delivery_refuse(seller=None, source=source, reason="webhook_unknown_seller", status=404)
    return delivery_refuse(seller=seller, source=source, reason=reason, status=status)


def webhook_seller(scope: Scope) -> str | None:
    """The seller's part of the path, None for what is not ours to take."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    found = _PATH.fullmatch(scope["path"])
    return found.group(1) if found and _is_secure(scope) else None


def _is_secure(scope: Scope) -> bool:
    """As Django's SecurityMiddleware judges it; the others it sends elsewhere."""
    if not settings.SECURE_SSL_REDIRECT or scope.get("scheme") == "https":
        return True
    forwarded = headers_of(scope["headers"]).get("x-forwarded-proto", "")
    return bool(settings.SECURE_PROXY_SSL_HEADER) and forwarded.partition(",")[0].strip() == "https"


def _url(scope: Scope) -> str:
    """As the sender addressed it: our public address, the path byte by byte."""
    path = scope.get("raw_path") or scope["path"].encode()
    query = scope.get("query_string", b"")
    target = path.split(b"?")[0] + (b"?" + query if query else b"")
    return f"{settings.PUBLIC_URL}{target.decode('latin-1')}"


async def tell_sender(send: Send, given: Answer, *, close: bool = False) -> None:
    """Send what a webhook's sender is told, as JSON."""
    headers = {"Content-Type": "application/json", **given.headers}
    await answer(send, given.status, json.dumps(given.body).encode(), headers, close=close)
