"""What people gave up is looked at for a while, and then no more; what comes of itself is taken for ever."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings

from tasks_app import clock
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_polls
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.overdue import give_up
from tasks_app.sellers.models import Seller
from tests.operations.making import answer, fresh, give_back, see, silent, stand

pytestmark = pytest.mark.django_db


def given_up() -> Operation:
    operation = stand(S.TIMED_OUT)
    time_out_due(limit=10)
    give_up(fresh(operation))
    return fresh(operation)


@pytest.mark.parametrize("told", [silent(), answer("working", task_id="task-1")], ids=["silent", "working"])
def test_looks_end(told: Any, settings: Any) -> None:
    settings.LOOK_AFTER_GIVING_UP = timedelta(hours=3)  # an hour apart, with jitter
    operation = given_up()
    looks, moment = 0, operation.next_poll_at
    while moment is not None:
        with clock.injected(lambda moment=moment: moment):
            assert len(claim_polls(limit=5)) == 1
            see(operation, told, "poll")
        looks, last, moment = looks + 1, moment, fresh(operation).next_poll_at
        assert looks < 20
    assert 2 < looks < 5
    assert last >= operation.settled_at + settings.LOOK_AFTER_GIVING_UP

    see(operation, answer("completed", task_id="task-1"), "webhook")
    assert fresh(operation).status == S.COMPLETED


def test_of_a_seller_that_cannot_be_asked_too() -> None:
    operation = given_up()
    Seller.objects.update(tools=["create_media_buy"])
    for days, looked_at in ((1, True), (8, False)):
        moment = operation.settled_at + timedelta(days=days)
        Operation.objects.update(next_poll_at=moment)
        with clock.injected(lambda moment=moment: moment):
            assert claim_polls(limit=5) == []
        assert (fresh(operation).next_poll_at is not None) == looked_at
        give_back(operation.pk)
    assert timedelta(days=7) == settings.LOOK_AFTER_GIVING_UP


def test_what_is_overdue_and_not_given_up_is_looked_at_on() -> None:
    operation = stand(S.TIMED_OUT)
    time_out_due(limit=10)
    later = clock.now() + timedelta(days=30)
    with clock.injected(lambda: later):
        see(operation, silent(), "poll")
    assert fresh(operation).next_poll_at > later
