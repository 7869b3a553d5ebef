"""What strangers get before Django, and what they cannot take from people."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.test import Client

from config import edge
from config.edge import Edge, KnownMethods
from tasks_app.allowances import Allowance, per_minute
from tasks_app.asgi import Asgi
from tasks_app.people.security_models import ApiToken
from tasks_app.people.sessions import sessions_drop
from tasks_app.webhooks.edge import WebhookEdge
from tests.database import Database
from tests.factories import make_user
from tests.support import PATIENCE_S

SIGN_IN, STATIC, SCHEMA, PAGE = "/admin/login/", "/static/desk/flightdeck.css", "/api/schema/", "/admin/"
FALSE = (
    {},
    {"cookie": "sessionid=abcdefghijklmnopqrstuvwxyz012345"},
    {"authorization": "Token fd_0000000000000000000000000000"},
    {"authorization": "Basic c2VsbGVyOnNlY3JldA=="},
    {"cookie": "sessionid=", "authorization": "Token"},
)


class Site:
    """An application behind the edge that notes who comes through, and at most how many at a time."""

    def __init__(self) -> None:
        self.came: Counter[str] = Counter()
        self.now = self.most = 0
        self._entered = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def has(self, count: int) -> None:
        """Wait until so many are in it."""
        while self.now < count:
            self._entered.clear()
            await self._entered.wait()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        self._entered.set()
        message = await receive()
        await self.goes_on.wait()
        await asyncio.sleep(0)
        self.came[scope["path"]] += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": message["body"][:20]})
        self.now -= 1


Ask = Callable[..., Awaitable[tuple[int, dict[str, str]]]]


def asker(edge: Asgi) -> Ask:
    """Sends one request to the edge; answers status and headers."""

    async def ask(
        path: str, *, method: str = "GET", source: str = "192.0.2.7", body: bytes = b"", **headers: str
    ) -> tuple[int, dict[str, str]]:
        told: dict[str, Any] = {}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "client": (source, 4711),
            "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        }

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            told.update(message)

        await edge(scope, receive, send)
        return told["status"], {k.decode(): v.decode() for k, v in told["headers"]}

    return ask


@pytest.fixture(autouse=True)
def _small(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allowances of which nothing comes back, however long a test takes."""

    def standing(count: int, *, senders: int) -> Allowance:
        made = per_minute(count, senders=senders)
        return Allowance(each=made._each, in_all=made._in_all, time=lambda: 0.0)

    monkeypatch.setattr(edge, "per_minute", standing)
    settings.STRANGERS_PAGES = settings.STRANGERS_FILES = settings.STRANGERS_SIGN_INS = 8


def told(asks: Callable[[Ask], Awaitable[Any]]) -> Any:
    """Run `asks` against an edge of its own."""

    async def run() -> Any:
        return await asks(asker(Edge(Site())))

    return asyncio.run(run())


def signed_in() -> tuple[dict[str, str], dict[str, str]]:
    """What a person's browser and an agent bring."""
    person, browser = make_user("Auditor"), Client()
    browser.force_login(person)
    token = ApiToken.objects.create(user=person)[1]
    cookie = {"cookie": f"theme=dark; sessionid={browser.cookies['sessionid'].value}"}
    return cookie, {"authorization": f"Token {token}"}


def test_strangers_have_so_much_of_each_and_people_pass(committed_db: Database) -> None:
    known = signed_in()

    async def asks(ask: Ask, path: str, false: dict[str, str]) -> tuple[list[int], set[int], int]:
        forged = [(await ask(path, **false))[0] for _ in range(10)]
        theirs = {(await ask(path, **known[number % 2]))[0] for number in range(20)}
        return forged, theirs, (await ask(path, source="192.0.2.8", **false))[0]

    for path in (STATIC, SCHEMA, PAGE, "/api/v1/deals/", "/calendar/x.ics", "/nowhere/", SIGN_IN):
        for false in FALSE:
            forged, theirs, another = told(lambda ask, at=path, with_=false: asks(ask, at, with_))
            assert forged == [200] * 4 + [429] * 6, (path, false, "half a minute's is saved up")
            assert (theirs, another) == ({200}, 200), (path, false)


def test_a_refusal_says_when_to_come_again(committed_db: Database) -> None:
    async def asks(ask: Ask) -> list[Any]:
        return [await ask(path) for path in [PAGE] * 5 + [SCHEMA]]

    *_, page, api = told(asks)
    for status, headers in (page, api):
        assert status == 429
        assert 1 <= int(headers["retry-after"]) <= 60
    assert api[1]["content-type"] == "application/problem+json"


def test_a_sign_in_is_of_the_allowance_whoever_sends_it(committed_db: Database) -> None:
    """Else a session would let somebody guess passwords, and hash them, without end."""
    cookie, token = signed_in()

    async def asks(ask: Ask) -> list[int]:
        return [(await ask(SIGN_IN, method="POST", **known))[0] for known in [cookie, token] * 5]

    assert told(asks) == [200] * 4 + [429] * 6


def test_a_session_that_ended_is_a_strangers(committed_db: Database) -> None:
    person, browser = make_user("Auditor"), Client()
    browser.force_login(person)
    cookie = {"cookie": f"sessionid={browser.cookies['sessionid'].value}"}
    sessions_drop(user=person)

    async def asks(ask: Ask) -> list[int]:
        return [(await ask(PAGE, **cookie))[0] for _ in range(5)]

    assert told(asks) == [200] * 4 + [429]


