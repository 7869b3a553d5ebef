"""Who is judged, and where: strangers who are refused take nothing from sellers, nor do sellers that are slow
to publish their keys."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from tasks_app.allowances import Allowance
from tasks_app.sellers.models import Seller
from tasks_app.webhooks import edge, rates, refusals, senders
from tasks_app.webhooks.answer import Answer, Incoming
from tasks_app.webhooks.rates import judge_admit, source_admit, source_proven
from tests.adcp.raw_server import RawServer, serve
from tests.factories import make_seller
from tests.support import PATIENCE_S, forget_sellers, until
from tests.webhooks.conftest import Endpoint, serving
from tests.webhooks.signing import jwks, payload, post, publishing, rfc

pytestmark = pytest.mark.deep

STRANGER, ANOTHER, SENDER = "192.0.2.66", "192.0.2.67", "192.0.2.9"
_BURST = int(rates.JUDGED_EACH.most)


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that just started; its allowance grows no more."""
    forget_sellers()
    still = Allowance(each=rates.JUDGED_EACH, in_all=rates.JUDGED_IN_ALL, time=lambda: 0.0)
    monkeypatch.setattr(rates, "_judgements", still)
    monkeypatch.setattr(rates, "SOURCE_WINDOW", timedelta(days=10_000))


def refuse(source: str, count: int) -> None:
    for _ in range(count):
        source_admit(source)


def admitted(source: str, asked: int) -> int:
    return sum(judge_admit(source) is None for _ in range(asked))


# --- the rule -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("moment")
def test_who_was_refused_is_judged_so_often_and_others_always() -> None:
    refuse(STRANGER, rates._FEW - 1)
    assert admitted(STRANGER, 100) == 100, "a seller may be wrong now and then"
    refuse(STRANGER, 1)
    assert admitted(STRANGER, 100) == _BURST
    assert admitted(SENDER, 100) == 100


@pytest.mark.usefixtures("moment")
def test_an_address_of_a_sellers_is_always_judged() -> None:
    """So that nobody can shut a seller out who comes by the same proxy."""
    source_proven(SENDER)
    refuse(SENDER, 1000)
    assert admitted(SENDER, 1000) == 1000
    assert admitted(STRANGER, 1000) == 1000, "what a seller is refused counts against no other"


@pytest.mark.usefixtures("moment")
def test_while_many_are_refused_new_addresses_have_an_allowance_together() -> None:
    for number in range(rates._MANY):
        refuse(f"2001:db8:0:{number:x}::1", 1)
    crowd = sum(admitted(f"2001:db8:1:{number:x}::1", 30) for number in range(300))
    assert crowd <= rates.JUDGED_IN_ALL.most
    source_proven(SENDER)
    assert admitted(SENDER, 100) == 100


@pytest.mark.usefixtures("moment")
def test_a_quiet_sender_is_judged_in_the_midst_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    ticking = Allowance(each=rates.JUDGED_EACH, in_all=rates.JUDGED_IN_ALL, time=lambda: now)
    monkeypatch.setattr(rates, "_judgements", ticking)
    strangers = [f"192.0.2.{number}" for number in range(100)]
    judged = 0
    for second in range(60):
        now = float(second)
        for source in strangers * 2:
            judged += judge_admit(source) is None
            refuse(source, 1)
    free = rates._MANY + rates.JUDGED_IN_ALL.most
    assert judged <= free + 60 * rates.JUDGED_IN_ALL.per_s, "of 12,000"
    assert judge_admit("198.51.100.7") is None


# --- the edge -------------------------------------------------------------------------------------


