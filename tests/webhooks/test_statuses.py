"""What a sender is told when it is not simply taken or refused: twins, sizes, allowances, a database that is
away. And how much of a flood is kept."""

from __future__ import annotations

import asyncio
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests
from django.db import connection, transaction

from tasks_app import asgi, clock
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.webhooks import edge
from tasks_app.webhooks.bind import key_lock
from tasks_app.webhooks.models import SenderTally, WebhookDelivery
from tasks_app.webhooks.rates import refused_count
from tasks_app.webhooks.refusals import refusals_write
from tests.factories import make_seller
from tests.operations.making import fresh, stand
from tests.support import PATIENCE_S, until
from tests.webhooks.conftest import SECRET, Endpoint, serving
from tests.webhooks.signing import as_bytes, hmac, payload, post
from tests.webhooks.taking import refused_as


@pytest.fixture
def quiet(receiver: Endpoint) -> Endpoint:
    """What the tests before were counted for is forgotten, in the database."""
    SenderTally.objects.all().delete()
    return receiver


# --- twins ----------------------------------------------------------------------------------------


def test_a_twin_in_progress_is_told_to_come_again(receiver: Endpoint, norrland: Seller) -> None:
    operation = stand(S.SUBMITTED, seller=norrland, task_id="task-twin")
    body = payload(task_id="task-twin")
    twin = WebhookDelivery(seller=norrland, key=body["idempotency_key"])
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("select pg_advisory_xact_lock(%s)", [key_lock(twin)])
        told = receiver.send(norrland, body)
        assert (told.status_code, told.json()) == (503, {"error": "in_progress"})
        assert told.headers["Retry-After"] == "1"
        assert fresh(operation).status == S.SUBMITTED

    assert receiver.send(norrland, body).json() == {"status": "applied"}
    assert receiver.send(norrland, body).json() == {"status": "duplicate"}
    assert operation.observations.count() == 1


def test_a_twin_waits_for_no_operation_that_is_being_observed(receiver: Endpoint, norrland: Seller) -> None:
    """The first holds its key while it waits for the operation's row; the second is answered at once."""
    operation = stand(S.SUBMITTED, seller=norrland, task_id="task-row")
    body = payload(task_id="task-row")
    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        Operation.objects.select_for_update().get(pk=operation.pk)
        first = pool.submit(receiver.send, norrland, body)
        _until_waiting("transactionid", "tuple")
        assert receiver.send(norrland, body).status_code == 503
        transaction.set_rollback(True)
    assert first.result(PATIENCE_S).json() == {"status": "applied"}


def _until_waiting(*kinds: str) -> None:
    """Until some session waits for a row that this test holds."""
    with psycopg.connect(**_connection(), autocommit=True) as watching:
        waiting = "select 1 from pg_stat_activity where datname = current_database() and wait_event = any(%s)"
        until(lambda: watching.execute(waiting, [list(kinds)]).fetchone(), "somebody waits")


def _connection() -> dict[str, Any]:
    settings = connection.settings_dict
    return {
        "dbname": settings["NAME"],
        "user": settings["USER"],
        "password": settings["PASSWORD"],
        "host": settings["HOST"] or settings["OPTIONS"].get("host"),
        "port": settings["PORT"] or settings["OPTIONS"].get("port"),
    }


# --- sizes ----------------------------------------------------------------------------------------


def _raw(receiver: Endpoint, head: str) -> socket.socket:
    host, port = receiver.url.removeprefix("http://").split(":")
    sent = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
    sent.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n")
    return sent


def _answer_of(sent: socket.socket) -> tuple[int, str]:
    with sent, sent.makefile("rb") as file:
        status = int(file.readline().split()[1])
        while file.readline().strip():
            continue
        return status, json.loads(file.read())["error"]


@pytest.mark.parametrize("size", [2**20 + 1, 10**15])
def test_a_body_that_says_it_is_too_large_is_not_read(
    receiver: Endpoint, norrland: Seller, size: int
) -> None:
    sent = _raw(
        receiver,
        f"POST /webhooks/adcp/{norrland.slug}/ HTTP/1.1\nHost: x\nContent-Type: application/json\n"
        f"Content-Length: {size}",
    )
    assert _answer_of(sent) == (413, "webhook_body_too_large"), "answered before a byte of it was sent"
    logged = refused_as(norrland, "webhook_body_too_large")
    assert (logged.source, logged.fingerprint) == ("127.0.0.1", "")


