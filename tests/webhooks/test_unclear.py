"""A status that is none of AdCP's: durable, acknowledged, never the end; the seller is asked about it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tasks_app import clock
from tasks_app.adcp.webhook_body import read_webhook
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tests.adcp.raw_server import serve
from tests.factories import make_seller
from tests.operations.making import BOUGHT, answer, fresh, see, stand
from tests.operations.sweeping import shop, sweep
from tests.webhooks.conftest import Endpoint
from tests.webhooks.signing import payload


@pytest.mark.parametrize("word", ["approved", "pending_manual", "requires_approval"])
def test_a_status_outside_the_enum_is_kept_and_the_seller_asked_what_it_means(
    receiver: Endpoint, norrland: Seller, word: str
) -> None:
    operation = stand(S.SUBMITTED, seller=norrland, task_id=f"task-{word}")
    body = payload(
        word, task_id=f"task-{word}", operation_id=str(operation.pk), token=operation.webhook_token
    )
    Operation.objects.filter(pk=operation.pk).update(next_poll_at=clock.now() + timedelta(hours=1))

    assert receiver.send(norrland, body).status_code == 200

    seen = operation.observations.get(channel="webhook")
    assert (seen.outcome, seen.status, seen.raw_status) == ("indeterminate", "unknown", word)
    left = fresh(operation)
    assert left.status == operation.status, "never failed, never settled"
    assert left.next_poll_at is not None
    assert left.next_poll_at <= clock.now(), "asked at once"


@pytest.mark.django_db
@pytest.mark.parametrize("status", ["completed", "active"])
def test_a_buys_word_in_a_webhook_is_asked_about_and_the_purchase_ends(status: str) -> None:
    """The task's record says it: with the task's own word, or once more with the buy's."""
    bought = {**BOUGHT, "media_buy_status": "active"}
    record = {"task_id": "task-buy", "task_type": "create_media_buy", "status": status, "result": bought}
    with serve(shop(get_task_status=record, **{"tasks/get": record})) as server:
        seller = make_seller(f"Says {status}", url=f"{server.url}/mcp", webhook_mode="none")
        operation = stand(S.SUBMITTED, seller=seller, task_id="task-buy")
        body = payload("active", task_id="task-buy", result=dict(BOUGHT), token=operation.webhook_token)
        seen = read_webhook(body, task_type="create_media_buy", any_status=True)[1]
        observation = see(operation, seen, "webhook")
        assert (observation.outcome, observation.raw_status) == ("indeterminate", "active")
        sweep()

    ended = fresh(operation)
    assert (ended.status, ended.settled_by, ended.result) == (S.COMPLETED, "poll", bought)


@pytest.mark.django_db
def test_a_webhook_of_the_buy_contradicts_no_end() -> None:
    """Some push every status that the buy takes under the task that bought it."""
    operation = stand(S.SUBMITTED, task_id="task-buy")
    see(operation, answer("completed", task_id="task-buy", payload=dict(BOUGHT)), "poll")
    for word in ("pending_start", "active", "paused"):
        body = payload(word, task_id="task-buy", result={**BOUGHT, "media_buy_status": word})
        seen = read_webhook(body, task_type="create_media_buy", any_status=True)[1]
        assert see(operation, seen, "webhook").outcome == "stale", word
