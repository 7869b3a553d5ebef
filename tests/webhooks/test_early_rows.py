"""What a look at the deliveries that wait for their replies reads of the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from tasks_app import clock
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.webhooks import early as early_room
from tasks_app.webhooks.early import early_apply_due
from tasks_app.webhooks.models import WebhookDelivery
from tests.factories import make_seller
from tests.operations.making import fresh, stand
from tests.operations.test_claims import crowd
from tests.support import rows_read
from tests.webhooks.signing import payload
from tests.webhooks.test_early import early

pytestmark = pytest.mark.django_db
_READ = ("tasks_app_operation", "tasks_app_observation", "tasks_app_webhookdelivery", "tasks_app_rowtrouble")


def _waiting(seller: Seller, count: int) -> None:
    """So many deliveries of tasks that nobody knows, and as many of operations bound long ago."""
    crowd(seller, count)
    bound = Operation.objects.filter(purpose__startswith="crowd:").values_list("task_id", flat=True)
    WebhookDelivery.objects.bulk_create(
        WebhookDelivery(
            seller=seller,
            key=f"whk-{task_id}",
            fingerprint="0" * 64,
            verdict="early",
            task_id=task_id,
            body=payload(task_id=task_id, token="[redacted]"),
        )
        for task_id in (*bound, *(f"stranger-{number}" for number in range(count)))
    )


def test_a_tick_reads_what_was_seen_since_whatever_waits(monkeypatch: Any) -> None:
    """By PostgreSQL's own count; with nothing new though nobody told its planner how much waits."""
    seller = make_seller(slots=5)
    _waiting(seller, 1_000)
    # Keys made at once may be ahead of the clock: the last look was after the last of them.
    latest = timedelta(milliseconds=1 + (Operation.objects.latest("id").pk.int >> 80))
    moment = datetime.fromtimestamp(0, UTC) + latest
    monkeypatch.setattr(early_room, "_OVERLAP", timedelta(0))
    monkeypatch.setattr(early_room, "_looked_at", moment)
    with clock.injected(lambda: moment):
        _reads_what_was_seen(seller)


def _reads_what_was_seen(seller: Seller) -> None:
    before = rows_read(*_READ)
    assert early_apply_due() == 0
    assert rows_read(*_READ) - before < 20

    seen = [stand(S.SUBMITTED, seller=seller, task_id=f"seen-{number}") for number in range(3)]
    named = seen[0].task_id
    WebhookDelivery.objects.filter(pk=early(seller).pk).update(
        task_id=named, body=payload(task_id=named, token="[redacted]")
    )
    with connection.cursor() as cursor:
        # As autovacuum would: the planner knows of the tests before, and of none of these rows.
        cursor.execute("select testing.as_owner(%s)", [f"analyze {', '.join(_READ)}"])
    before = rows_read(*_READ)
    assert early_apply_due() == 1
    assert rows_read(*_READ) - before < 60
    assert fresh(seen[0]).status == S.COMPLETED
    assert WebhookDelivery.objects.filter(verdict="early").count() == 2_000
