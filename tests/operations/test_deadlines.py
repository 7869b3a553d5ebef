"""What is overdue moves in one statement; who asks people about it is told once, also after a crash."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tasks_app import clock
from tasks_app.lifecycle.transitions import transition
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations import deadlines, publish
from tasks_app.operations.asking import operation_release
from tasks_app.operations.models import PENDING, Operation
from tasks_app.operations.models import OperationStatus as S
from tests.factories import make_seller
from tests.operations.making import answer, ask, fresh, see, stand

pytestmark = pytest.mark.django_db


@pytest.fixture
def told(monkeypatch: Any) -> list[Operation]:
    heard: list[Operation] = []
    monkeypatch.setattr(deadlines, "_listeners", [heard.append])
    return heard


def late(operation: Operation, **columns: Any) -> Operation:
    columns = {"deadline_at": clock.now() - timedelta(seconds=1), **columns}
    Operation.objects.filter(pk=operation.pk).update(**columns)
    return fresh(operation)


def test_all_that_are_due_move_in_one_statement(told: list[Operation]) -> None:
    seller = make_seller()
    due = [
        late(stand(status, seller=seller, task_id=f"t-{status}-{n}")) for status in PENDING for n in range(3)
    ]
    late_read = late(stand(S.CALLING_ADCP, "get_products", seller=seller))
    stand(S.SUBMITTED, seller=seller, task_id="t-in-time")

    with CaptureQueriesContext(connection) as asked:
        moved = deadlines.mark_overdue(limit=100)

    assert moved == len(due) + 1
    assert len([q for q in asked.captured_queries if "fd_move" in q["sql"]]) == 1
    assert {fresh(operation).status for operation in (*due, late_read)} == {S.TIMED_OUT}
    assert Operation.objects.filter(status=S.TIMED_OUT).count() == moved
    assert told == [], "told in commits of their own"
    assert verify_entity("operation", due[0].pk).ok


@pytest.mark.usefixtures("still")
def test_a_crash_between_the_move_and_the_telling_is_healed_and_nobody_is_told_twice(
    told: list[Operation],
) -> None:
    operation = late(stand(S.SUBMITTED))
    deadlines.mark_overdue(limit=10)
    # Here a worker is killed: the next one's pass finds it.

    assert deadlines.time_out_due(limit=10) == 1
    assert deadlines.time_out_due(limit=10) == 0

    assert told == [operation]
    assert fresh(operation).next_poll_at > clock.now(), "a late answer is still taken"


def test_a_listener_that_fails_leaves_it_untold(monkeypatch: Any) -> None:
    def no(_operation: Operation) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(deadlines, "_listeners", [no])
    operation = late(stand(S.SUBMITTED))

    assert deadlines.time_out_due(limit=10) == 0
    assert (fresh(operation).status, fresh(operation).overdue_told_at) == (S.TIMED_OUT, None)


def test_overdue_a_second_time_is_told_a_second_time(told: list[Operation]) -> None:
    operation = late(stand(S.SUBMITTED))
    deadlines.time_out_due(limit=10)
    late(operation, deadline_at=None)
    past = clock.now() - timedelta(seconds=1)
    transition(fresh(operation), S.SUBMITTED, actor="system", changes={"deadline_at": past})

    assert deadlines.time_out_due(limit=10) == 1
    assert told == [operation, operation]


def test_one_that_was_answered_before_it_was_told_of_is_not_told(told: list[Operation]) -> None:
    operation = late(stand(S.SUBMITTED))
    deadlines.mark_overdue(limit=10)
    see(operation, answer("completed"), "webhook")

    assert deadlines.tell_overdue(limit=10) == 0
    assert told == []
    assert fresh(operation).status == S.COMPLETED


def test_what_was_never_sent_fails_and_what_is_held_for_people_does_not(monkeypatch: Any) -> None:
    published: list[str] = []
    monkeypatch.setattr(publish, "_listeners", [lambda operation: published.append(operation.reference)])
    unsent, held = late(ask()), late(ask(held=True))

    deadlines.time_out_due(limit=10)
    publish.publish_due(limit=10)

    unsent = fresh(unsent)
    assert (unsent.status, unsent.error["code"]) == (S.FAILED, deadlines.NEVER_SENT)
    assert (unsent.sent_at, unsent.send_at, unsent.attempts) == (None, None, 0)
    assert published == [unsent.reference]
    assert fresh(held).status == S.REQUESTED
    operation_release(operation=held)
    assert deadlines.fail_unsent(limit=10) == 0, "its deadline counts from its release"


def test_a_limit_is_kept_and_the_rest_follows(told: list[Operation]) -> None:
    for number in range(5):
        late(stand(S.SUBMITTED, task_id=f"t-{number}"))

    assert [deadlines.time_out_due(limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert len(told) == 5
