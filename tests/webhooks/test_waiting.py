"""Deliveries for tasks that nobody knows yet have an allowance in bytes: a seller cannot fill the disk."""

from __future__ import annotations

import base64
import os
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db.models import Sum
from django.db.models.expressions import RawSQL

from tasks_app import clock
from tasks_app.notifications.models import Notification
from tasks_app.operations.models import OperationStatus as S
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.models import WebhookDelivery
from tasks_app.webhooks.retention import deliveries_forget
from tasks_app.webhooks.room import room_for
from tests.factories import make_seller
from tests.operations.making import answer, fresh, see, stand
from tests.webhooks.signing import payload
from tests.webhooks.taking import SECRET, take

pytestmark = [pytest.mark.deep, pytest.mark.django_db, pytest.mark.usefixtures("fresh_process")]
ALLOWED = 200_000


@pytest.fixture(autouse=True)
def _small(settings: Any) -> None:
    settings.WEBHOOK_WAITING_BYTES = ALLOWED


def signing(name: str = "Floods") -> Seller:
    return make_seller(name, webhook_mode="hmac", webhook_secret=SECRET)


def large(number: int, **told: Any) -> dict[str, Any]:
    """20 kB that cannot be pressed together."""
    return payload(task_id=f"task-{number}", message=base64.b64encode(os.urandom(15_000)).decode(), **told)


def waiting() -> int:
    held = RawSQL("pg_column_size(body)", [])
    rows = WebhookDelivery.objects.filter(verdict="early").annotate(held=held)
    return int(rows.aggregate(Sum("held"))["held__sum"] or 0)


def test_beyond_its_allowance_a_seller_is_told_to_come_again_and_ad_ops_hear_of_it_once() -> None:
    seller, other = signing(), signing("Another")
    told = [take(seller, large(number)) for number in range(40)]

    assert [one.word for one in told[:5]] == ["early"] * 5
    assert (told[-1].status, told[-1].word) == (429, "webhook_waiting_full")
    assert int(told[-1].headers["Retry-After"]) > 0
    assert waiting() <= ALLOWED
    alarm = Notification.objects.get(kind="webhook_waiting_full")
    assert (alarm.level, alarm.right, alarm.subject_id) == ("alarm", STEER_OPERATION, seller.pk)
    assert "Floods" in alarm.title
    assert take(other, large(1)).word == "early", "of one seller alone"


def test_small_ones_count_with_what_their_row_takes() -> None:
    seller = signing()
    told = [take(seller, payload(task_id=f"task-{number}")).status for number in range(ALLOWED // 1024 + 20)]
    assert told.count(200) == ALLOWED // 1024
    assert told[-1] == 429


def test_what_we_know_is_taken_and_repeats_are_acknowledged_while_it_is_full() -> None:
    seller = signing()
    first = large(0)
    assert take(seller, first).word == "early"
    while take(seller, large(1)).status == 200:
        continue
    operation = stand(S.SUBMITTED, seller=seller, task_id="task-known")

    assert take(seller, first).word == "duplicate"
    assert take(seller, {**first, "message": "another"}).word == "key_conflict"
    assert take(seller, payload(task_id="task-known")).word == "applied"
    assert fresh(operation).status == S.COMPLETED


def test_room_comes_back_with_the_reply_that_names_the_task_and_with_time() -> None:
    seller = signing()
    operation = stand(S.CALLING_ADCP, seller=seller)
    taken = 0
    while take(seller, large(0, status="working")).status == 200:
        taken += 1
    see(operation, answer("submitted", task_id="task-0"))
    cache.clear()
    assert take(seller, large(1)).word == "early"

    while take(seller, large(1)).status == 200:
        continue
    later = clock.now() + timedelta(days=8)
    with clock.injected(lambda: later):
        while deliveries_forget():
            continue
    cache.clear()
    assert take(seller, large(2)).word == "early"


def test_a_delivery_without_a_key_is_not_kept_for_ever() -> None:
    seller = signing()
    pushed = {"id": "a2a-1", "contextId": "c", "status": {"state": "working"}}
    assert take(seller, pushed).word == "early"
    assert WebhookDelivery.objects.get().body is not None
    later = clock.now() + timedelta(days=1, seconds=1)
    with clock.injected(lambda: later):
        deliveries_forget()
    assert WebhookDelivery.objects.get().body is None


def test_what_is_just_being_kept_counts_too() -> None:
    seller = signing()
    delivery = WebhookDelivery(seller=seller, key="k")
    half = ALLOWED // 2
    with (
        room_for(delivery, seller=seller, size=half) as first,
        room_for(delivery, seller=seller, size=half + 1) as second,
    ):
        assert (first, second) == (True, False)
    cache.clear()
    with room_for(delivery, seller=seller, size=half + 1) as third:
        assert third
