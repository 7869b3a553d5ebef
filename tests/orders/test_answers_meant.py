"""What the answer to a purchase means for its deal, by every way it can come."""

from __future__ import annotations

from typing import Any

import pytest

from orders.confirmation import mirror
from orders.models import Deal, DealStatus
from orders.seller_state import deal_follow
from tasks_app import clock
from tasks_app.adcp.answers import read_bought
from tasks_app.adcp.envelopes import seen_a2a, seen_data, seen_mcp
from tasks_app.adcp.tasks import task_item
from tasks_app.adcp.types import Seen
from tasks_app.adcp.webhook_body import read_webhook
from tasks_app.operations.dispatch import claim_one, claim_polls
from tasks_app.operations.models import SETTLED, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.publish import publish
from tasks_app.webhooks.models import WebhookDelivery
from tests.operations.making import fresh, see
from tests.orders.test_booking import booking, confirmed  # noqa: F401

pytestmark = pytest.mark.django_db
CREATE = "create_media_buy"
ERROR = {"code": "BUDGET_TOO_LOW", "message": "too low", "recovery": "correctable"}
CHANNELS = ("poll", "item", "webhook", "push")


def _task(data: dict[str, Any]) -> dict[str, Any]:
    artifacts = [{"artifactId": "1", "parts": [{"data": data}]}]
    status = {"state": "TASK_STATE_COMPLETED"}
    return {"task": {"id": "a", "contextId": "c", "status": status, "artifacts": artifacts}}


def _told(channel: str, body: dict[str, Any]) -> tuple[Seen, str]:
    """A task's record that names no task type, as the channel's own reader hands it on."""
    if channel == "poll":
        return seen_data(body, about="poll", task_type=CREATE), "poll"
    if channel == "item":
        item = task_item(body, task_type=CREATE)
        assert item is not None
        return item.seen, "reconcile"
    if channel == "push":
        return read_webhook(_task(body), task_type=CREATE)[1], "webhook"
    hook = {**body, "idempotency_key": "k" * 20, "timestamp": "2030-09-01T10:00:00Z"}
    return read_webhook(hook, task_type=CREATE, old=True)[1], "webhook"


def _seen(operation: Operation, seen: Seen, channel: str) -> Operation:
    see(operation, seen, channel)
    operation = fresh(operation)
    if operation.status in SETTLED:
        publish(operation_id=operation.pk)
    return operation


def _replied(booked: tuple[Deal, Operation], data: dict[str, Any]) -> tuple[Deal, Operation]:
    deal, operation = booked
    claim_one(operation_id=operation.pk)
    operation = _seen(operation, seen_mcp({"structuredContent": data}, task_type=CREATE), "reply")
    deal.refresh_from_db()
    return deal, operation


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize(
    "told",
    [
        {"result": {"errors": [ERROR], "packages": []}},
        {"errors": [ERROR], "result": {"packages": []}},
        {"error": ERROR, "result": {"media_buy_id": None}},
        {"result": {"isError": True, "structuredContent": {"adcp_error": ERROR}}},
    ],
    ids=["errors within", "errors beside", "error beside", "isError within"],
)
def test_a_refused_purchase_is_not_booked(booking: Any, told: dict[str, Any], channel: str) -> None:  # noqa: F811
    deal, operation = _replied(booking, {"status": "submitted", "task_id": "t"})
    seen, by = _told(channel, {"task_id": "t", "status": "completed", "updated_at": "2030-09-01", **told})
    operation = _seen(operation, seen, by)
    deal.refresh_from_db()
    assert (operation.status, deal.status) == (S.FAILED, DealStatus.FAILED)
    assert "too low" in operation.message


@pytest.mark.parametrize(
    ("data", "status"),
    [
        ({"errors": [ERROR], "packages": []}, DealStatus.FAILED),
        ({"media_buy_id": "mb-1", "packages": [], "status": "canceled"}, DealStatus.BOOKING),
    ],
    ids=["errors", "canceled"],
)
@pytest.mark.parametrize("way", ["reply", "push"])
def test_a_native_push_means_what_the_reply_would(
    booking: Any,  # noqa: F811
    data: dict[str, Any],
    status: str,
    way: str,
) -> None:
    deal, operation = booking
    claim_one(operation_id=operation.pk)
    body = _task({**data, "context": operation.request["context"]})
    if way == "reply":
        seen = seen_a2a(body, task_type=CREATE)
    else:
        see(operation, seen_data({"status": "submitted", "task_id": "t"}, task_type=CREATE))
        seen = read_webhook(body, task_type=CREATE)[1]
    operation = _seen(operation, seen, "reply" if way == "reply" else "webhook")
    deal.refresh_from_db()
    assert deal.status == status
    assert (operation.status in SETTLED) == (status == DealStatus.FAILED)
    assert operation.status in SETTLED or operation.next_poll_at is not None


