"""POST /webhooks/adcp/<seller>/ as sellers, and others, meet it."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
import requests

from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.models import WebhookDelivery
from tests.adcp.raw_server import RawServer, serve
from tests.factories import make_seller
from tests.operations.making import fresh, stand
from tests.support import PATIENCE_S, joined, until
from tests.webhooks.conftest import SECRET, Endpoint
from tests.webhooks.signing import as_bytes, hmac, jwks, payload, post, publishing, rfc
from tests.webhooks.taking import refused_as


def of(seller: Seller, **columns: Any) -> tuple[Operation, dict[str, Any]]:
    """A purchase that was submitted to the seller, and the webhook that completes it."""
    task = f"task-{uuid.uuid4()}"
    operation = stand(S.SUBMITTED, seller=seller, task_id=task, **columns)
    return operation, payload(task_id=task, operation_id=str(operation.pk), token=operation.webhook_token)


def refused(answer: requests.Response, seller: Seller, status: int, code: str) -> None:
    """The answer says so, it is on record, and nothing but the record was written."""
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    delivery = refused_as(seller, code)
    assert delivery.body is None
    if status == 401:
        assert answer.headers["WWW-Authenticate"] == f'Signature error="{code}"'


# --- who sent it ----------------------------------------------------------------------------------


def test_hmac_good(receiver: Endpoint, norrland: Seller) -> None:
    operation, body = of(norrland)

    answer = receiver.send(norrland, body)

    assert (answer.status_code, answer.json()) == (200, {"status": "applied"})
    operation = fresh(operation)
    assert (operation.status, operation.settled_by, operation.result) == (
        S.COMPLETED,
        "webhook",
        body["result"],
    )
    assert operation.published_at is not None
    assert WebhookDelivery.objects.get(key=body["idempotency_key"]).verdict == "applied"


@pytest.mark.parametrize(
    ("signed", "code"),
    [
        (lambda body: hmac(body, SECRET[::-1]), "webhook_signature_invalid"),
        (lambda body: hmac(body + b" ", SECRET), "webhook_signature_invalid"),
        (lambda body: hmac(body, SECRET, at=time.time() - 3600), "webhook_signature_window_invalid"),
        (lambda body: hmac(body, SECRET, at=time.time() + 3600), "webhook_signature_window_invalid"),
        (lambda body: {}, "webhook_signature_header_malformed"),
        (lambda body: {"X-AdCP-Signature": "sha256=nonsense", "X-AdCP-Timestamp": "1"},
         "webhook_signature_header_malformed"),
        (lambda body: rfc("http://127.0.0.1:1/", body), "webhook_mode_mismatch"),
    ],
)  # fmt: skip
def test_hmac_bad(receiver: Endpoint, norrland: Seller, signed: Any, code: str) -> None:
    operation, body = of(norrland)

    refused(post(receiver.of(norrland), body, signed(as_bytes(body))), norrland, 401, code)
    assert fresh(operation).status == S.SUBMITTED
    assert not operation.observations.exists()


def test_unsigned_is_logged(receiver: Endpoint, norrland: Seller) -> None:
    post(receiver.of(norrland), payload(), {})

    until(lambda: "webhook_refused" in receiver.log.read_text())
    assert norrland.slug in receiver.log.read_text()


def test_rfc9421_good(receiver: Endpoint, vasa: Seller) -> None:
    operation, body = of(vasa)

    answer = post(receiver.of(vasa), body, rfc(receiver.of(vasa), body))

    assert (answer.status_code, answer.json()) == (200, {"status": "applied"})
    assert fresh(operation).status == S.COMPLETED
    assert WebhookDelivery.objects.get(key=body["idempotency_key"]).key_id == "k1"


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"tag": "adcp/request-signing/v1"}, "webhook_signature_tag_invalid"),
        ({"alg": "hmac-sha256"}, "webhook_signature_alg_not_allowed"),
        (
            lambda now: {"created": now - 900, "expires": now - 600},
            "webhook_signature_window_invalid",
        ),
        (lambda now: {"expires": now + 3600}, "webhook_signature_window_invalid"),
        ({"key_id": "k2"}, "webhook_signature_key_unknown"),
        ({"nonce": "c2hvcnQ"}, "webhook_signature_params_incomplete"),
    ],
)
def test_rfc9421_bad(
    receiver: Endpoint,
    vasa: Seller,
    params: dict[str, Any] | Callable[[int], dict[str, int]],
    code: str,
) -> None:
    operation, body = of(vasa)
    told = params(int(time.time())) if callable(params) else params

    refused(post(receiver.of(vasa), body, rfc(receiver.of(vasa), body, **told)), vasa, 401, code)
    assert fresh(operation).status == S.SUBMITTED


def test_rfc9421_another_body_another_address_another_way(receiver: Endpoint, vasa: Seller) -> None:
    operation, body = of(vasa)
    url = receiver.of(vasa)

    refused(
        post(url, {**body, "status": "failed"}, rfc(url, body)),
        vasa,
        401,
        "webhook_signature_digest_mismatch",
    )
    refused(post(url, body, rfc(receiver.of("other"), body)), vasa, 401, "webhook_signature_invalid")
    refused(post(url, body, hmac(body, SECRET)), vasa, 401, "webhook_mode_mismatch")
    refused(post(url, body, {}), vasa, 401, "webhook_signature_header_malformed")
    assert fresh(operation).status == S.SUBMITTED


def test_a_replayed_signature_is_refused_and_a_new_one_over_the_same_is_a_duplicate(
    receiver: Endpoint, vasa: Seller
) -> None:
    _, body = of(vasa)
    url = receiver.of(vasa)
    headers = rfc(url, body)

    assert post(url, body, headers).status_code == 200
    refused(post(url, body, headers), vasa, 401, "webhook_signature_replayed")
    assert post(url, body, rfc(url, body)).json() == {"status": "duplicate"}


@pytest.mark.parametrize("length", [120, 124, 240])
def test_a_nonce_longer_than_its_column_is_remembered_too(
    receiver: Endpoint, vasa: Seller, length: int
) -> None:
    _, body = of(vasa)
    url = receiver.of(vasa)
    headers = rfc(url, body, nonce="A" * length)

    assert post(url, body, headers).status_code == 200
    refused(post(url, body, headers), vasa, 401, "webhook_signature_replayed")


def test_deliveries_that_come_at_once_have_the_key_fetched_once(receiver: Endpoint) -> None:
    fetched: list[str] = []
    both_sent = threading.Event()

    def publish(request: Any, connection: Any) -> None:
        if request.path == "/jwks.json":
            fetched.append(request.path)
            both_sent.wait(0.5)
        publishing(jwks("k1"))(request, connection)

    with serve(lambda _server: publish) as server:
        seller = make_seller("Birger", webhook_mode="rfc9421", jwks_url=f"{server.url}/jwks.json")
        bodies, answers = [of(seller)[1] for _ in range(4)], []
        url = receiver.of(seller)
        threads = [
            threading.Thread(
                target=lambda body=body: answers.append(post(url, body, rfc(url, body)).status_code)
            )
            for body in bodies
        ]
        for thread in threads:
            thread.start()
        joined(*threads)

        assert [post(url, body, rfc(url, body)).status_code for body in bodies] == [200] * 4, (
            "they come again"
        )

    assert set(answers) <= {200, 503}
    assert 200 in answers
    assert len(fetched) == 1


def test_a_seller_whose_keys_cannot_be_had_is_refused(receiver: Endpoint, keys: RawServer) -> None:
    seller = make_seller("Keyless", webhook_mode="rfc9421", jwks_url="http://127.0.0.1:9/jwks.json")
    _, body = of(seller)

    answer = post(receiver.of(seller), body, rfc(receiver.of(seller), body))
    refused(answer, seller, 401, "webhook_signature_key_unknown")


def test_a_seller_without_webhooks_and_one_that_is_not_ours(receiver: Endpoint) -> None:
    silent = make_seller("Silent")

    refused(
        post(receiver.of(silent), payload(), hmac(payload(), SECRET)), silent, 401, "webhook_mode_mismatch"
    )
    assert post(receiver.of("nobody"), payload(), hmac(payload(), SECRET)).status_code == 404
    assert refused_as(None, "webhook_unknown_seller").body is None
    assert requests.get(receiver.of(silent), timeout=PATIENCE_S).status_code == 405


def test_a_token_that_is_not_the_operations(receiver: Endpoint, norrland: Seller) -> None:
    operation, body = of(norrland)

    refused(receiver.send(norrland, {**body, "token": "x" * 24}), norrland, 401, "webhook_token_mismatch")
    assert fresh(operation).status == S.SUBMITTED
    assert receiver.send(norrland, body).status_code == 200, "the key was not bound by the forged one"


def test_a_seller_cannot_tell_of_another_sellers_operation(receiver: Endpoint, norrland: Seller) -> None:
    other = make_seller("Other", slug="another-seller")
    operation, body = of(other)

    answer = receiver.send(norrland, {**body, "token": None})

    assert answer.json() == {"status": "early"}
    assert fresh(operation).status == S.SUBMITTED


# --- what it says ---------------------------------------------------------------------------------


def test_the_same_delivery_twice_is_one(receiver: Endpoint, norrland: Seller) -> None:
    operation, body = of(norrland)

    first = receiver.send(norrland, body)
    settled = fresh(operation)
    reordered = dict(reversed(body.items()))
    again = [receiver.send(norrland, body), receiver.send(norrland, json.dumps(reordered, indent=2).encode())]

    assert first.json() == {"status": "applied"}
    assert [(a.status_code, a.json()) for a in again] == [(200, {"status": "duplicate"})] * 2
    assert operation.observations.count() == 1
    assert vars(fresh(operation))["published_at"] == settled.published_at


def test_the_same_delivery_many_times_at_once_is_one(receiver: Endpoint, norrland: Seller) -> None:
    operation, body = of(norrland)
    answers: list[requests.Response] = []

    def until_taken() -> None:
        """As a sender does: what is not taken because a twin is in progress is sent again."""
        while (answer := receiver.send(norrland, body)).status_code == 503:
            assert answer.headers["Retry-After"] == "1"
        answers.append(answer)

    threads = [threading.Thread(target=until_taken) for _ in range(6)]
    for thread in threads:
        thread.start()
    joined(*threads)

    assert [answer.status_code for answer in answers] == [200] * 6
    assert sorted(answer.json()["status"] for answer in answers) == ["applied", *["duplicate"] * 5]
    assert operation.observations.count() == 1


def test_the_same_end_under_another_key_is_acknowledged_without_effects(
    receiver: Endpoint, norrland: Seller
) -> None:
    operation, body = of(norrland)
    receiver.send(norrland, body)
    before = fresh(operation)

    assert receiver.send(norrland, {**body, "idempotency_key": "whk-another-0001"}).status_code == 200
    assert [o.outcome for o in operation.observations.order_by("id")] == ["applied", "duplicate"]
    assert fresh(operation).published_at == before.published_at


@pytest.mark.parametrize("first", ["completed", "submitted"])
def test_a_key_belongs_to_its_first_body(receiver: Endpoint, norrland: Seller, first: str) -> None:
    """Also where the first said nothing new."""
    operation, body = of(norrland)
    receiver.send(norrland, {**body, "status": first})
    before = fresh(operation)

    answer = receiver.send(norrland, {**body, "status": "failed", "result": None})

    assert (answer.status_code, answer.json()) == (409, {"error": "key_conflict"})
    assert (fresh(operation).status, fresh(operation).version) == (before.status, before.version)
    assert receiver.send(norrland, {**body, "status": first}).json() == {"status": "duplicate"}


def test_a_key_is_each_sellers_own(receiver: Endpoint, norrland: Seller) -> None:
    """Two sellers number their deliveries alike: neither's is judged by what the other said under it."""
    other = make_seller(f"Elsewhere {norrland.slug}", webhook_mode="hmac", webhook_secret=SECRET)
    sent = {}
    for seller in (norrland, other):
        _, body = of(seller)
        sent[seller] = {**body, "idempotency_key": "whk-1"}
        assert receiver.send(seller, sent[seller]).json() == {"status": "applied"}

    again = [receiver.send(seller, body) for seller, body in sent.items()]

    assert [(told.status_code, told.json()) for told in again] == [(200, {"status": "duplicate"})] * 2
    for seller, body in sent.items():
        assert receiver.send(seller, {**body, "message": "Another."}).status_code == 409


