"""The one way of proving that was registered, during a rotation too, and the alarm at another."""

from __future__ import annotations

import hashlib
import hmac as digests
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.cache import cache

from tasks_app import clock
from tasks_app.adcp.errors import UNCODED
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.notifications.models import Notification
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.people.models import User
from tasks_app.sellers.models import Seller
from tasks_app.sellers.services import SellerChange, seller_change
from tasks_app.webhooks.answer import Incoming
from tasks_app.webhooks.models import WebhookDelivery
from tasks_app.webhooks.receive import delivery_receive
from tasks_app.webhooks.senders import seller_of
from tasks_app.webhooks.unverified import unverified_tell
from tests.factories import make_seller, make_user
from tests.operations.making import answer, failed, fresh, see, stand
from tests.webhooks.signing import as_bytes, hmac, payload, rfc
from tests.webhooks.taking import ADDRESS, SECRET, take

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_process")]
OLD = "the-secret-before-0123456789-0123456789-abc"
OUT_OF_WINDOW = "webhook_signature_window_invalid"


def seller_with(mode: str, **fields: Any) -> Seller:
    secret = None if mode in ("rfc9421", "none") else SECRET
    return make_seller(f"Mode {mode}", webhook_mode=mode, webhook_secret=secret, **fields)


def submitted(seller: Seller) -> tuple[Operation, dict[str, Any]]:
    operation = stand(S.SUBMITTED, seller=seller, task_id="task-7")
    return operation, payload(task_id="task-7", operation_id=str(operation.pk), token=operation.webhook_token)


def bearer(secret: str = SECRET) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def event(at: datetime | None = None, **told: Any) -> dict[str, Any]:
    """The body of document 000."""
    return {
        "event_id": "evt-000-1",
        "timestamp": (at or datetime.now(UTC)).isoformat(),
        "task_id": "task-7",
        "current_status": "completed",
        "result": {"media_buy_id": "mb-1", "packages": []},
        **told,
    }


def over_body(body: dict[str, Any] | bytes, secret: str = SECRET) -> dict[str, str]:
    mac = digests.new(secret.encode(), as_bytes(body), hashlib.sha256).hexdigest()
    return {"x-adcp-signature": f"sha256={mac}"}


# --- bearer credentials ---------------------------------------------------------------------------


def test_a_bearer_seller_is_told_so_and_believed() -> None:
    seller = seller_with("bearer")
    operation, body = submitted(seller)

    sent = operation.request["push_notification_config"]["authentication"]
    assert sent["schemes"] == ["Bearer"]
    assert SECRET in operation.request_text
    assert take(seller, body, bearer()).word == "applied"
    assert fresh(operation).status == S.COMPLETED


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (bearer(SECRET[:-1] + "!"), "webhook_signature_invalid"),
        ({"Authorization": "Basic abc"}, "webhook_signature_header_malformed"),
        ({"Authorization": "Bearer "}, "webhook_signature_invalid"),
        ({}, "webhook_signature_header_malformed"),
        ({"X-AdCP-Signature": "sha256=0"}, "webhook_mode_mismatch"),
    ],
)
def test_other_credentials_are_refused(headers: dict[str, str], code: str) -> None:
    seller = seller_with("bearer")
    operation, body = submitted(seller)

    told = take(seller, body, headers)

    assert (told.status, told.word) == (401, code)
    assert told.headers["WWW-Authenticate"] == f'Signature error="{code}"'
    assert fresh(operation).status == S.SUBMITTED


# --- document 000 ---------------------------------------------------------------------------------


def test_an_event_of_document_000_is_taken_once() -> None:
    seller = seller_with("hmac_body")
    operation, _ = submitted(seller)
    body = event()

    assert take(seller, body, over_body(body)).word == "applied"
    assert take(seller, body, over_body(body)).word == "duplicate"
    assert (fresh(operation).status, fresh(operation).result) == (S.COMPLETED, body["result"])
    other = event(result={"media_buy_id": "mb-2", "packages": []})
    assert take(seller, other, over_body(other)).status == 409, "the same event_id, another body"