def test_a_body_in_chunks_is_read_no_further_than_it_may_be(receiver: Endpoint, norrland: Seller) -> None:
    sent = _raw(
        receiver,
        f"POST /webhooks/adcp/{norrland.slug}/ HTTP/1.1\nHost: x\nContent-Type: application/json\n"
        "Transfer-Encoding: chunked",
    )
    chunk = b"10000\r\n" + b" " * 2**16 + b"\r\n"
    for _ in range(16):
        sent.sendall(chunk)
    sent.sendall(b"10000\r\n ")  # one byte beyond; nothing is on its way when the answer comes
    assert _answer_of(sent) == (413, "webhook_body_too_large")


def test_a_megabyte_in_chunks_is_taken(receiver: Endpoint, norrland: Seller) -> None:
    body = as_bytes(payload(task_id="task-large"))
    body += b" " * (2**20 - len(body))

    def chunks() -> Any:
        yield from (body[start : start + 50_000] for start in range(0, len(body), 50_000))

    headers = {"Content-Type": "application/json", **hmac(body, SECRET)}
    told = requests.post(receiver.of(norrland), data=chunks(), headers=headers, timeout=PATIENCE_S)
    assert told.json() == {"status": "early"}


def test_too_large_for_nobody_is_404(receiver: Endpoint) -> None:
    sent = _raw(receiver, f"POST /webhooks/adcp/nobody/ HTTP/1.1\nHost: x\nContent-Length: {2**21}")
    assert _answer_of(sent) == (404, "webhook_unknown_seller")


# --- allowances -----------------------------------------------------------------------------------


def _moment() -> datetime:
    """At which the clock of a web process stands: three seconds into whatever is counted for a minute."""
    return clock.now().replace(second=3, microsecond=0)


def test_a_sellers_allowance_is_shared_by_all_processes(
    quiet: Endpoint, norrland: Seller, tmp_path: Path
) -> None:
    cap, at = 12, _moment()
    caps = {"FLIGHTDECK_WEBHOOK_SELLER_CAP": str(cap)}
    with (
        serving(tmp_path / "one.log", stands_at=at, **caps) as one,
        serving(tmp_path / "two.log", stands_at=at, **caps) as two,
        ThreadPoolExecutor(6) as pool,
    ):

        def send(number: int) -> requests.Response:
            to, body = (one, two)[number % 2], payload(task_id=f"t-{number}", timestamp=at.isoformat())
            return to.send(norrland, body, at=at.timestamp())

        told = list(pool.map(send, range(2 * cap)))
    taken = [answer for answer in told if answer.status_code == 200]
    late = [answer for answer in told if answer.status_code == 429]
    assert (len(taken), len(late)) == (cap, cap)
    assert {answer.json()["error"] for answer in late} == {"webhook_rate_limited"}
    assert {answer.headers["Retry-After"] for answer in late} == {"7"}, "until ten seconds are over"
    assert WebhookDelivery.objects.filter(seller=norrland, verdict="early").count() == cap


def test_who_is_refused_too_often_is_told_so_and_the_seller_is_not_shut_out(
    quiet: Endpoint, norrland: Seller, tmp_path: Path
) -> None:
    caps, at = {"FLIGHTDECK_WEBHOOK_SOURCE_CAP": "5", "FLIGHTDECK_WEBHOOK_REFUSED_ROWS": "7"}, _moment()
    with serving(tmp_path / "web.log", stands_at=at, **caps) as web:
        wrong = hmac(payload(), "x" * 40, at=at.timestamp())
        forged = [post(web.of(norrland), payload(), wrong) for _ in range(12)]
        honest = web.send(norrland, payload(task_id="task-honest"), at=at.timestamp())

    assert [answer.status_code for answer in forged] == [401] * 5 + [429] * 7
    assert forged[-1].headers["Retry-After"] == "57", "until the minute is over"
    assert honest.json() == {"status": "early"}, "from the same address"
    assert WebhookDelivery.objects.filter(seller=norrland, verdict="refused").count() == 7
    assert refused_count(since=clock.now() - timedelta(hours=2)) >= 12, "all are counted"


# --- away -----------------------------------------------------------------------------------------


def test_a_database_that_was_restarted_is_noticed(
    receiver: Endpoint, norrland: Seller, tmp_path: Path
) -> None:
    with serving(tmp_path / "web.log") as web:
        assert web.send(norrland, payload(task_id="t-1")).status_code == 200
        with connection.cursor() as cursor:
            cursor.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
                " where pid <> pg_backend_pid() and datname = current_database() and usename = current_user"
            )
            assert all(ended for (ended,) in cursor.fetchall()), "each is gone, not only told to go"
        body = payload(task_id="t-2")
        told = [web.send(norrland, body) for _ in range(40)]

    assert {answer.status_code for answer in told} == {200}, "connections that died meanwhile are replaced"
    assert WebhookDelivery.objects.filter(seller=norrland, key=body["idempotency_key"]).count() == 1


