"""How long a seller takes: from its own answers, and no figure where there are too few."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tasks_app.desk.text import SPACE
from tasks_app.operations.estimates import Estimate, estimate_of, estimate_words
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tests.clocks import Clock
from tests.factories import make_seller
from tests.operations.making import answer, hours, see, stand

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


@pytest.fixture
def time(still: Clock) -> Clock:
    still.now = NOON
    return still


@pytest.fixture
def seller() -> Seller:
    return make_seller()


def answered(time: Clock, seller: Seller, took: float, *, channel: str = "poll", **fields: Any) -> None:
    """An operation that was settled now, so many hours after it was sent."""
    time.now = NOON - hours(took)
    number = f"t-{took}-{channel}-{len(fields)}-{seller.operations.count()}"
    operation = stand(S.SUBMITTED, fields.get("task", "create_media_buy"), seller=seller, task_id=number)
    time.now = NOON
    see(operation, answer(fields.get("status", "completed"), task_id=number), channel)


def estimate(seller: Seller, task: str = "create_media_buy") -> Estimate:
    return estimate_of(seller_id=seller.pk, task_type=task)


def test_below_the_minimum_there_is_none(time: Clock, seller: Seller) -> None:
    assert estimate_words(estimate(seller)) == "No estimate yet: no answer so far, 5 are needed."
    answered(time, seller, 1)
    assert estimate_words(estimate(seller)) == "No estimate yet: 1 answer so far, 5 are needed."
    for took in (1, 2, 3):
        answered(time, seller, took)
    found = estimate(seller)
    assert (found.count, found.median, found.ninetieth) == (4, None, None)
    assert estimate_words(found) == "No estimate yet: 4 answers so far, 5 are needed."


def test_median_and_ninetieth_of_what_came_later_than_at_once(time: Clock, seller: Seller) -> None:
    for took in (1, 2, 3, 4, 10):
        answered(time, seller, took, channel="webhook" if took % 2 else "poll")
    for _ in range(9):
        answered(time, seller, 0.001, channel="reply")
    found = estimate(seller)
    assert (found.count, found.median) == (5, hours(3))
    assert found.ninetieth == hours(4) + (hours(10) - hours(4)) * 0.6
    assert estimate_words(found) == (
        f"Half of its last 5 answers came within 3{SPACE}h{SPACE}00{SPACE}m, "
        f"nine in ten within 7{SPACE}h{SPACE}36{SPACE}m."
    )


def test_each_seller_and_task_has_its_own(time: Clock, seller: Seller) -> None:
    other = make_seller("Other")
    for _ in range(5):
        answered(time, other, 1)
        answered(time, seller, 2, task="update_media_buy")
    assert estimate(seller).count == 0
    assert estimate(seller, "update_media_buy").median == hours(2)
    assert estimate(other).median == hours(1)


def test_a_refusal_is_an_answer_and_giving_up_is_none(time: Clock, seller: Seller) -> None:
    answered(time, seller, 1, status="rejected")
    given_up = stand(S.TIMED_OUT, seller=seller, task_id="given-up")
    given_up.__class__.objects.filter(pk=given_up.pk).update(settled_at=NOON)
    assert estimate(seller).count == 1


def test_only_the_latest_hundred_of_ninety_days_count(time: Clock, seller: Seller) -> None:
    answered(time, seller, 1)
    row = seller.operations.get()
    row.__class__.objects.filter(pk=row.pk).update(settled_at=NOON - timedelta(days=90, seconds=1))
    assert estimate(seller).count == 0
