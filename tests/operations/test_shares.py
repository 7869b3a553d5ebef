"""No seller gets more than its share of a batch while others are due."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable

import pytest

from tasks_app import clock
from tasks_app.operations.claims import shares
from tasks_app.operations.dispatch import Call, claim_polls, claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tests.factories import make_seller
from tests.operations.making import ask, stand


@pytest.mark.parametrize(
    ("waiting", "out", "limit", "given"),
    [
        # The slow one, alone, leaves a part for whoever comes.
        ({"a": 40}, {}, 8, {"a": 7}),
        # Together they take turns; who wants little gets all of it.
        ({"a": 40, "b": 1}, {}, 8, {"a": 7, "b": 1}),
        ({"a": 40, "b": 40}, {}, 8, {"a": 4, "b": 4}),
        ({"a": 40, "b": 40, "c": 1}, {}, 8, {"a": 4, "b": 3, "c": 1}),
        # What is out counts: the one that is slow gets nothing more while the other catches up.
        ({"a": 40, "b": 40}, {"a": 5}, 3, {"b": 3}),
        ({"a": 40}, {"a": 7}, 1, {}),
        ({"a": 0, "b": 2}, {}, 8, {"b": 2}),
        ({}, {}, 8, {}),
    ],
)
def test_who_has_the_fewest_calls_out_is_next(
    waiting: dict[str, int], out: dict[str, int], limit: int, given: dict[str, int]
) -> None:
    assert shares(waiting, out, limit=limit, batch=8) == given  # type: ignore[arg-type]


def to_send(seller: Seller) -> Operation:
    return ask("get_products", seller=seller)


def to_look_at(seller: Seller) -> Operation:
    made = uuid.uuid4().hex
    return stand(S.SUBMITTED, seller=seller, task_id=made, next_poll_at=clock.now())


CLAIMS = pytest.mark.parametrize(
    ("due", "claim"), [(to_send, claim_sends), (to_look_at, claim_polls)], ids=["sends", "polls"]
)


@pytest.mark.django_db
@CLAIMS
def test_a_seller_with_as_many_slots_as_the_batch_delays_only_itself(
    due: Callable[[Seller], Operation], claim: Callable[..., list[Call]]
) -> None:
    slow, quick = make_seller("Slow", slots=500), make_seller("Quick", slots=5)
    for _ in range(20):
        due(slow)
    other = due(quick)

    calls = claim(limit=8, batch=8)
    assert Counter(call.seller_id for call in calls) == {slow.pk: 7, quick.pk: 1}
    assert other.pk in {call.operation_id for call in calls}


@pytest.mark.django_db
@CLAIMS
@pytest.mark.parametrize("slots", [500, 31, 29])
def test_one_that_is_due_later_finds_a_place(
    due: Callable[[Seller], Operation], claim: Callable[..., list[Call]], slots: int
) -> None:
    """Also where the seller's slots do not quite fill the batch."""
    slow, quick = make_seller("Slow", slots=slots), make_seller("Quick", slots=5)
    for _ in range(40):
        due(slow)
    out = Counter(call.seller_id for call in claim(limit=32, batch=32))
    assert out == {slow.pk: 28}
    due(quick)

    assert [call.seller_id for call in claim(limit=4, out=out, batch=32)] == [quick.pk]