def test_a_failed_event_tells_why() -> None:
    seller = seller_with("hmac_body")
    operation, _ = submitted(seller)
    body = event(current_status="failed", error={"code": "BUDGET_TOO_LOW", "message": "Too low."})
    del body["result"]

    assert take(seller, body, over_body(body)).word == "applied"
    assert fresh(operation).status == S.FAILED
    assert fresh(operation).error["code"] == "BUDGET_TOO_LOW"


WORDS = "The publisher said no."
LONG = {"code": "TOO_LONG", "message": "x" * 5_000}


@pytest.mark.parametrize("status", ["failed", "rejected", "canceled"])
@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        ({"error": WORDS}, UNCODED, WORDS),
        ({"result": None, "error": {"code": "NO_ROOM", "message": WORDS}}, "NO_ROOM", WORDS),
        ({"result": None, "error": WORDS}, UNCODED, WORDS),
        ({"result": {}, "error": {"message": WORDS}}, UNCODED, WORDS),
        ({"result": {"note": 1}, "error": [WORDS, "more"]}, UNCODED, WORDS),
        ({"result": {"error": WORDS}}, UNCODED, WORDS),
        ({"result": WORDS}, UNCODED, WORDS),
        ({"errors": [{"code": "NO_ROOM", "reason": WORDS}]}, "NO_ROOM", WORDS),
        ({"error": {"why": [WORDS]}}, UNCODED, f'{{"why": ["{WORDS}"]}}'),
        ({"error": LONG}, "TOO_LONG", "x" * 2_000),
    ],
    ids=str,
)
def test_an_error_of_any_shape_tells_why_and_is_kept(
    said: dict[str, Any], code: str, words: str, status: str
) -> None:
    for mode in ("hmac_body", "hmac"):
        seller = seller_with(mode)
        operation = stand(S.SUBMITTED, seller=seller, task_id="task-7")
        if mode == "hmac_body":
            body = {**event(event_id=f"evt-{mode}", current_status=status), **said}
        else:
            body = {**payload(status, task_id="task-7"), **said}
        if "result" not in said:
            body.pop("result", None)
        sign = over_body(body) if mode == "hmac_body" else hmac(body, SECRET)

        assert take(seller, body, sign).word == "applied"

        operation = fresh(operation)
        assert operation.status == status
        assert (operation.error["code"], operation.error["message"]) == (code, words)
        assert operation.message == words
        delivery = WebhookDelivery.objects.get(operation=operation)
        assert {name: delivery.body[name] for name in said} == said
        assert {name: operation.observations.get().body[name] for name in said} == said
        assert operation.publish_at is None, "nothing more is waited for"


@pytest.mark.parametrize("first", ["webhook", "poll"])
def test_words_alone_and_the_code_of_a_poll_are_one_end(first: str) -> None:
    seller = seller_with("hmac_body")
    operation, _ = submitted(seller)
    body = {**event(current_status="failed", error=WORDS), "result": None}
    told = failed("PRODUCT_UNAVAILABLE", task_id="task-7")
    if first == "poll":
        see(operation, told, "poll")
    assert take(seller, body, over_body(body)).status == 200
    if first == "webhook":
        see(operation, told, "poll")
    assert fresh(operation).error["code"] == "PRODUCT_UNAVAILABLE"
    assert not Conflict.objects.exists()


def test_the_reason_in_words_stands_where_a_delivery_waited_for_its_task() -> None:
    seller = seller_with("hmac_body")
    operation = stand(S.CALLING_ADCP, seller=seller)
    body = {**event(current_status="failed", error=WORDS), "result": None}

    assert take(seller, body, over_body(body)).word == "early"
    see(operation, answer("submitted", task_id="task-7"))

    assert (fresh(operation).status, fresh(operation).message) == (S.FAILED, WORDS)
    assert WebhookDelivery.objects.get().body["error"] == WORDS


