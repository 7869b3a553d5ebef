"""What is sent is frozen before anything leaves, is sent again byte for byte, and shows nobody a secret."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator

import pytest
from django.db import connection
from psycopg import sql

from tasks_app.operations.asking import operation_ensure
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.lease import CallLease
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.services import OperationRefusedError
from tasks_app.operations.tokens import HIDDEN
from tasks_app.sellers.models import Seller
from tests.adcp.raw_server import response, serve
from tests.factories import make_seller, make_team
from tests.operations.making import ask, fresh
from tests.operations.sweeping import answering, arguments, calls, sweep

pytestmark = pytest.mark.django_db
TOKEN, SECRET = "seller-bearer-token-1234567890", "our-webhook-secret-1234567890-abcdef"
DONE = {"status": "completed", "media_buy_id": "mb-1", "packages": []}


def hooked(url: str = "http://127.0.0.1:9/mcp", **fields: object) -> Seller:
    return make_seller(url=url, token=TOKEN, webhook_mode="hmac", webhook_secret=SECRET, **fields)


def test_the_second_call_sends_the_very_bytes_of_the_first() -> None:
    with serve(answering(response("<html>", status="502 Bad Gateway"), DONE)) as server:
        operation = ask(seller=hooked(f"{server.url}/mcp"))
        sweep()
        waiting = fresh(operation)
        Operation.objects.filter(pk=operation.pk).update(send_at=operation.created_at)
        sweep()

    first, second = calls(server)
    assert first.body == second.body
    assert waiting.status == S.CALLING_ADCP
    assert "502" in waiting.message
    assert (fresh(operation).status, fresh(operation).attempts) == (S.COMPLETED, 2)


def test_what_was_frozen_is_what_leaves_whatever_changes_meanwhile() -> None:
    with serve(answering(DONE)) as server:
        operation = ask(seller=hooked(f"{server.url}/mcp"))
        Seller.objects.update(webhook_secret="another-secret-1234567890-1234567890", adcp_version="3.9")
        sweep()

    sent = arguments(calls(server)[0])
    assert sent == json.loads(operation.request_text)
    assert uuid.UUID(sent["idempotency_key"]).version == 4
    assert sent["idempotency_key"] == operation.idempotency_key
    assert (sent["adcp_version"], sent["adcp_major_version"]) == ("3.2", 3)
    config = sent["push_notification_config"]
    assert config["operation_id"] == str(operation.pk)
    assert config["token"] == operation.webhook_token
    assert config["authentication"] == {"schemes": ["HMAC-SHA256"], "credentials": SECRET}
    assert sent["context"] == {"deal_id": "d-1", "operation_id": str(operation.pk)}


def test_a_signing_seller_is_given_no_credentials_and_a_read_no_webhook() -> None:
    seller = make_seller(webhook_mode="rfc9421")

    assert "authentication" not in ask(seller=seller).request["push_notification_config"]
    read = ask("get_products", seller=seller, arguments={"brief": "x"})
    assert "push_notification_config" not in read.request
    assert (read.idempotency_key, read.webhook_token) == (None, None)
    assert "push_notification_config" not in ask(seller=make_seller("Polled")).request


def test_one_purpose_is_one_operation() -> None:
    seller = make_seller()
    first = ask(seller=seller, purpose="deal:1:create_media_buy")
    second = ask(seller=seller, purpose="deal:1:create_media_buy", arguments={"po_number": "other"})

    assert first == second
    assert first.request_text == second.request_text
    assert Operation.objects.count() == 1


def test_what_is_held_leaves_only_when_released() -> None:
    operation = ask(held=True)

    assert claim_one(operation_id=operation.pk) is None
    assert sweep().sent == 0


@pytest.mark.parametrize(
    ("seller", "why"),
    [({"active": False}, "switched off"), ({"idempotency_ttl_s": None}, "declares no idempotency")],
)
def test_a_purchase_that_may_not_be_sent_is_refused(seller: dict[str, object], why: str) -> None:
    with pytest.raises(OperationRefusedError, match=why):
        ask(seller=make_seller(**seller))
    assert not Operation.objects.exists()


def test_arguments_that_are_no_json_make_no_operation() -> None:
    with pytest.raises(ValueError, match="JSON"):
        operation_ensure(
            purpose="x",
            task_type="create_media_buy",
            seller=make_seller(),
            arguments={"budget": float("nan")},
            actor="system",
            team=make_team(),
        )
    assert not Operation.objects.exists()


def test_no_secret_stands_anywhere_in_clear(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with serve(answering(response(f"{TOKEN} {SECRET}", status="500 Oops"), _echo)) as server:
        operation = ask(seller=hooked(f"{server.url}/mcp"))
        sweep()
        Operation.objects.filter(pk=operation.pk).update(send_at=operation.created_at)
        call = claim_one(operation_id=operation.pk)
        CallLease.objects.all().delete()
        sweep()

    operation = fresh(operation)
    assert operation.status == S.FAILED
    assert "[redacted]" in operation.message
    hidden = [operation.webhook_token, SECRET, TOKEN]
    assert all(secret in calls(server)[0].body.decode() for secret in hidden[:2]), "they were sent"
    shown = [
        *_rows(),
        caplog.text,
        repr(operation),
        repr(operation.seller),
        repr(call),
        str(vars(operation)["request"]),
    ]
    assert not [secret for secret in hidden for text in shown if secret in text]
    config = operation.request["push_notification_config"]
    assert (config["token"], config["authentication"]["credentials"]) == (HIDDEN, HIDDEN)


def test_the_search_for_secrets_would_find_one() -> None:
    operation = ask(arguments={"note": SECRET})

    assert [text for text in _rows() if SECRET in text]
    assert operation.pk


def _echo(request: object) -> dict[str, object]:
    """A seller that repeats all it was sent, in an error and beside it."""
    sent = arguments(request)  # type: ignore[arg-type]
    config = sent["push_notification_config"]
    told = f"{config['token']} and {config['authentication']['credentials']} and {TOKEN}"
    error = {"code": "INVALID_REQUEST", "message": told, "recovery": "terminal", "details": sent}
    return {"status": "failed", "errors": [error], "message": told, "echo": sent}


def _rows() -> Iterator[str]:
    """Every row of every table as text."""
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(sql.SQL("select t::text from {} t").format(sql.Identifier(table)))
            yield from (row[0] for row in cursor.fetchall())


def test_a_kept_observation_says_what_came() -> None:
    with serve(answering(response("<html>", status="502 Bad Gateway"))) as server:
        operation = ask(seller=hooked(f"{server.url}/mcp"))
        sweep()

    observation = operation.observations.get()
    assert (observation.kind, observation.outcome) == ("garbled", "indeterminate")
    assert observation.body["http_status"] == 502
