"""Deliveries that contradict: kept whole for people, through the endpoint as it is served."""

from __future__ import annotations

import pytest

from tasks_app.approvals.models import Approval
from tasks_app.notifications.models import Notification
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.models import WebhookDelivery
from tests.operations.making import stand
from tests.webhooks.conftest import Endpoint
from tests.webhooks.signing import payload


@pytest.fixture
def purchase(norrland: Seller) -> Operation:
    """A purchase of this test's seller."""
    return stand(S.SUBMITTED, seller=norrland, task_id=f"task-{norrland.slug}")


def body(operation: Operation, status: str, **told: object) -> dict[str, object]:
    return payload(status, task_id=operation.task_id, operation_id=str(operation.pk), **told)


def test_a_key_used_for_another_body_is_kept_with_both_and_asked_about_once(
    receiver: Endpoint, norrland: Seller, purchase: Operation
) -> None:
    first = body(purchase, "completed")
    other = {**first, "status": "rejected", "result": None}
    assert receiver.send(norrland, first).status_code == 200
    for _ in range(2):
        assert receiver.send(norrland, other).status_code == 409

    conflict = Conflict.objects.get(operation=purchase)
    assert conflict.kind == Conflict.Kind.KEY
    assert (conflict.first["status"], conflict.second["status"]) == ("completed", "rejected")
    assert conflict.first["body"]["result"] == first["result"]
    assert Approval.objects.get(kind="conflict", subject_id=conflict.pk).status == "open"
    assert Operation.objects.get(pk=purchase.pk).status == S.COMPLETED


def test_a_key_of_an_unknown_operation_is_told_to_ad_ops(receiver: Endpoint, norrland: Seller) -> None:
    first = payload("working", task_id=f"nobodys-{norrland.slug}")
    receiver.send(norrland, first)
    receiver.send(norrland, {**first, "status": "submitted"})
    stands = WebhookDelivery.objects.exclude(verdict="key_conflict").get(seller=norrland)
    told = Notification.objects.get(kind="delivery_key_conflict", subject_id=stands.pk)
    assert told.right == "tasks_app.steer_operation"


def test_many_keys_with_two_bodies_each_are_one_notice_of_the_seller_and_the_day(
    receiver: Endpoint, norrland: Seller
) -> None:
    def used_twice(number: int) -> None:
        first = payload(
            "working", task_id=f"nobodys-{norrland.slug}", idempotency_key=f"key-{number:04}-of-a-seller"
        )
        receiver.send(norrland, first)
        receiver.send(norrland, {**first, "status": "submitted"})

    for number in range(3):
        used_twice(number)
    of_seller = WebhookDelivery.objects.filter(seller=norrland).order_by("at")
    assert of_seller.filter(verdict="key_conflict").count() == 3
    told = Notification.objects.filter(
        kind="delivery_key_conflict", subject_id__in=of_seller.values_list("pk", flat=True)
    )
    assert [one.subject_id for one in told] == [of_seller[0].pk]


def test_another_end_and_another_kind_of_task_are_kept(
    receiver: Endpoint, norrland: Seller, purchase: Operation
) -> None:
    receiver.send(norrland, body(purchase, "completed"))
    assert receiver.send(norrland, body(purchase, "failed")).status_code == 409
    assert receiver.send(norrland, body(purchase, "completed", task_type="sync_creatives")).status_code == 409
    kinds = Conflict.objects.filter(operation=purchase).values_list("kind", flat=True)
    assert sorted(kinds) == [Conflict.Kind.TASK, Conflict.Kind.TERMINAL]