def test_without_a_database_the_sender_is_told_to_come_again(
    receiver: Endpoint, norrland: Seller, tmp_path: Path
) -> None:
    nowhere = "postgres://flightdeck_app:x@127.0.0.1:9/nowhere"
    with serving(tmp_path / "web.log", DATABASE_URL=nowhere, FLIGHTDECK_WEBHOOK_THREADS="1") as web:
        told = web.send(norrland, payload())
    assert (told.status_code, told.json()) == (503, {"error": "unavailable"})
    assert told.headers["Retry-After"] == "2"


def test_a_sender_that_hangs_up_leaves_nothing(receiver: Endpoint, norrland: Seller) -> None:
    before = WebhookDelivery.objects.count()
    sent = _raw(
        receiver,
        f"POST /webhooks/adcp/{norrland.slug}/ HTTP/1.1\nHost: x\nContent-Type: application/json\n"
        "Content-Length: 100",
    )
    sent.sendall(b"{")
    sent.close()
    assert receiver.send(norrland, payload(task_id="t-3")).status_code == 200
    assert WebhookDelivery.objects.count() == before + 1


def test_other_paths_and_methods_are_djangos(receiver: Endpoint, norrland: Seller) -> None:
    address = receiver.of(norrland)

    assert requests.get(address, timeout=PATIENCE_S).status_code == 405
    assert requests.put(address, timeout=PATIENCE_S).status_code == 405
    assert requests.get(f"{receiver.url}/health/", timeout=PATIENCE_S).status_code == 200


def test_an_answer_names_no_secret_and_logs_only_the_beginning_of_keys(
    receiver: Endpoint, norrland: Seller
) -> None:
    body = payload(task_id="task-logged", idempotency_key="whk-a-key-that-is-long-enough")
    receiver.send(norrland, body)
    receiver.send(norrland, {**body, "message": "another body"})
    receiver.send(norrland, body)

    log = receiver.log.read_text()
    assert "whk-a-key-that" not in log
    assert SECRET not in log
    kept = WebhookDelivery.objects.filter(seller=norrland, verdict__in=["duplicate", "key_conflict"])
    assert {one.key for one in kept} == {"whk-a-ke"}
    assert {one.verdict for one in kept if one.body} == {"key_conflict"}, "what contradicts is kept whole"


def test_where_https_is_required_plain_http_goes_to_django(receiver: Endpoint, tmp_path: Path) -> None:
    seller = make_seller("Plain", webhook_mode="hmac", webhook_secret=SECRET)
    secure = {
        "FLIGHTDECK_PUBLIC_URL": "https://desk.example",
        "FLIGHTDECK_HOSTS": "127.0.0.1",
        "FLIGHTDECK_PROXIES": "127.0.0.1",  # whose word about https is believed
    }
    with serving(tmp_path / "web.log", **secure) as web:
        body = payload(task_id="t-plain")
        plain = requests.post(
            web.of(seller),
            data=as_bytes(body),
            headers={"Content-Type": "application/json", **hmac(body, SECRET)},
            allow_redirects=False,
            timeout=PATIENCE_S,
        )
        assert plain.status_code == 301
        forwarded = post(web.of(seller), body, {**hmac(body, SECRET), "X-Forwarded-Proto": "https"})
        assert forwarded.json() == {"status": "early"}


def test_a_body_that_does_not_come_to_its_end_is_not_waited_for(
    receiver: Endpoint, norrland: Seller, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []

    async def silence() -> Any:
        await asyncio.Event().wait()

    async def keep(message: Any) -> None:
        sent.append(message)

    monkeypatch.setattr(asgi, "BODY_WITHIN_S", 0.05)
    scope = {
        "type": "http",
        "method": "POST",
        "scheme": "http",
        "path": f"/webhooks/adcp/{norrland.slug}/",
        "headers": [(b"content-type", b"application/json")],
        "client": ("192.0.2.9", 4711),
    }
    asyncio.run(edge.WebhookEdge(keep)(scope, silence, keep))  # type: ignore[arg-type]

    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in sent[0]["headers"]
    refusals_write()
    assert refused_as(norrland, "webhook_body_incomplete").source == "192.0.2.9"
