"""What Prometheus is told of sellers: pending, approval time, rejections, time-outs, errors of calls."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import requests
from django.db import DatabaseError
from django.test import Client, override_settings
from prometheus_client import REGISTRY

import tasks_app.metrics
from config.processes import ProcessGroup
from demo.ports import free_port
from tasks_app.metrics import metrics_may_be_read
from tasks_app.operations import metrics
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tests.clocks import Clock
from tests.database import Database
from tests.factories import make_seller
from tests.operations.making import answer, hours, see, silent, stand
from tests.support import PATIENCE_S, metrics_page, until

ROOT = Path(__file__).resolve().parents[2]
NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


@pytest.fixture
def time(still: Clock) -> Clock:
    still.now = NOON
    return still


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
        page = metrics_page().content.decode()
    assert 'flightdeck_operations_open{seller="three",status="submitted",task="create_media_buy"} 1.0' in page


@pytest.mark.django_db
def test_no_secret_and_nothing_of_a_purchase_is_in_them(time: Clock) -> None:
    seller = make_seller("One", token="tok-secret", webhook_mode="hmac", webhook_secret="s" * 40)
    ended(time, seller, "completed", 1)
    page = metrics_page().content.decode()
    for word in ("tok-secret", "s" * 40, "mb-1", "OP-2026"):
        assert word not in page


@pytest.mark.django_db
def test_without_the_database_the_other_metrics_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_sellers: object) -> None:
        raise DatabaseError("away")

    monkeypatch.setattr(metrics, "sellers_health", away)
    answered = metrics_page()
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


@pytest.mark.django_db
def test_so_many_sellers_are_named_and_the_others_counted_together() -> None:
    for name, open_ in (("Idle", 0), ("Busy", 3), ("Less", 2), ("Least", 1), ("Off", 4)):
        seller = make_seller(name)
        for number in range(open_):
            stand(S.SUBMITTED, seller=seller, task_id=f"{name}-{number}")
    Seller.objects.filter(slug="off").update(active=False)
    with override_settings(METRICS_SELLERS=2):
        page = metrics_page().content.decode()
    named = set(re.findall('flightdeck_[^{]*{[^}]*seller="([^"]+)"', page))
    assert named <= {"busy", "less", "(others)"}
    labels = 'status="submitted",task="create_media_buy"'
    assert f'flightdeck_operations_open{{seller="busy",{labels}}} 3.0' in page
    assert f'flightdeck_operations_open{{seller="(others)",{labels}}} 5.0' in page


@pytest.mark.django_db
def test_the_database_is_read_at_most_every_five_seconds(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    now = 100.0
    monkeypatch.setattr(tasks_app.metrics, "monotonic", lambda: now)
    first = metrics_page()
    with override_settings(METRICS_NETWORKS=[ip_network("127.0.0.1")]):
        with django_assert_num_queries(0):
            now = 104.9
            assert Client().get("/metrics").content == first.content
        stand(S.SUBMITTED, seller=make_seller("New"), task_id="new")
        now = 105.0
        assert b'seller="new"' in Client().get("/metrics").content


@pytest.mark.parametrize(
    ("source", "authorization", "may"),
    [
        ("10.0.0.7", "", True),
        ("::ffff:10.0.0.7", "", True),
        ("10.1.0.7", "", False),
        ("", "", False),
        ("somewhere", "", False),
        ("192.0.2.1", "Bearer right", True),
        ("192.0.2.1", "bearer  right", True),
        ("192.0.2.1", "Bearer wrong", False),
        ("192.0.2.1", "Bearer ", False),
        ("192.0.2.1", "Basic right", False),
        ("192.0.2.1", "Bearer r\u00efght", False),
    ],
)
def test_who_may_read_them(source: str, authorization: str, may: bool) -> None:
    with override_settings(METRICS_TOKEN="right", METRICS_NETWORKS=[ip_network("10.0.0.0/24")]):
        assert metrics_may_be_read(source=source, authorization=authorization) is may
    with override_settings(METRICS_TOKEN="", METRICS_NETWORKS=[]):
        assert not metrics_may_be_read(source=source, authorization=authorization), "closed by default"


def test_over_http_strangers_get_nothing_and_prometheus_its_page(
    committed_db: Database, processes: ProcessGroup
) -> None:
    stand(S.SUBMITTED, seller=make_seller("One"), task_id="a")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = {
        "FLIGHTDECK_METRICS_TOKEN": "of-prometheus",
        "FLIGHTDECK_PUBLIC_URL": url,
        "FLIGHTDECK_STRANGERS_PAGES": "1",
    }
    command = [sys.executable, "-m", "config.web", "--port", str(port)]
    processes.start("web", command, env=env, cwd=ROOT)
    until(lambda: _healthy(url), "it answers", patience=90)

    stranger = requests.get(f"{url}/metrics", timeout=PATIENCE_S)
    assert stranger.status_code == 403
    assert "flightdeck" not in stranger.text
    wrong = requests.get(f"{url}/metrics", headers={"Authorization": "Bearer x"}, timeout=PATIENCE_S)
    assert wrong.status_code in (403, 429)
    for _ in range(8):  # more than a stranger may ask
        page = requests.get(
            f"{url}/metrics", headers={"Authorization": "Bearer of-prometheus"}, timeout=PATIENCE_S
        )
        assert page.status_code == 200
        assert 'flightdeck_operations_open{seller="one"' in page.text


def _healthy(url: str) -> bool:
    try:
        return requests.get(f"{url}/health/", timeout=PATIENCE_S).ok
    except requests.RequestException:
        return False