def test_an_early_delivery_is_read_as_of_the_task_it_turns_out_to_be(booking: Any) -> None:  # noqa: F811
    """It names no task type, and nobody knew then whose it is."""
    deal, operation = booking
    claim_one(operation_id=operation.pk)
    told = {"task_id": "t", "status": "completed", "result": {"errors": [ERROR], "packages": []}}
    WebhookDelivery.objects.create(
        seller=operation.seller,
        key="whk-1",
        fingerprint="0" * 64,
        verdict="early",
        task_id="t",
        body={**told, "idempotency_key": "whk-1", "timestamp": "2030-09-01T10:00:00Z"},
    )
    operation = _seen(
        operation, seen_data({"status": "submitted", "task_id": "t"}, task_type=CREATE), "reply"
    )
    deal.refresh_from_db()
    assert (operation.status, deal.status) == (S.FAILED, DealStatus.FAILED)


def test_a_look_at_a_task_knows_its_type(booking: Any) -> None:  # noqa: F811
    _, operation = _replied(booking, {"status": "submitted", "task_id": "t"})
    Operation.objects.filter(pk=operation.pk).update(next_poll_at=clock.now())
    [call] = [one for one in claim_polls(limit=10) if one.operation_id == operation.pk]
    assert (call.channel, call.task_type) == ("poll", CREATE)


def test_a_reply_that_is_the_tasks_record_books_what_stands_in_it(booking: Any) -> None:  # noqa: F811
    deal, _ = booking
    record = {"task_id": "t", "task_type": CREATE, "status": "completed", "result": confirmed(deal)}
    deal, operation = _replied(booking, record)
    assert (deal.status, deal.media_buy_id, operation.task_id) == (DealStatus.BOOKED, "nrl-58213", "t")
    assert not deal.differs


@pytest.mark.parametrize("told", [{"errors": [ERROR]}, {"adcp_error": ERROR}], ids=["errors", "adcp_error"])
def test_a_reply_that_is_the_tasks_record_fails_by_the_errors_in_it(
    booking: Any,  # noqa: F811
    told: dict[str, Any],
) -> None:
    record = {"task_id": "t", "task_type": CREATE, "status": "completed", "result": told}
    deal, operation = _replied(booking, record)
    assert (deal.status, operation.status) == (DealStatus.FAILED, S.FAILED)


@pytest.mark.parametrize("word", ["canceled", "rejected", "failed"])
def test_a_purchase_that_came_to_nothing_whose_buy_runs_is_read_back(booking: Any, word: str) -> None:  # noqa: F811
    deal, _ = booking
    data = confirmed(deal)
    deal, operation = _replied(booking, {**data, "status": word, "media_buy_status": "active"})
    assert (operation.status, deal.status) == (S.CALLING_ADCP, DealStatus.BOOKING), "nothing has ended"
    assert operation.send_at is None
    assert operation.next_poll_at is not None, "it is looked up, not sent again"
    _seen(operation, read_bought({**data, "status": "active"}), "reconcile")
    deal.refresh_from_db()
    assert (deal.status, deal.media_buy_id) == (DealStatus.BOOKED, "nrl-58213")


@pytest.mark.parametrize("number", [58213, 58213.0], ids=["whole", "as A2A tells it"])
@pytest.mark.parametrize("more", [{}, {"errors": [ERROR]}, {"status": "active"}], ids=["", "warned", "3.0"])
def test_what_a_seller_numbers_is_booked_and_followed(
    booking: Any,  # noqa: F811
    more: dict[str, Any],
    number: float,
) -> None:
    deal, _ = booking
    data = confirmed(deal, package_id=number)
    deal, _ = _replied(booking, {**data, "media_buy_id": number, **more})
    assert (deal.status, deal.media_buy_id) == (DealStatus.BOOKED, "58213")
    assert "58213" in deal.lines.values_list("package_id", flat=True)
    told = {**data, "media_buy_id": number, "media_buy_status": "active", "revision": 2}
    deal = deal_follow(deal_id=deal.pk, buy=read_bought(told).payload or {}, asked_at=clock.now())
    assert (deal.status, deal.revision, deal.differs) == (DealStatus.DELIVERING, 2, False)
    assert mirror(told)["media_buy_id"] == "58213"
