"""A burst: deliveries are bound and answered, and applied by workers. No possible conflict waits."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations import publish
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.answer import Answer
from tasks_app.webhooks.bind import key_lock
from tasks_app.webhooks.early import received_apply_due, received_drain
from tasks_app.webhooks.models import WebhookDelivery
from tests.database import Database
from tests.ending import ending, line_of
from tests.factories import make_seller
from tests.operations.making import fresh, stand
from tests.operations.sweeping import sweep
from tests.support import PATIENCE_S, joined, transactions_over, until
from tests.webhooks.signing import payload
from tests.webhooks.taking import SECRET, take

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def _no_share(fresh_process: None, settings: Any) -> None:
    """Every delivery comes in a burst."""
    settings.WEBHOOK_APPLIED_SHARE = 0


pytestmark = [pytest.mark.deep, pytest.mark.usefixtures("_no_share")]


@pytest.fixture
def seller(committed_db: Database) -> Seller:
    return make_seller("Bursts", webhook_mode="hmac", webhook_secret=SECRET)


def waiting(seller: Seller, number: int = 1, **columns: Any) -> tuple[Operation, dict[str, Any]]:
    task = f"task-{number}"
    operation = stand(S.SUBMITTED, seller=seller, task_id=task, **columns)
    return operation, payload(task_id=task, operation_id=str(operation.pk), token=operation.webhook_token)


def verdicts(seller: Seller) -> list[str]:
    return list(
        WebhookDelivery.objects.filter(seller=seller).order_by("id").values_list("verdict", flat=True)
    )


def test_it_is_durable_and_answered_and_a_worker_applies_it(seller: Seller) -> None:
    operation, body = waiting(seller)

    assert (take(seller, body).status, verdicts(seller)) == (200, ["received"])
    assert fresh(operation).status == S.SUBMITTED
    assert not operation.observations.exists()
    assert sweep().chores["received_woken"] == 1
    assert received_drain() == 1

    operation = fresh(operation)
    assert (operation.status, operation.settled_by, operation.result) == (
        S.COMPLETED,
        "webhook",
        body["result"],
    )
    assert operation.published_at is not None
    assert verdicts(seller) == ["applied"]
    assert verify_entity("operation", operation.pk).ok
    assert sweep().chores["received_woken"] == 0


@pytest.mark.parametrize("echoes", ["all", "no token", "no operation_id", "nothing"])
def test_whatever_the_seller_echoes(seller: Seller, echoes: str) -> None:
    operation, body = waiting(seller)
    if echoes in ("no token", "nothing"):
        del body["token"]
    if echoes in ("no operation_id", "nothing"):
        del body["operation_id"]

    assert take(seller, body).word == "received"
    assert received_apply_due() == 1
    assert fresh(operation).status == S.COMPLETED


def test_a_repeated_one_is_a_duplicate_and_another_body_is_refused(seller: Seller) -> None:
    _, body = waiting(seller)

    assert take(seller, body).word == "received"
    assert take(seller, body).word == "duplicate"
    assert take(seller, {**body, "message": "other"}).status == 409
    assert verdicts(seller) == ["applied", "duplicate", "key_conflict"], "judged, so what waited was applied"


def test_a_twin_in_progress_is_told_to_come_again(seller: Seller) -> None:
    _, body = waiting(seller)
    twin = key_lock(WebhookDelivery(seller=seller, key=body["idempotency_key"]))
    with ThreadPoolExecutor(1) as other, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("select pg_advisory_xact_lock(%s)", [twin])
        told = other.submit(_taken, seller, body).result(PATIENCE_S)
        strange = other.submit(_taken, seller, {**body, "task_id": "t", "operation_id": "x"}).result(
            PATIENCE_S
        )

    assert [told.status, strange.status] == [503, 503]
    assert verdicts(seller) == []
    assert take(seller, body).word == "received"


def _taken(seller: Seller, body: dict[str, Any]) -> Answer:
    try:
        return take(seller, body)
    finally:
        connection.close()


def test_a_second_one_of_the_same_operation_is_judged_at_once_after_the_first(seller: Seller) -> None:
    operation, body = waiting(seller)
    other = {**body, "idempotency_key": "whk-other-0001", "result": {"media_buy_id": "mb-2", "packages": []}}

    assert take(seller, body).word == "received"
    told = take(seller, other)

    assert (told.status, told.word) == (409, "conflict")
    assert verdicts(seller) == ["applied", "conflict"]
    assert fresh(operation).result == body["result"]


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"task_id": "task-of-another"}, "conflict"),
        ({"task_type": "update_media_buy"}, "conflict"),
        ({"token": "x" * 43}, "webhook_token_mismatch"),
    ],
)
def test_what_does_not_fit_is_judged_at_once(seller: Seller, changed: dict[str, str], word: str) -> None:
    operation, body = waiting(seller)

    assert take(seller, {**body, **changed}).word == word
    assert fresh(operation).status == S.SUBMITTED
    assert take(seller, {**body, "idempotency_key": "whk-right-0001"}).word == "received"


@pytest.mark.parametrize("status", [S.COMPLETED, S.TIMED_OUT, S.REQUESTED])
def test_of_an_operation_that_is_not_open_it_is_judged_at_once(seller: Seller, status: str) -> None:
    operation = stand(status, seller=seller)
    body = payload("failed", task_id="task-1", operation_id=str(operation.pk), token=operation.webhook_token)

    told = take(seller, body)

    assert told.word in ("conflict", "applied")
    assert verdicts(seller) == [told.word]
    assert operation.observations.filter(channel="webhook").count() == 1


def test_another_sellers_operation_is_not_reached(seller: Seller) -> None:
    other = make_seller("Elsewhere", webhook_mode="hmac", webhook_secret=SECRET)
    operation, body = waiting(other)

    assert take(seller, body).word == "early"
    assert sweep().chores["received_woken"] == 0
    assert fresh(operation).status == S.SUBMITTED


def test_secrets_that_are_repeated_are_not_kept(seller: Seller) -> None:
    operation, body = waiting(seller)
    body["message"] = f"{operation.webhook_token} {SECRET}"

    assert take(seller, body).word == "received"
    kept = WebhookDelivery.objects.get(seller=seller)
    assert not [secret for secret in (operation.webhook_token, SECRET) if secret in str(kept.body)]
    received_apply_due()
    assert fresh(operation).message == "[redacted] [redacted]"


def test_many_at_once_of_one_operation_have_one_winner(seller: Seller) -> None:
    operation, body = waiting(seller)
    bodies = [
        {
            **body,
            "idempotency_key": f"whk-rival-{n:04}",
            "result": {"media_buy_id": f"mb-{n}", "packages": []},
        }
        for n in range(6)
    ]
    barrier, told = threading.Barrier(len(bodies)), []

    def one(rival: dict[str, Any]) -> None:
        try:
            barrier.wait(PATIENCE_S)
            told.append((take(seller, rival).status, rival["idempotency_key"]))
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=(rival,)) for rival in bodies]
    for thread in threads:
        thread.start()
    joined(*threads)
    received_apply_due()

    taken = [key for status, key in told if status == 200]
    assert (len(told), len(taken)) == (6, 1), "the first is taken, the others are told of the conflict"
    assert sorted(verdicts(seller)) == ["applied", *["conflict"] * 5]
    assert fresh(operation).result["media_buy_id"] == f"mb-{int(taken[0][-4:])}"


_WORKER = """
import django
django.setup()
from tasks_app.operations import publish
from tasks_app.webhooks.answer import Answer
from tasks_app.webhooks.bind import key_lock
from tasks_app.webhooks.early import received_apply_due
import time, os
{stop}
received_apply_due()
"""
# Stands still between the observation's commit and its publication; or before the observation.
_BEFORE_PUBLICATION = """
from tasks_app.webhooks import early
def stand_still(**_): print("here", flush=True); time.sleep(600)
early.publish_many = stand_still
"""
_BEFORE_OBSERVATION = """
from tasks_app.webhooks import apply
def stand_still(*_): print("here", flush=True); time.sleep(600)
apply.observe_many = stand_still
"""


@pytest.mark.parametrize("stop", [_BEFORE_OBSERVATION, _BEFORE_PUBLICATION], ids=["observe", "publish"])
def test_a_worker_killed_while_it_applies_loses_and_doubles_nothing(seller: Seller, stop: str) -> None:
    operation, body = waiting(seller)
    assert take(seller, body).word == "received"
    command = [sys.executable, "-c", _WORKER.format(stop=stop)]
    with ending(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)) as worker:
        assert line_of(worker.stdout) == b"here\n"  # and is killed there

    transactions_over()
    received_drain()
    until(lambda: sweep() and fresh(operation).published_at)
    assert fresh(operation).status == S.COMPLETED
    assert [one.outcome for one in operation.observations.filter(channel="webhook")] == ["applied"]
    assert verdicts(seller) == ["applied"]


def burst(seller: Seller, number: int) -> list[Operation]:
    """So many deliveries of operations of their own, received and not applied."""
    told = [waiting(seller, one) for one in range(number)]
    assert {take(seller, body).word for _operation, body in told} == {"received"}
    return [operation for operation, _body in told]


def test_many_are_applied_in_few_statements_each_once(seller: Seller) -> None:
    operations = burst(seller, 20)

    with CaptureQueriesContext(connection) as asked:
        assert received_apply_due() == 20

    assert set(verdicts(seller)) == {"applied"}
    for operation in operations:
        left = fresh(operation)
        assert (left.status, left.settled_by, left.published_at is None) == (S.COMPLETED, "webhook", False)
        assert left.observations.filter(outcome="applied").count() == 1
        assert verify_entity("operation", operation.pk).ok
    assert len(asked) < 20 * 6
    assert received_apply_due() == 0


def test_one_that_cannot_be_applied_holds_up_no_other(seller: Seller) -> None:
    operations = burst(seller, 5)
    WebhookDelivery.objects.filter(operation=operations[2]).update(body={"status": "completed"})

    assert received_apply_due() == 4

    assert sorted(fresh(operation).status for operation in operations) == ["completed"] * 4 + ["submitted"]
    assert verdicts(seller).count("received") == 1


def test_one_whose_effects_fail_holds_up_no_others(seller: Seller, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = burst(seller, 4)
    told: list[Any] = []

    def listen(operation: Operation) -> None:
        told.append(operation.pk)
        if operation.pk == operations[1].pk:
            raise ValueError("a listener's fault")

    monkeypatch.setattr(publish, "_listeners", [listen])

    assert received_apply_due() == 4

    assert all(fresh(operation).status == S.COMPLETED for operation in operations), "the ends are durable"
    unpublished = [one.pk for one in operations if fresh(one).published_at is None]
    assert unpublished == [operations[1].pk], "left for the next sweep"


def test_what_somebody_holds_is_left_for_the_next_pass(seller: Seller) -> None:
    held, free = burst(seller, 2)
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Operation.objects.select_for_update(no_key=True).get(pk=held.pk)
            locked.set()
            done.wait(PATIENCE_S)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert locked.wait(PATIENCE_S)
    try:
        assert received_apply_due() == 1
    finally:
        done.set()
        joined(holder)

    assert (fresh(held).status, fresh(free).status) == (S.SUBMITTED, S.COMPLETED)
    assert received_apply_due() == 1
    assert fresh(held).status == S.COMPLETED
