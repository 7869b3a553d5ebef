"""No seller gets more than its share of a batch while others are due."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks_app import clock
from tasks_app.operations.claims import shares
from tasks_app.operations.dispatch import Call, claim_polls, claim_sends
from tasks_app.operations.lease import CallLease
from tasks_app.operations.leases import leases_release
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tests.factories import make_seller
from tests.operations.making import ask, stand

pytestmark = pytest.mark.deep


def one_by_one(rooms: Mapping[Any, int], out: Mapping[Any, int], *, limit: int, batch: int) -> dict[Any, int]:
    """The rule as it is said: each call goes to who has the fewest out, among equals to the first."""
    given = dict.fromkeys(rooms, 0)
    for _ in range(limit):
        may = [
            pk for pk in rooms if given[pk] < rooms[pk] and out.get(pk, 0) + given[pk] < batch - batch // 8
        ]
        if may:
            given[min(may, key=lambda pk: out.get(pk, 0) + given[pk])] += 1
    return {pk: number for pk, number in given.items() if number}


@pytest.mark.parametrize(
    ("rooms", "out", "limit", "given"),
    [
        # The slow one, alone, leaves a part for whoever comes.
        ({"a": 40}, {}, 8, {"a": 7}),
        # Together they take turns; who may have little gets all of it.
        ({"a": 40, "b": 1}, {}, 8, {"a": 7, "b": 1}),
        ({"a": 40, "b": 40}, {}, 8, {"a": 4, "b": 4}),
        ({"a": 40, "b": 40, "c": 1}, {}, 8, {"a": 4, "b": 3, "c": 1}),
        # What is out counts: the one that is slow gets nothing more while the other catches up.
        ({"a": 40, "b": 40}, {"a": 5}, 3, {"b": 3}),
        ({"a": 40}, {"a": 7}, 1, {}),
        ({"a": 0, "b": 2}, {}, 8, {"b": 2}),
        ({"a": -1, "b": 2}, {"a": 3}, 8, {"b": 2}),
        ({}, {}, 8, {}),
        ({"a": 40}, {}, 0, {}),
    ],
)
def test_who_has_the_fewest_calls_out_is_next(
    rooms: dict[str, int], out: dict[str, int], limit: int, given: dict[str, int]
) -> None:
    assert shares(rooms, out, limit=limit, batch=8) == given  # type: ignore[arg-type]


few = st.integers(min_value=-2, max_value=12)


@given(st.dictionaries(st.sampled_from("abcde"), st.tuples(few, few)), few, st.integers(1, 40))
def test_they_are_shared_out_as_if_one_by_one(
    sellers: dict[str, tuple[int, int]], limit: int, batch: int
) -> None:
    rooms = {pk: room for pk, (room, _) in sellers.items()}
    out = {pk: max(0, number) for pk, (_, number) in sellers.items()}
    limit = max(0, limit)
    told = shares(rooms, out, limit=limit, batch=batch)  # type: ignore[arg-type]
    assert told == one_by_one(rooms, out, limit=limit, batch=batch)


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


@pytest.mark.django_db
@CLAIMS
def test_what_one_of_whom_little_is_due_leaves_is_shared_out_among_the_others(
    due: Callable[[Seller], Operation], claim: Callable[..., list[Call]]
) -> None:
    """Nobody knows before how much is due: the first share of the three is five each."""
    little, middle, much = (make_seller(name, slots=500) for name in ("Little", "Middle", "Much"))
    for seller, count in ((little, 1), (middle, 6), (much, 30)):
        for _ in range(count):
            due(seller)

    calls = claim(limit=15, batch=16)
    assert Counter(call.seller_id for call in calls) == {little.pk: 1, middle.pk: 6, much.pk: 8}
    assert len({call.operation_id for call in calls}) == 15
    assert CallLease.objects.count() == 15


@pytest.mark.django_db
@CLAIMS
def test_where_there_is_room_for_one_the_sellers_have_it_in_turn(
    due: Callable[[Seller], Operation], claim: Callable[..., list[Call]]
) -> None:
    """Each call has ended before the next claim, so none has more out than another."""
    sellers = [make_seller(name, slots=5) for name in ("One", "Two", "Three")]
    for seller in sellers:
        for _ in range(4):
            due(seller)

    taken = []
    for _ in range(6):
        (call,) = claim(limit=1, batch=8)
        taken.append(call.seller_id)
        Operation.objects.filter(pk=call.operation_id).update(send_at=None, next_poll_at=None)
        leases_release([call.lease])
    assert Counter(taken) == {seller.pk: 2 for seller in sellers}