def test_another_end_is_a_conflict_and_kept(receiver: Endpoint, norrland: Seller) -> None:
    operation, body = of(norrland)
    receiver.send(norrland, body)
    other = {
        **body,
        "idempotency_key": "whk-another-0002",
        "result": {"media_buy_id": "mb-2", "packages": []},
    }

    answer = receiver.send(norrland, other)

    assert (answer.status_code, answer.json()) == (409, {"error": "conflict"})
    assert fresh(operation).result == body["result"]
    assert operation.observations.get(outcome="conflict").body["result"] == other["result"]
    assert WebhookDelivery.objects.get(key="whk-another-0002").verdict == "conflict"


def test_a_task_id_that_changes_and_a_task_type_that_is_another(receiver: Endpoint, norrland: Seller) -> None:
    operation, body = of(norrland)

    changed = receiver.send(norrland, {**body, "task_id": "task-of-nobody"})
    another = {**body, "task_type": "update_media_buy", "idempotency_key": "whk-another-0003"}

    assert changed.status_code == 409
    assert receiver.send(norrland, another).status_code == 409
    assert fresh(operation).status == S.SUBMITTED
    assert receiver.send(norrland, {**body, "idempotency_key": "whk-another-0004"}).status_code == 200


def test_an_unknown_task_is_kept_and_changes_nothing(receiver: Endpoint, norrland: Seller) -> None:
    operation, body = of(norrland)
    stranger = {**body, "task_id": "task-unknown", "operation_id": str(uuid.uuid4()), "token": "t" * 24}

    answer = receiver.send(norrland, stranger)

    assert (answer.status_code, answer.json()) == (200, {"status": "early"})
    kept = WebhookDelivery.objects.get(key=body["idempotency_key"])
    assert (kept.verdict, kept.task_id, kept.body["result"]) == ("early", "task-unknown", body["result"])
    assert kept.body["token"] == "[redacted]"
    assert (fresh(operation).status, fresh(operation).version) == (operation.status, operation.version)


