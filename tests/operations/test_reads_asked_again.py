"""A read that was called more than once is answered more than once, each time as things stand then: no
contradiction of its seller's, and nobody is asked."""

from __future__ import annotations

from typing import Any

import pytest

from tasks_app import clock
from tasks_app.adcp.types import TERMINAL_STATUSES, Seen
from tasks_app.approvals.models import Approval
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.dispatch import claim_sends, finish
from tasks_app.operations.lease import CallLease
from tasks_app.operations.models import READS, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tests.factories import make_seller
from tests.operations.making import answer, ask, failed, fresh, hours, see, stand

pytestmark = pytest.mark.django_db
ENDS = tuple(sorted(TERMINAL_STATUSES))


def told(status: str, moment: str) -> Seen:
    """An end that is told otherwise at every moment."""
    if status == "failed":
        return failed(f"AS_OF_{moment}")
    return answer(status, payload={"media_buys": [], "status_as_of": moment})


def called_twice(operation: Operation) -> list[Any]:
    """Its calls, both out: the lease of the first ran out, for its worker was slow or the database away."""
    calls = []
    for _ in range(2):
        calls += claim_sends(limit=1)
        CallLease.objects.all().delete()
    assert [call.operation_id for call in calls] == [operation.pk] * 2
    return calls


CASES = [
    *((task_type, "completed", "completed") for task_type in sorted(READS)),
    *(("get_media_buys", first, later) for first in ENDS for later in ENDS),
]


@pytest.mark.parametrize(("task_type", "first", "later"), CASES)
def test_the_answer_to_another_call_of_a_read_contradicts_nothing(
    task_type: str, first: str, later: str
) -> None:
    operation = ask(task_type, seller=make_seller(tools=[task_type]))
    one, another = called_twice(operation)
    finish([(one, told(first, "1"))])
    ended = fresh(operation)

    finish([(another, told(later, "2"))])

    assert not Conflict.objects.exists()
    assert not Approval.objects.exists()
    now = fresh(operation)
    assert (now.status, now.result, now.error) == (ended.status, ended.result, ended.error), (
        "the first stands"
    )
    assert list(outcomes(operation)) == ["applied", "stale"]


@pytest.mark.parametrize("status", ["submitted", "working", "completed"])
def test_another_call_of_a_read_may_have_a_task_of_its_own(status: str) -> None:
    operation = ask("get_products")
    one, another = called_twice(operation)
    finish([(one, answer("submitted", task_id="task-1"))])
    due = fresh(operation).next_poll_at

    finish([(another, answer(status, task_id="task-2"))])

    assert not Conflict.objects.exists()
    now = fresh(operation)
    assert (now.status, now.task_id, now.next_poll_at) == (S.SUBMITTED, "task-1", due), (
        "the first is followed"
    )
    assert list(outcomes(operation)) == ["applied", "stale"]


def test_the_task_of_a_read_that_was_called_once_never_changes() -> None:
    operation = stand(S.SUBMITTED, "get_products")
    see(operation, answer("completed", task_id="another"))
    assert Conflict.objects.get().kind == Conflict.Kind.TASK


def test_looks_at_one_task_of_a_read_contradict_each_other_however_often_it_was_called() -> None:
    operation = stand(S.SUBMITTED, "get_products", attempts=2)
    see(operation, told("completed", "1"), "poll")
    see(operation, told("completed", "2"), "poll")
    assert Conflict.objects.get().kind == Conflict.Kind.TERMINAL


def test_a_purchase_that_was_called_twice_has_one_answer_under_its_key() -> None:
    operation = ask("create_media_buy")
    one, another = called_twice(operation)
    finish([(one, answer("completed"))])
    finish([(another, answer("completed", payload={"media_buy_id": "mb-2", "packages": []}))])
    assert Conflict.objects.get().kind == Conflict.Kind.TERMINAL


def test_what_is_answered_after_our_answer_is_about_the_one_task() -> None:
    operation = stand(S.WORKING, "get_products", attempts=2)
    Continuation.objects.create(
        operation=operation,
        generation=1,
        descriptor="{}",
        asked="Which country?",
        expires_at=clock.now() + hours(1),
        dispatched_at=clock.now(),
    )
    see(operation, answer("completed", task_id="another"))
    assert Conflict.objects.get().kind == Conflict.Kind.TASK


def outcomes(operation: Operation) -> Any:
    seen = Observation.objects.filter(operation=operation).order_by("id")
    return seen.values_list("outcome", flat=True)