def test_an_event_waits_for_its_task_too() -> None:
    seller = seller_with("hmac_body")
    operation = stand(S.CALLING_ADCP, seller=seller)
    body = event(current_status="input_required", result=None, message="Which house?")

    assert take(seller, body, over_body(body)).word == "early"
    see(operation, answer("submitted", task_id="task-7"))
    assert fresh(operation).status == S.INPUT_REQUIRED


@pytest.mark.parametrize(
    ("made", "signed", "status", "code"),
    [
        (lambda: event(datetime.now(UTC) - timedelta(minutes=6)), None, 401, OUT_OF_WINDOW),
        (lambda: event(datetime.now(UTC) + timedelta(minutes=6)), None, 401, OUT_OF_WINDOW),
        (lambda: event(timestamp="yesterday"), None, 401, OUT_OF_WINDOW),
        (event, OLD, 401, "webhook_signature_invalid"),
        (lambda: b'{"event_id":1,"event_id":2}', None, 400, "webhook_body_malformed"),
        (lambda: event(event_id=None), None, 400, "webhook_body_malformed: missing_idempotency_key"),
    ],
    ids=["old", "ahead", "undated", "another secret", "a key twice", "nameless"],
)
def test_other_events_are_refused(
    made: Callable[[], dict[str, Any] | bytes], signed: str | None, status: int, code: str
) -> None:
    seller = seller_with("hmac_body")
    operation, _ = submitted(seller)
    body = made()  # dated when the test runs, not when it was collected

    told = take(seller, body, over_body(body, signed or SECRET))

    assert (told.status, told.word) == (status, code)
    assert fresh(operation).status == S.SUBMITTED


# --- rotation -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["hmac", "hmac_body", "bearer"])
def test_the_secret_before_is_accepted_while_it_lasts(mode: str) -> None:
    until = clock.now() + timedelta(hours=1)
    seller = seller_with(mode, webhook_secret_previous=OLD, webhook_secret_previous_until=until)
    sign = {"hmac": hmac, "hmac_body": over_body, "bearer": lambda _body, secret: bearer(secret)}[mode]
    for secret in (SECRET, OLD):
        body = event(event_id=secret[:9]) if mode == "hmac_body" else payload(task_id="task-9")
        assert take(seller, body, sign(body, secret)).status == 200

    Seller.objects.update(webhook_secret_previous_until=clock.now())
    body = event(event_id="evt-2") if mode == "hmac_body" else payload(task_id="task-9")
    assert take(seller, body, sign(body, OLD)).word == "webhook_signature_invalid"
    assert take(seller, body, sign(body, SECRET)).status == 200


def test_a_secret_that_was_rotated_just_now_refuses_nobody() -> None:
    """What a process remembers of the seller is a moment old."""
    seller = seller_with("hmac")
    assert take(seller, payload(task_id="task-9")).status == 200
    Seller.objects.filter(pk=seller.pk).update(webhook_secret=OLD)

    body = payload(task_id="task-9")
    assert seller_of(seller.slug)[0].webhook_secret == SECRET  # type: ignore[union-attr]
    headers = {"content-type": "application/json", **{k.lower(): v for k, v in hmac(body, OLD).items()}}
    incoming = Incoming(
        seller=seller.slug, url=ADDRESS, headers=headers, body=as_bytes(body), source="192.0.2.7"
    )
    assert delivery_receive(incoming).status == 200


# --- another way ----------------------------------------------------------------------------------


def proofs(body: dict[str, Any], url: str) -> Iterator[tuple[str, dict[str, str]]]:
    yield "rfc9421", rfc(url, body)
    yield "hmac", hmac(body, SECRET)
    yield "hmac_body", over_body(body)
    yield "bearer", bearer()


