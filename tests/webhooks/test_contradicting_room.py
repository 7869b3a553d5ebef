"""An operation that is told ever other ends of: so much of that is kept whole, the rest is counted, and its
people are told once."""

from __future__ import annotations

import base64
import os
from typing import Any

import pytest
from django.db.models import Sum
from django.db.models.expressions import RawSQL

from tasks_app.notifications.models import Notification
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.models import WebhookDelivery
from tests.factories import make_seller
from tests.operations.making import stand
from tests.webhooks.signing import payload
from tests.webhooks.taking import SECRET, take

pytestmark = [pytest.mark.deep, pytest.mark.django_db, pytest.mark.usefixtures("fresh_process")]
ALLOWED = 100 * 1024


@pytest.fixture(autouse=True)
def allowance(settings: Any) -> None:
    settings.OBSERVED_BYTES = ALLOWED


@pytest.fixture
def seller() -> Seller:
    return make_seller("Repeats", webhook_mode="hmac", webhook_secret=SECRET)


def tell(operation: Operation, status: str, number: int, *, size: int = 15_000, task: str = "") -> str:
    """Tell of it, under a key of its own, in words that cannot be pressed together."""
    said = payload(status, task_id=task or operation.task_id)
    ours = {"operation_id": str(operation.pk), "token": operation.webhook_token}
    key, words = (
        f"whk-{operation.task_id}-{number:04}-of-a-seller",
        base64.b64encode(os.urandom(size)).decode(),
    )
    return take(operation.seller, {**said, **ours, "idempotency_key": key, "message": words}).word


def kept(operation: Operation) -> tuple[int, int]:
    """How many of its contradicting deliveries are kept whole, and their bytes as they lie there."""
    whole = operation.deliveries.filter(verdict="conflict", body__isnull=False)
    held = whole.annotate(held=RawSQL("pg_column_size(body)", [])).aggregate(Sum("held"))["held__sum"]
    return whole.count(), int(held or 0)


def told_of(operation: Operation) -> list[Notification]:
    return list(Notification.objects.filter(kind="delivery_conflicts_full", subject_id=operation.pk))


@pytest.mark.parametrize(("status", "task"), [(S.COMPLETED, "task-0"), (S.SUBMITTED, "another")])
def test_ever_other_ends_are_kept_so_far_counted_beyond_and_told_once(
    seller: Seller, status: str, task: str
) -> None:
    operation = stand(status, seller=seller, task_id="task-0")
    assert {tell(operation, "failed", number, task=task) for number in range(12)} == {"conflict"}

    number, size = kept(operation)
    assert 3 <= number <= 5
    assert size <= ALLOWED
    assert operation.deliveries.filter(verdict="conflict").count() == 12, "each is counted"
    (notice,) = told_of(operation)
    assert (notice.level, notice.team_id) == ("warning", operation.team_id)
    assert Conflict.objects.get(operation=operation).second["body"]["status"] == "failed", "whole, for people"


def test_small_ones_count_with_what_their_rows_take(seller: Seller, settings: Any) -> None:
    settings.OBSERVED_BYTES = 8 * 1024
    operation = stand(S.COMPLETED, seller=seller, task_id="task-0")
    for number in range(12):
        tell(operation, "failed", number, size=9)
    assert kept(operation)[0] == 8


def test_another_operation_has_room_of_its_own_and_nothing_is_told_where_it_is_enough(seller: Seller) -> None:
    full, other = (stand(S.COMPLETED, seller=seller, task_id=task) for task in ("task-0", "task-1"))
    for number in range(8):
        tell(full, "failed", number)
    tell(other, "failed", 0)
    assert kept(other)[0] == 1
    assert (len(told_of(full)), told_of(other)) == (1, [])


def test_what_contradicts_nothing_is_kept_as_ever(seller: Seller) -> None:
    operation = stand(S.SUBMITTED, seller=seller, task_id="task-0")
    assert {tell(operation, "working", number) for number in range(8)} == {"applied"}
    assert not WebhookDelivery.objects.filter(body__isnull=True).exists()