def test_news_and_a_status_of_none(receiver: Endpoint, norrland: Seller) -> None:
    operation, body = of(norrland)
    progress = {**body, "status": "working", "result": {"percentage": 40}, "message": "Checking avails."}

    assert receiver.send(norrland, progress).status_code == 200
    assert (fresh(operation).status, fresh(operation).message) == (S.WORKING, "Checking avails.")
    unclear = {**body, "status": "unknown", "idempotency_key": "whk-another-0005"}
    assert receiver.send(norrland, unclear).status_code == 200
    assert fresh(operation).status == S.WORKING


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b'{"a":1,"a":2}', 400, "webhook_body_malformed: duplicate_key"),
        (b"[]", 400, "webhook_body_malformed: not_an_object"),
        (b'"x"', 400, "webhook_body_malformed: not_an_object"),
        (b"", 400, "webhook_body_malformed: not_json"),
        (b'{"a":NaN}', 400, "webhook_body_malformed: not_finite"),
        (b'{"a":"\xff"}', 400, "webhook_body_malformed: not_utf8"),
        (b"[" * 70 + b"]" * 70, 400, "webhook_body_malformed: too_deep"),
        (b"{}", 400, "webhook_body_malformed: missing_envelope_fields"),
        (
            lambda: as_bytes(payload(idempotency_key=None)),
            400,
            "webhook_body_malformed: missing_idempotency_key",
        ),
        (
            lambda: as_bytes(payload(idempotency_key="k" * 256)),
            400,
            "webhook_body_malformed: idempotency_key_too_long",
        ),
        (b" " * (2**20 + 1), 413, "webhook_body_too_large"),
    ],
)
def test_bodies_that_cannot_be_read(
    receiver: Endpoint, norrland: Seller, raw: bytes | Callable[[], bytes], status: int, code: str
) -> None:
    refused(receiver.send(norrland, raw() if callable(raw) else raw), norrland, status, code)


def test_another_content_type(receiver: Endpoint, norrland: Seller) -> None:
    body = payload()

    answer = post(receiver.of(norrland), body, hmac(body, SECRET), kind="text/plain")
    refused(answer, norrland, 415, "webhook_content_type")
    with_charset = post(
        receiver.of(norrland), body, hmac(body, SECRET), kind="application/json; charset=utf-8"
    )
    assert with_charset.status_code == 200


@pytest.mark.parametrize("task_id", ["t" * 400, "nul-\\u0000", "\\ud800"])
def test_a_strange_task_id_is_kept_and_breaks_nothing(
    receiver: Endpoint, norrland: Seller, task_id: str
) -> None:
    body = as_bytes(payload(task_id="TASK")).replace(b"TASK", task_id.encode())

    assert receiver.send(norrland, body).json() == {"status": "early"}
