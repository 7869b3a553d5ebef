"""True refusals of a seller under a flood of strangers' in its name: all are counted, and health and alarm
tell of them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tasks_app import clock
from tasks_app.allowances import Allowance, Rate
from tasks_app.notifications.models import Notification
from tasks_app.operations.models import Operation
from tasks_app.operations.tokens import webhook_token_of
from tasks_app.operations.webhook_health import rates
from tasks_app.sellers.models import Seller
from tasks_app.webhooks import rates as rates_of_senders
from tasks_app.webhooks.models import WebhookDelivery
from tasks_app.webhooks.rates import LOOKS_EACH, LOOKS_IN_ALL
from tasks_app.webhooks.unverified import unverified_tell
from tests.webhooks.signing import hmac, payload
from tests.webhooks.taking import take
from tests.webhooks.test_unverified import named, refuse, signing, stamped, tasks_alone, tell

pytestmark = [pytest.mark.deep, pytest.mark.django_db, pytest.mark.usefixtures("fresh_process", "still")]


@pytest.fixture
def seller() -> Seller:
    return signing()


def stranger(seller: Seller, number: int) -> None:
    body = payload(task_id=f"made-up-{number}", operation_id=f"0190a1b2-0000-7000-8000-{number:012d}")
    take(seller, body, hmac(body, "x" * 40), source=f"192.0.2.{number % 250}")


def refused(seller: Seller) -> tuple[int, int]:
    rate = rates([seller])[seller.pk]
    return rate.due, rate.refused


def rows(seller: Seller, operation: Operation) -> int:
    kept = WebhookDelivery.objects.filter(seller=seller, verdict="refused")
    return kept.filter(operation_ref=str(operation.pk)).count()


def old_rows(seller: Seller, number: int) -> None:
    """As a flood of the last hours left them, newer than any that is true."""
    WebhookDelivery.objects.bulk_create(
        WebhookDelivery(
            seller=seller,
            at=clock.now(),
            fingerprint="",
            verdict="refused",
            reason="webhook_signature_invalid",
            task_id=f"made-up-{one}",
        )
        for one in range(number)
    )


def test_what_comes_right_after_a_strangers_is_read_all_the_same(seller: Seller) -> None:
    """The closer look is had once in 5 s; which operation is meant is read of each."""
    pairs = [named(seller, number) for number in range(3)]
    stranger(seller, 1)
    for operation, body in pairs:
        take(seller, body, hmac(body, "x" * 40))
        assert rows(seller, operation) == 1
    assert refused(seller) == (3, 3)


def test_the_hour_may_be_full_of_strangers(seller: Seller, settings: Any) -> None:
    settings.WEBHOOK_REFUSED_ROWS = 5
    pairs = [named(seller, number) for number in range(3)]
    for number in range(20):
        stranger(seller, number)
    for _ in range(2):  # repeated, as sellers do
        for operation, body in pairs:
            take(seller, body, hmac(body, "x" * 40))
            assert rows(seller, operation) == 1, "one of the hour, however often it comes"
    stranger(seller, 21)
    guessed = payload(task_id="task-1", operation_id="0190a1b2-0000-7000-8000-000000000000")
    take(seller, guessed, hmac(guessed, "x" * 40), source="192.0.2.251")
    assert WebhookDelivery.objects.filter(seller=seller).count() == 5 + 3
    assert refused(seller) == (3, 3)
    assert tell() == 1
    assert "28 refused since" in Notification.objects.get().body, "all are counted, looked at or not"


def test_strangers_do_not_have_the_word_about_what_was_tried(seller: Seller) -> None:
    operation, body = named(seller)
    body["token"] = webhook_token_of(operation.pk)
    stranger(seller, 1)
    stranger(seller, 2)
    take(seller, body, stamped(body, json.dumps(body).encode()))
    stranger(seller, 3)
    assert tell() == 1
    assert "it signs other bytes than it sends: JSON with spaces" in Notification.objects.get().body


def test_a_wrong_token_gets_no_closer_look(seller: Seller) -> None:
    operation, body = named(seller)
    body["token"] = webhook_token_of(seller.pk)
    stranger(seller, 1)
    take(seller, body, stamped(body, json.dumps(body).encode()))
    assert ":" not in WebhookDelivery.objects.get(operation_ref=str(operation.pk)).reason


def test_a_flood_in_one_sellers_name_hides_no_other_seller(seller: Seller) -> None:
    last = signing("hmac_body")
    _, body = named(last)
    refuse(last, body, hmac(body, "x" * 40))
    old_rows(seller, 1500)
    assert tell() == 2
    assert Notification.objects.filter(subject_id=last.pk).exists()
    assert refused(last) == (1, 1)


def test_a_flood_of_the_day_hides_no_operation(seller: Seller) -> None:
    _, body = named(seller)
    refuse(seller, body, hmac(body, "x" * 40))
    old_rows(seller, 1500)
    assert refused(seller) == (1, 1)


def test_who_is_told_to_wait_is_counted_too(seller: Seller, settings: Any) -> None:
    """A seller behind the strangers' own address."""
    settings.WEBHOOK_SOURCE_CAP = 2
    for _ in range(4):
        take(seller, payload(task_id="nobody's"), {}, source="192.0.2.7")
    operation, body = named(seller)
    assert take(seller, body, hmac(body, "x" * 40), source="192.0.2.7").status == 429
    kept = WebhookDelivery.objects.get(operation_ref=str(operation.pk))
    assert kept.reason.startswith("webhook_rate_limited: webhook_signature")
    assert refused(seller) == (1, 1)
    WebhookDelivery.objects.exclude(pk=kept.pk).delete()
    cache.clear()
    assert unverified_tell() == 1
    assert "among them with 401 webhook_signature_invalid" in Notification.objects.get().body


