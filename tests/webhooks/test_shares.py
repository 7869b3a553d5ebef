"""Deliveries that came in bursts: no seller gets more than its share of a pass while others wait."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import pytest

from tasks_app import clock
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.webhooks import early
from tasks_app.webhooks.early import early_apply_due, received_apply_due, received_drain
from tasks_app.webhooks.models import WebhookDelivery
from tests.factories import make_seller
from tests.operations.making import stand
from tests.webhooks.signing import payload

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
PASS = 8


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "_AT_ONCE", PASS)


def received(seller: Seller, count: int, *, since: datetime) -> list[Operation]:
    """So many operations of the seller's, each with a delivery that waits, the first for the longest."""
    operations = []
    for number in range(count):
        task = f"{seller.slug}-{number}"
        operation = stand(S.SUBMITTED, seller=seller, task_id=task)
        with clock.injected(lambda number=number: since + timedelta(seconds=number)):  # type: ignore[misc]
            WebhookDelivery.objects.create(
                seller=seller,
                operation=operation,
                operation_ref=str(operation.pk),
                key=f"whk-{task}",
                fingerprint="0" * 64,
                verdict="received",
                task_id=task,
                body=payload(task_id=task, operation_id=str(operation.pk), token="[redacted]"),
                at=clock.now(),
            )
        operations.append(operation)
    return operations


def applied() -> Counter[str]:
    """By seller."""
    done = Operation.objects.filter(status=S.COMPLETED)
    return Counter(done.values_list("seller__name", flat=True))


def test_a_seller_with_more_than_a_pass_takes_starves_no_other() -> None:
    long, lately = clock.now() - timedelta(hours=2), clock.now() - timedelta(hours=1)
    many = received(make_seller("Many"), PASS + 2, since=long)
    received(make_seller("Few"), 2, since=lately)

    assert received_apply_due() == PASS
    assert applied() == {"Many": PASS - 2, "Few": 2}
    oldest = [operation.pk for operation in many[: PASS - 2]]
    done = Operation.objects.filter(status=S.COMPLETED, seller__name="Many")
    assert set(done.values_list("pk", flat=True)) == set(oldest)

    received_drain()
    assert applied() == {"Many": PASS + 2, "Few": 2}


def test_with_more_sellers_than_a_pass_takes_who_has_waited_longest_is_first() -> None:
    """Whoever has had a turn is behind those that had none."""
    now = clock.now()
    for number in range(PASS + 2):
        received(make_seller(f"S{number}"), 2, since=now - timedelta(hours=1, minutes=-number))
    # One delivery of each is older than any second one.
    WebhookDelivery.objects.filter(key__endswith="-1").update(at=now)

    received_apply_due()
    received_apply_due()

    assert applied().keys() == {f"S{number}" for number in range(PASS + 2)}


def test_of_what_waited_for_its_reply_no_seller_gets_a_whole_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(early, "_looked_at", None)
    now = clock.now()
    received(make_seller("Many"), 6 * PASS, since=now)
    received(make_seller("Few"), 2, since=now)
    WebhookDelivery.objects.update(verdict="early", operation=None, operation_ref="")

    assert early_apply_due() == PASS
    assert applied() == {"Many": PASS - 2, "Few": 2}
    while early_apply_due() == PASS:
        pass
    assert applied() == {"Many": 6 * PASS, "Few": 2}
