"""Server-sent events of jobs and of pages that change by themselves, as an ASGI application before Django.

Django answers the request whole: who asks, whether they may see it, and what there is so far; every
middleware has its say, and the answer alone is a valid stream that ends. Where Django's answer says that it
may go on, this keeps the connection open and sends what comes, so that a watcher holds neither a thread nor a
database connection.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog
from django.conf import settings

from tasks_app.asgi import Asgi, Message, Receive, Scope, Send, answer
from tasks_app.desk.live import HEADER, Followed
from tasks_app.jobs.feed import Feed, PageWatcher, Watcher
from tasks_app.jobs.told import END, HEARTBEAT

log = structlog.get_logger(__name__)
_PATH = re.compile(
    r"/api/v1/jobs/[A-Za-z0-9-]+/events/|/admin/[a-z_]+/[a-z_]+/[0-9a-f-]{36}/changes/"
    r"|/api/v1/assistant/turns/[0-9a-f-]{36}/events/"
)
_SEND_WITHIN_S = 30.0
_TOO_MANY = {"type": "about:blank", "status": 429, "title": "Too many streams are open: close one."}


@dataclass(frozen=True, kw_only=True)
class Going:
    """How a stream goes on: whose it is and by which proof (people/access.py), of which job, behind which
    event; `ended_at`: the id behind which nothing new will come, None while the job has not ended; `over`:
    that was it."""

    user: str
    proof: str
    job_id: uuid.UUID
    after: int
    ended_at: int | None
    over: bool

    def header(self) -> str:
        return f"{self.user} {self.proof} {self.job_id} {self.after} {self.ended_at} {self.over:d}"

    @classmethod
    def read(cls, text: str) -> Going:
        user, proof, job_id, after, ended_at, over = text.split()
        return cls(
            user=user,
            proof=proof,
            job_id=uuid.UUID(job_id),
            after=int(after),
            ended_at=None if ended_at == "None" else int(ended_at),
            over=over == "1",
        )


class Streams:
    """Keeps streams of job events and of pages' signs open; everything else is for `app`."""

    def __init__(self, app: Asgi) -> None:
        self._app = app
        self._feed = Feed()
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_get = scope["type"] == "http" and scope["method"] == "GET"
        if not is_get or not _PATH.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return
        answer, asked_at = _Answer(send, self._admit), asyncio.get_running_loop().time()
        try:
            await self._app(scope, receive, answer.pass_on)
            if answer.going is not None:
                await self._go_on(answer.going, asked_at, receive, send)
        finally:
            if answer.going is not None:
                self._release(answer.going.user)

    def _admit(self, user: str) -> bool:
        if self._open[user] >= settings.STREAMS_PER_USER or self._open.total() >= settings.STREAMS:
            log.info("stream_refused", user=user, open=self._open.total())
            return False
        self._open[user] += 1
        return True

    def _release(self, user: str) -> None:
        self._open[user] -= 1
        if not self._open[user]:
            del self._open[user]

    async def _go_on(self, going: Going | Followed, asked_at: float, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_gone(receive))
        try:
            if isinstance(going, Going) and going.over:
                await _body(send, END)
            else:
                watcher = _watcher(going)
                with self._feed.watching(watcher, proved_at=asked_at):
                    gone.add_done_callback(lambda _: watcher.bell.set())
                    await _follow(watcher, gone, send)
            await _body(send, b"", more=False)
        except TimeoutError:  # takes nothing any more; comes again with the last id it had
            log.info("stream_stuck", user=going.user)
        finally:
            gone.cancel()


def _watcher(going: Going | Followed) -> Watcher | PageWatcher:
    if isinstance(going, Followed):
        return PageWatcher((going.page, going.entity_id), going.sign, proof=going.proof)
    return Watcher(going.job_id, going.after, going.ended_at, proof=going.proof)


async def _follow(watcher: Watcher | PageWatcher, gone: asyncio.Task[None], send: Send) -> None:
    """Send what comes until it is over, the watcher has gone, its login has ended, or it has to show its
    right again."""
    clock = asyncio.get_running_loop().time
    until = clock() + settings.STREAM_MOST_S
    while clock() < until:
        with suppress(TimeoutError):
            async with asyncio.timeout(settings.STREAM_HEARTBEAT_S):
                await watcher.bell.wait()
        if gone.done() or watcher.shut:
            return
        if watcher.bell.is_set() and not watcher.is_proved:  # given long ago: they were slow to take the last
            return
        over = watcher.over
        await _body(send, watcher.take_stream() + END * over or HEARTBEAT)
        if over:
            return


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(send: Send, body: bytes, *, more: bool = True) -> None:
    async with asyncio.timeout(_SEND_WITHIN_S):
        await send({"type": "http.response.body", "body": body, "more_body": more})


class _Answer:
    """Django's answer on its way out: kept open where it says that it goes on, refused where too many are."""

    def __init__(self, send: Send, admit: Callable[[str], bool]) -> None:
        self._send, self._admit = send, admit
        self._refused = False
        self.going: Going | Followed | None = None

    async def pass_on(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._start(message)
        elif self.going is not None:
            await self._send({**message, "more_body": True})
        elif not self._refused:
            await self._send(message)

    async def _start(self, message: Message) -> None:
        headers = [(name.lower(), value) for name, value in message["headers"]]
        told = dict(headers).get(HEADER.lower().encode())
        if told is None or b"content-encoding" in dict(headers):  # compressed: whole as it is, to come again
            await self._send(message)
            return
        going = Followed.read(told.decode()) or Going.read(told.decode())
        if not self._admit(going.user):
            self._refused = True
            await _refuse(self._send)
            return
        self.going = going
        kept = [one for one in headers if one[0] not in (b"content-length", HEADER.lower().encode())]
        await self._send({**message, "headers": kept})


async def _refuse(send: Send) -> None:
    headers = {
        "Content-Type": "application/problem+json",
        "Retry-After": "30",
        "X-Content-Type-Options": "nosniff",
    }
    await answer(send, 429, json.dumps(_TOO_MANY).encode(), headers)