def test_health_is_told_however_often_and_looked_at_once_in_a_while(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge, "_HEALTH_S", 3600.0)
    site = Site()

    async def run() -> set[int]:
        ask = asker(Edge(site))
        found = await asyncio.gather(*(ask("/health/", accept="*/*") for _ in range(200)))
        return {status for status, _ in found}

    assert asyncio.run(run()) == {200}
    assert site.came["/health/"] == 1


def test_passwords_are_hashed_one_at_a_time(committed_db: Database, settings: Any) -> None:
    settings.STRANGERS_SIGN_INS = 1000
    site = Site()

    async def run() -> list[int]:
        ask = asker(Edge(site))
        found = await asyncio.gather(*(ask(SIGN_IN, method="POST") for _ in range(10)))
        return [status for status, _ in found]

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE_S)) == [200] * 10
    assert site.most == 1


@pytest.mark.parametrize("slow", ["its body does not come", "it does not take the answer"])
def test_who_sends_or_reads_slowly_holds_no_slot(committed_db: Database, slow: str) -> None:
    site = Site()

    async def run() -> tuple[int, bool]:
        edge = Edge(site)
        held, never = asyncio.Event(), asyncio.Event()

        async def receive() -> Any:
            if slow.startswith("its body"):
                held.set()
                await never.wait()
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(_message: Any) -> None:
            held.set()
            await never.wait()

        scope = {
            "type": "http",
            "method": "POST",
            "path": PAGE,
            "query_string": b"",
            "client": ("192.0.2.66", 4711),
            "headers": [],
        }
        first = asyncio.ensure_future(edge(scope, receive, send))
        await held.wait()
        (status, _), waits = await asker(edge)(PAGE), not first.done()
        first.cancel()
        return status, waits

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE_S)) == (200, True)


def test_strangers_take_turns_and_people_do_not_wait_for_them(committed_db: Database, settings: Any) -> None:
    settings.STRANGERS_PAGES = 1000
    cookie, token = signed_in()
    site = Site()

    async def run() -> list[int]:
        ask = asker(Edge(site))
        site.goes_on.clear()
        strangers = [asyncio.create_task(ask(PAGE)) for _ in range(10)]
        await site.has(1)
        assert site.most == 1, "one at a time"
        theirs = [asyncio.create_task(ask(PAGE, **known)) for known in (cookie, token)]
        await site.has(3)
        site.goes_on.set()
        return [status for status, _ in await asyncio.gather(*strangers, *theirs)]

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE_S)) == [200] * 12
    assert site.most == 3


def test_so_many_strangers_wait_and_further_ones_are_told_at_once(
    committed_db: Database, settings: Any
) -> None:
    settings.STRANGERS_PAGES = 1000
    site = Site()

    async def run() -> Counter[int]:
        ask = asker(Edge(site))
        site.goes_on.clear()
        strangers = [asyncio.create_task(ask(PAGE)) for _ in range(100)]
        for one in asyncio.as_completed(strangers):
            assert (await one)[0] == 503
            break
        site.goes_on.set()
        return Counter(status for status, _ in await asyncio.gather(*strangers))

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE_S)) == {200: 21, 503: 79}  # one has the slot


def test_bodies_are_bounded(committed_db: Database, settings: Any) -> None:
    cookie, _ = signed_in()
    most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE

    async def asks(ask: Ask) -> list[Any]:
        return [
            await ask(PAGE, method="POST", body=b"x" * 2**16),
            await ask(PAGE, method="POST", body=b"x" * (2**16 + 1)),
            await ask(PAGE, method="POST", **{"content-length": "10000000000"}),
            await ask(PAGE, method="POST", body=b"x" * most, **cookie),
            await ask(PAGE, method="POST", body=b"x" * (most + 1), **cookie),
        ]

    answers = told(asks)
    assert [status for status, _ in answers] == [200, 413, 413, 200, 413]
    assert answers[1][1]["connection"] == "close"


@pytest.mark.parametrize("method", ["post", "Post", "pOST", "get", "delete"])
def test_a_method_in_small_letters_passes_nowhere(committed_db: Database, method: str) -> None:
    """Django takes it for the one in capitals, whose allowance it would go around."""

    async def run() -> set[int]:
        ask, paths = (
            asker(KnownMethods(WebhookEdge(Edge(Site())))),
            (SIGN_IN, PAGE, STATIC, "/api/deals/", "/webhooks/adcp/nobody/"),
        )
        return {(await ask(path, method=method))[0] for path in paths}

    assert asyncio.run(run()) == {501}


def test_what_a_stranger_sends_is_not_in_what_others_are_told_of_health(
    committed_db: Database, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    settings.SECURE_SSL_REDIRECT = True
    strange = ({"host": "evil.example"}, {"x-forwarded-proto": "http"}, {"cookie": "messages=x"}, {})

    async def run() -> list[int]:
        ask = asker(KnownMethods(Edge(ASGIHandler())))
        return [(await ask("/health/", **headers))[0] for headers in strange]

    assert asyncio.run(run()) == [200] * len(strange)