def test_who_names_its_task_alone_is_looked_at_closely_after_strangers(seller: Seller) -> None:
    operation, body = tasks_alone(seller, 1)
    stranger(seller, 1)
    take(seller, {**body, "token": "made up"}, hmac(body, "x" * 40))
    take(seller, body, stamped(body, json.dumps(body).encode()))
    kept = WebhookDelivery.objects.get(operation_ref=str(operation.pk))
    assert "it signs other bytes than it sends: JSON with spaces" in kept.reason


def test_strangers_with_made_up_tokens_cost_no_look_beyond_the_allowance(
    seller: Seller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that carry no token are looked up for nothing at all."""
    looks = Allowance(each=Rate(per_s=1, most=3), in_all=Rate(per_s=1, most=6), time=lambda: 0.0)
    monkeypatch.setattr(rates_of_senders, "_looks", looks)
    _, body = tasks_alone(seller, 1)
    without = {name: value for name, value in body.items() if name != "token"}
    with CaptureQueriesContext(connection) as asked:
        for source in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
            for number in range(8):
                made_up = {**body, "task_id": f"{1000 + number}", "token": f"made up {number}"}
                take(seller, made_up, hmac(made_up, "x" * 40), source=source)
    assert len(lookups(asked)) == 6
    monkeypatch.setattr(rates_of_senders, "_looks", Allowance(each=LOOKS_EACH, in_all=LOOKS_IN_ALL))
    with CaptureQueriesContext(connection) as asked:
        take(seller, without, hmac(without, "x" * 40))
    assert lookups(asked) == []
    assert refused(seller) == (0, 0)


def lookups(asked: CaptureQueriesContext) -> list[str]:
    """The tokens of operations that were read."""
    return [one["sql"] for one in asked if "webhook_token" in one["sql"] and "select" in one["sql"].lower()]


def test_a_guessed_task_hides_none_that_is_true_though_the_hour_is_full(
    seller: Seller, settings: Any
) -> None:
    settings.WEBHOOK_REFUSED_ROWS = 2
    for number in range(3):
        stranger(seller, number)
    operation, body = tasks_alone(seller, 1)
    for _ in range(2):
        take(seller, {**body, "token": "made up"}, hmac(body, "x" * 40), source="192.0.2.251")
        assert refused(seller) == (0, 0)
    for _ in range(2):
        take(seller, body, hmac(body, "x" * 40))
        take(seller, {**body, "token": "made up"}, hmac(body, "x" * 40), source="192.0.2.251")
        assert refused(seller) == (1, 1)
    assert rows(seller, operation) == 1
    assert WebhookDelivery.objects.filter(seller=seller).count() == 2 + 2


def test_a_great_body_is_not_read_for_a_stranger(seller: Seller) -> None:
    """Beyond 64 kB only with the closer look."""
    operation, body = named(seller)
    body["result"] = {"padding": "x" * 70_000}
    stranger(seller, 1)
    take(seller, body, hmac(body, "x" * 40))
    assert rows(seller, operation) == 0
    cache.clear()
    take(seller, body, hmac(body, "x" * 40))
    assert rows(seller, operation) == 1


def test_what_was_refused_before_the_window_counts_no_more(seller: Seller, settings: Any) -> None:
    _, body = named(seller)
    refuse(seller, body, hmac(body, "x" * 40))
    WebhookDelivery.objects.update(at=clock.now() - settings.WEBHOOK_RATE_WINDOW - timedelta(minutes=1))
    assert refused(seller) == (0, 0)