def ask(at: edge.WebhookEdge, source: str, slug: str = "nobody", body: bytes | None = b"{}") -> int:
    """The status of one delivery; `body` None: it must not be read."""
    told: list[Any] = []

    async def receive() -> Any:
        assert body is not None, "it was read"
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        told.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "scheme": "http",
        "path": f"/webhooks/adcp/{slug}/",
        "headers": [(b"content-type", b"application/json")],
        "client": (source, 4711),
    }
    asyncio.run(at(scope, receive, send))
    return int(told[0]["status"])


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Takes what comes from SENDER, refuses the rest; the names of the threads that judged."""
    threads: list[str] = []

    def judged(incoming: Incoming) -> Answer:
        threads.append(threading.current_thread().name)
        if incoming.source == SENDER:
            return Answer(status=200, word="applied")
        source_admit(incoming.source)
        return Answer(status=401, word="no")

    monkeypatch.setattr(edge, "delivery_receive", judged)
    return threads


@pytest.mark.usefixtures("moment")
def test_what_is_beyond_the_allowance_is_turned_away_unread_and_counted(
    judges: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[Seller | None] = []
    monkeypatch.setattr(refusals.unwritten, "count", counted.append)
    seller = Seller(name="Norrland", slug="norrland")
    monkeypatch.setitem(senders._known, "norrland", (0.0, seller))
    at = edge.WebhookEdge(ask)  # type: ignore[arg-type]
    judged = rates._FEW + _BURST
    assert [ask(at, STRANGER) for _ in range(judged)] == [401] * judged
    assert [ask(at, STRANGER, "norrland", body=None) for _ in range(5)] == [429] * 5
    assert ask(at, STRANGER, "nobody", body=None) == 429
    assert counted == [seller] * 5 + [None]
    assert len(judges) == judged
    assert ask(at, SENDER) == 200
    refuse(SENDER, 1000)
    assert ask(at, SENDER) == 200, "it was proven a moment ago"


@pytest.mark.usefixtures("moment")
def test_who_was_refused_holds_no_thread_of_sellers(judges: list[str]) -> None:
    at = edge.WebhookEdge(ask)  # type: ignore[arg-type]
    for source in [STRANGER] * (rates._FEW + 2) + [SENDER]:
        ask(at, source)
    lanes = [name.rpartition("_")[0] for name in judges]
    assert lanes == ["webhook"] * rates._FEW + ["webhook-aside"] * 2 + ["webhook"]


# --- keys -----------------------------------------------------------------------------------------


@pytest.fixture
def held() -> Iterator[tuple[RawServer, threading.Event]]:
    """Where a seller publishes its keys once the event is set."""
    goes_on = threading.Event()

    def script(_server: RawServer) -> Any:
        def answer(request: Any, connection: Any) -> None:
            goes_on.wait(PATIENCE_S)
            publishing(jwks("k1"))(request, connection)

        return answer

    with serve(script) as server:
        try:
            yield server, goes_on
        finally:
            goes_on.set()


@pytest.mark.parametrize("key_id", ["k1", "of-nobody"])
def test_who_waits_for_a_sellers_keys_holds_no_thread_of_others(
    receiver: Endpoint,
    norrland: Seller,
    held: tuple[RawServer, threading.Event],
    key_id: str,
    tmp_path: Path,
) -> None:
    server, goes_on = held
    slow = make_seller(f"Slow {key_id}", webhook_mode="rfc9421", jwks_url=f"{server.url}/jwks.json")
    with (
        serving(tmp_path / "web.log", FLIGHTDECK_WEBHOOK_THREADS="1") as web,
        ThreadPoolExecutor(12) as pool,
    ):

        def send(number: int) -> requests.Response:
            body = payload(task_id=f"t-{number}")
            return post(web.of(slow), body, rfc(web.of(slow), body, key_id=key_id))

        waiting = [pool.submit(send, number) for number in range(12)]
        until(lambda: server.requests, "its keys are asked for")
        honest = web.send(norrland, payload(task_id="t-honest"))
        assert honest.status_code == 200
        until(lambda: sum(one.done() for one in waiting) >= 11, "who waits is told to come again")
        goes_on.set()
        told = Counter(one.result().status_code for one in waiting)
    assert told == {503: 11, 200 if key_id == "k1" else 401: 1}
