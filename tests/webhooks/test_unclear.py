"""A status that is none of AdCP's: durable, acknowledged, never the end; the seller is asked about it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tasks_app import clock
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tests.operations.making import fresh, stand
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