@pytest.mark.parametrize("mode", ["rfc9421", "hmac", "hmac_body", "bearer"])
def test_another_way_is_refused_and_raises_the_alarm_once_a_day(mode: str) -> None:
    seller = seller_with(mode, jwks_url="http://127.0.0.1:9/jwks.json")
    operation, body = submitted(seller)
    refused = 0
    for other, headers in proofs(body, ADDRESS.format(seller.slug)):
        # A bare X-AdCP-Signature without its timestamp is a broken HMAC of either kind.
        if other != mode and (mode, other) != ("hmac", "hmac_body"):
            told = take(seller, body, headers)
            assert (told.status, told.word) == (401, "webhook_mode_mismatch"), other
            refused += 1

    assert unverified_tell() == 1
    cache.clear()
    assert unverified_tell() == 0, "once a day"
    alarm = Notification.objects.get(kind="webhook_mode_mismatch")
    assert "registered for" in alarm.body
    assert (alarm.level, alarm.subject_id) == ("alarm", seller.pk)
    assert alarm.right == "tasks_app.steer_operation"
    assert SECRET not in alarm.body
    assert WebhookDelivery.objects.filter(reason__startswith="webhook_mode_mismatch").count() == refused
    assert fresh(operation).status == S.SUBMITTED


def test_a_seller_without_webhooks_raises_no_alarm() -> None:
    seller = seller_with("none")

    for _ in range(5):
        assert take(seller, payload(), hmac(payload(), SECRET)).word == "webhook_mode_mismatch"
    assert unverified_tell() == 0
    assert not Notification.objects.exists()


# --- our token ------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["wrong", "", "…", None])
def test_the_token_of_a_native_notification_stands_in_its_header(given: str | None) -> None:
    seller = seller_with("hmac")
    operation = stand(S.SUBMITTED, seller=seller, task_id="task-7")
    data = {"status": "completed", "task_id": "task-7", "media_buy_id": "mb-1", "packages": []}
    body = {
        "task": {
            "id": "a2a-1",
            "contextId": "c-1",
            "status": {"state": "completed"},
            "artifacts": [{"artifactId": "x", "parts": [{"data": data}]}],
        }
    }
    token = operation.webhook_token if given is None else given
    told = take(seller, body, {**hmac(body, SECRET), "X-A2A-Notification-Token": token or ""})

    if given is None:
        assert told.word == "applied"
        assert fresh(operation).status == S.COMPLETED
    else:
        assert (told.status, told.word) == (401, "webhook_token_mismatch")
        assert fresh(operation).status == S.SUBMITTED


def test_a_stored_token_of_another_secret_key_still_counts() -> None:
    seller = seller_with("hmac")
    operation, body = submitted(seller)
    Operation.objects.filter(pk=operation.pk).update(webhook_token="a-token-from-before-the-upgrade")

    assert take(seller, body).word == "webhook_token_mismatch"
    assert take(seller, {**body, "token": "a-token-from-before-the-upgrade"}).word == "applied"


# --- changed by people ----------------------------------------------------------------------------


def change(seller: Seller, user: User, **values: Any) -> None:
    names = ("name", "slots", "active", "jwks_url", "allow_private")
    kept = {name: getattr(seller, name) for name in names}
    seller_change(seller=seller, change=SellerChange(**{**kept, **values}), actor=user)


def test_ad_ops_alone_book_nothing_by_a_webhook_of_their_own() -> None:
    """They change how the seller proves itself and prove themselves as it: the purchase stands as before."""
    seller = seller_with("hmac")
    operation, body = submitted(seller)
    change(seller, make_user("Ad Ops"), webhook_mode="bearer", jwks_url="https://elsewhere.example/jwks.json")

    refused = take(seller, body, bearer())
    assert (refused.status, refused.word) == (401, "webhook_mode_mismatch")
    assert fresh(operation).status == S.SUBMITTED

    assert take(seller, body).word == "applied", "it keeps the keys it was sent under"
    assert fresh(operation).status == S.COMPLETED


def test_a_change_that_a_second_person_approved_holds_for_what_is_under_way() -> None:
    seller = seller_with("hmac")
    operation, body = submitted(seller)
    change(seller, make_user("Ad Ops"), webhook_mode="bearer")
    asked = Approval.objects.get(kind="seller_trust")
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve")

    assert take(seller, body).word == "webhook_mode_mismatch"
    assert take(seller, body, bearer()).word == "applied"
    assert fresh(operation).status == S.COMPLETED
