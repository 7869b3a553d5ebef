"""Our secrets, repeated by a seller through any channel, stand in no row of any table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from psycopg import sql

from tasks_app import clock
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.webhooks import rates, senders
from tests.adcp.raw_server import serve
from tests.factories import make_seller
from tests.operations.making import BOUGHT, fresh, stand
from tests.operations.sweeping import answering, sweep
from tests.webhooks.signing import payload
from tests.webhooks.taking import take

pytestmark = pytest.mark.django_db(transaction=False)
SECRET, BEFORE, TOKEN = (
    "present-secret-0123456789-0123456789",
    "the-one-before-0123456789-012345",
    "seller-tok",
)


@pytest.fixture(autouse=True)
def _fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    monkeypatch.setattr(rates, "_shares", {})
    monkeypatch.setattr(senders, "_known", {})


def hooked(url: str = "http://127.0.0.1:9/mcp") -> Seller:
    return make_seller(
        "Repeats",
        url=url,
        token=TOKEN,
        webhook_mode="hmac",
        webhook_secret=SECRET,
        webhook_secret_previous=BEFORE,
        webhook_secret_previous_until=clock.now() + timedelta(hours=1),
    )


def repeating(operation: Operation) -> dict[str, Any]:
    """All our secrets, as values, inside texts, as names, and in JSON that stands as text."""
    secrets = [operation.webhook_token, SECRET, BEFORE, TOKEN]
    told = " ".join(map(str, secrets))
    return {
        "message": told,
        "result": {
            **BOUGHT,
            "echo": [{str(secret): secret} for secret in secrets],
            "raw": f'{{"x": "{told}"}}',
        },
        "context": {"note": told},
        "ext": {"push_notification_config": {"token": secrets[0], "authentication": {"credentials": BEFORE}}},
    }


def rows() -> Iterator[str]:
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(sql.SQL("select t::text from {} t").format(sql.Identifier(table)))
            yield from (row[0] for row in cursor.fetchall())


def clear_in_rows(operation: Operation) -> list[str]:
    secrets = [str(operation.webhook_token), SECRET, BEFORE, TOKEN]
    return [secret for secret in secrets for row in rows() if secret in row]


def test_by_webhook() -> None:
    operation = stand(S.SUBMITTED, seller=hooked())
    body = payload(task_id="task-1", operation_id=str(operation.pk), **repeating(operation))

    assert take(operation.seller, body).word in ("applied", "received")
    sweep()
    assert fresh(operation).status == S.COMPLETED
    assert clear_in_rows(operation) == []


def test_by_poll() -> None:
    told: dict[str, Any] = {}
    with serve(answering(lambda _request: told)) as server:
        operation = stand(S.SUBMITTED, seller=hooked(f"{server.url}/mcp"), next_poll_at=clock.now())
        told |= {
            "task_id": "task-1",
            "task_type": "create_media_buy",
            "status": "completed",
            **repeating(operation),
        }
        assert sweep().polled == 1

    assert fresh(operation).status == S.COMPLETED
    assert clear_in_rows(operation) == []


def test_by_the_reply_to_the_call() -> None:
    told: dict[str, Any] = {}
    with serve(answering(lambda _request: told)) as server:
        operation = stand(S.REQUESTED, seller=hooked(f"{server.url}/mcp"))
        told |= {**repeating(operation), **BOUGHT, "status": "completed"}
        assert sweep().sent == 1

    assert fresh(operation).status == S.COMPLETED
    assert clear_in_rows(operation) == []


def test_in_a_webhook_that_is_early_our_secrets_are_hidden_and_its_token_once_it_is_known() -> None:
    seller = hooked()
    operation = stand(S.CALLING_ADCP, seller=seller)
    body = payload(task_id="task-early", **repeating(operation))
    del body["ext"], body["context"]

    assert take(seller, body).word == "early"
    assert set(clear_in_rows(operation)) <= {operation.webhook_token}, "nobody can know yet that it is ours"
    Operation.objects.filter(pk=operation.pk).update(task_id="task-early", status=operation.status)
    sweep()
    assert clear_in_rows(operation) == []
