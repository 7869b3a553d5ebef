"""Whatever a seller signs counts against its bytes of a day: no disk is filled through a task we know."""

from __future__ import annotations

import base64
import os
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Sum
from django.db.models.expressions import RawSQL

from tasks_app import clock
from tasks_app.notifications.models import Notification
from tasks_app.operations.models import Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.models import Seller
from tasks_app.webhooks import rates
from tasks_app.webhooks.early import received_apply_due
from tasks_app.webhooks.models import SenderTally, WebhookDelivery
from tests.adcp.raw_server import serve
from tests.factories import make_seller
from tests.operations.making import TASK, fresh, stand
from tests.operations.sweeping import answering, sweep
from tests.webhooks.signing import hmac, payload
from tests.webhooks.taking import SECRET, take

pytestmark = [pytest.mark.deep, pytest.mark.django_db, pytest.mark.usefixtures("fresh_process")]
MB = 2**20
ALLOWED = 4 * MB
DONE = {"task_id": TASK, "status": "completed", "media_buy_id": "mb-1", "packages": []}


@pytest.fixture(autouse=True)
def _small(settings: Any) -> None:
    settings.WEBHOOK_SELLER_BYTES = ALLOWED


def knowing(**columns: Any) -> tuple[Seller, Operation]:
    seller = make_seller("Repeats", webhook_mode="hmac", webhook_secret=SECRET, **columns)
    return seller, stand(S.SUBMITTED, seller=seller, next_poll_at=clock.now() + timedelta(days=2))


def large(**told: Any) -> dict[str, Any]:
    """1 MB that cannot be pressed together."""
    told = {"task_id": TASK, "message": base64.b64encode(os.urandom(780_000)).decode(), **told}
    return payload("working", **told)


def kept() -> int:
    """Bytes of all bodies there are."""
    held = RawSQL("pg_column_size(body)", [])
    both = (rows.objects.annotate(held=held) for rows in (WebhookDelivery, Observation))
    return sum(rows.aggregate(Sum("held"))["held__sum"] or 0 for rows in both)


def spend(seller: Seller) -> None:
    """Send what is taken in a day."""
    for _ in range(ALLOWED // MB + 1):
        take(seller, large())


@pytest.mark.parametrize("share", [1000, 0], ids=["applied at once", "in a burst"])
def test_forty_megabytes_about_a_task_that_we_know(settings: Any, share: float) -> None:
    settings.WEBHOOK_APPLIED_SHARE = share
    seller, operation = knowing()
    day = clock.now().replace(hour=12)
    told = []
    with clock.injected(lambda: day):
        for _ in range(40):
            body = large(operation_id=str(operation.pk), token=operation.webhook_token)
            told.append(take(seller, body, hmac(body, SECRET, at=day.timestamp())))
    received_apply_due()

    assert [one.status for one in told[:3]] == [200] * 3
    assert {(one.status, one.word) for one in told[4:]} == {(429, "webhook_day_full")}
    assert told[-1].headers["Retry-After"] == str(12 * 3600 - day.minute * 60 - day.second), "at midnight"
    assert kept() <= 2 * ALLOWED + MB, "as a delivery, and as what was seen"
    alarm = Notification.objects.get(kind="webhook_day_full")
    assert (alarm.level, alarm.right, alarm.subject_id) == ("alarm", STEER_OPERATION, seller.pk)
    assert "Repeats" in alarm.title


@pytest.mark.parametrize("known", [True, False], ids=["of a task of ours", "of no task of ours"])
def test_the_same_again_counts_with_what_its_rows_take(settings: Any, known: bool) -> None:
    settings.WEBHOOK_SELLER_BYTES = 32 * 1024
    seller, _operation = knowing()
    body = payload("working", task_id=TASK if known else "nobodys")
    told = [take(seller, body).word for _ in range(40)]
    assert told[1:32] == ["duplicate"] * 31
    assert told[32:] == ["webhook_day_full"] * 8
    assert WebhookDelivery.objects.exclude(verdict="refused").count() == 32


def test_another_seller_and_the_next_day_are_not_touched() -> None:
    seller, _operation = knowing()
    other = make_seller("Another", webhook_mode="hmac", webhook_secret=SECRET)
    spend(seller)
    assert take(other, payload(task_id="task-1")).word == "early"
    tomorrow, body = clock.now() + timedelta(days=1), large()
    with clock.injected(lambda: tomorrow):
        assert take(seller, body, hmac(body, SECRET, at=tomorrow.timestamp())).word == "applied"


def test_an_end_that_is_refused_is_found_by_polling() -> None:
    with serve(answering(DONE)) as server:
        seller, operation = knowing(url=f"{server.url}/mcp")
        spend(seller)
        assert take(seller, payload(task_id=TASK)).word == "webhook_day_full"
        assert fresh(operation).status in (S.SUBMITTED, S.WORKING)
        assert fresh(operation).next_poll_at is not None, "it is looked at on"

        Operation.objects.filter(pk=operation.pk).update(next_poll_at=clock.now())
        sweep()

    operation = fresh(operation)
    assert (operation.status, operation.settled_by) == (S.COMPLETED, "poll")
    assert operation.result["media_buy_id"] == "mb-1"
    assert operation.published_at is not None


def test_processes_count_together_and_forget_no_day_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    seller, _operation = knowing()
    noon = clock.now().replace(hour=12)
    taken = 0
    with clock.injected(lambda: noon):
        for _ in range(12):
            monkeypatch.setattr(rates, "_shares", {})  # another process
            taken += rates.bytes_admit(seller, MB // 2) is None
    with clock.injected(lambda: noon + timedelta(hours=3)):
        rates.tallies_forget()
        assert rates.bytes_admit(seller, MB // 2) is not None
    assert taken == 8
    with clock.injected(lambda: noon + timedelta(days=3)):
        rates.tallies_forget()
    assert not SenderTally.objects.exists()
