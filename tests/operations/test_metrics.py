"""What Prometheus is told of sellers: pending, approval time, rejections, time-outs, errors of calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import DatabaseError
from django.test import Client
from prometheus_client import REGISTRY

from tasks_app import clock
from tasks_app.operations import metrics
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tests.database import Database
from tests.factories import make_seller
from tests.operations.making import answer, hours, see, silent, stand

ROOT = Path(__file__).resolve().parents[2]
NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


class Clock:
    """Stands still until the test moves it."""

    now = NOON


@pytest.fixture
def time() -> Iterator[Clock]:
    moved = Clock()
    with clock.injected(lambda: moved.now):
        yield moved


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


def ended(time: Clock, seller: Seller, status: str, took: float) -> None:
    time.now = NOON - hours(took)
    task = f"t-{seller.operations.count()}-{seller.slug}"
    operation = stand(S.SUBMITTED, seller=seller, task_id=task)
    time.now = NOON
    see(operation, answer(status, task_id=task, duration_ms=250), "poll")


@pytest.mark.django_db
def test_pending_by_seller_task_and_status(time: Clock) -> None:
    one, two = make_seller("One"), make_seller("Two")
    for number in range(3):
        stand(S.SUBMITTED, seller=one, task_id=f"a-{number}")
    stand(S.INPUT_REQUIRED, seller=one, task_id="b")
    stand(S.SUBMITTED, "update_media_buy", seller=two, task_id="c")
    stand(S.COMPLETED, seller=two, task_id="d")
    name = "flightdeck_operations_open"
    assert value(name, seller="one", task="create_media_buy", status="submitted") == 3
    assert value(name, seller="one", task="create_media_buy", status="input_required") == 1
    assert value(name, seller="two", task="update_media_buy", status="submitted") == 1
    assert value(name, seller="two", task="create_media_buy", status="completed") is None


@pytest.mark.django_db
def test_approval_time_rejections_time_outs_and_errors(time: Clock) -> None:
    seller = make_seller("One")
    for took in (1, 2, 3):
        ended(time, seller, "completed", took)
    ended(time, seller, "rejected", 4)
    late = stand(S.TIMED_OUT, seller=seller, task_id="late")
    see(late, answer("completed", task_id="late"), "poll")
    see(stand(S.SUBMITTED, seller=seller, task_id="x"), silent(), "poll")
    quantiles = {"seller": "one", "task": "create_media_buy"}
    assert value("flightdeck_seller_answer_seconds", quantile="0.5", **quantiles) == 2 * 3600
    assert value("flightdeck_seller_rejection_ratio", seller="one") == 0.2
    assert value("flightdeck_seller_timeout_ratio", seller="one") == 0.2
    assert value("flightdeck_seller_api_error_ratio", seller="one") == 0, "it has no call's time: no call"
    assert value("flightdeck_seller_call_seconds", seller="one", quantile="0.9") == 0.25
    assert value("flightdeck_seller_webhooks_paused", seller="one") is None


@pytest.mark.django_db
def test_without_evidence_there_is_no_ratio() -> None:
    make_seller("One")
    for name in ("rejection", "timeout", "api_error", "webhook"):
        assert value(f"flightdeck_seller_{name}_ratio", seller="one") is None


@pytest.mark.django_db
def test_paused_webhooks_and_their_share(time: Clock) -> None:
    seller = make_seller("One", webhook_mode="hmac", webhook_secret="s" * 40)
    ended(time, seller, "completed", 1)
    time.now = NOON + timedelta(minutes=10)
    assert value("flightdeck_seller_webhook_ratio", seller="one") == 0
    assert value("flightdeck_seller_webhooks_paused", seller="one") == 0
    Seller.objects.update(webhook_paused_until=time.now + timedelta(hours=1))
    assert value("flightdeck_seller_webhooks_paused", seller="one") == 1


@pytest.mark.django_db
def test_they_are_on_the_page_and_the_queries_are_few(django_assert_max_num_queries: object) -> None:
    for name in ("One", "Two", "Three"):
        stand(S.SUBMITTED, seller=make_seller(name), task_id=name)
    with django_assert_max_num_queries(13):  # type: ignore[operator]
        page = Client().get("/metrics").content.decode()
    assert 'flightdeck_operations_open{seller="three",status="submitted",task="create_media_buy"} 1.0' in page


@pytest.mark.django_db
def test_no_secret_and_nothing_of_a_purchase_is_in_them(time: Clock) -> None:
    seller = make_seller("One", token="tok-secret", webhook_mode="hmac", webhook_secret="s" * 40)
    ended(time, seller, "completed", 1)
    page = Client().get("/metrics").content.decode()
    for word in ("tok-secret", "s" * 40, "mb-1", "OP-2026"):
        assert word not in page


@pytest.mark.django_db
def test_without_the_database_the_other_metrics_are_answered(
    monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    def away(_sellers: object) -> None:
        raise DatabaseError("away")

    monkeypatch.setattr(metrics, "sellers_health", away)
    answered = client.get("/metrics")
    assert answered.status_code == 200
    assert b"python_info" in answered.content
    assert b"flightdeck_operations_open" not in answered.content


def test_another_process_tells_the_same(committed_db: Database) -> None:
    stand(S.SUBMITTED, seller=make_seller("One"), task_id="a")
    code = (
        "import django, json; django.setup()\n"
        "from prometheus_client import REGISTRY\n"
        "labels = {'seller': 'one', 'task': 'create_media_buy', 'status': 'submitted'}\n"
        "print(json.dumps(REGISTRY.get_sample_value('flightdeck_operations_open', labels)))\n"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(told.stdout.splitlines()[-1]) == 1
