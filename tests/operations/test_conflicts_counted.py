"""One contradiction of a kind is open for an operation; what else comes meanwhile is counted with it."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.ids import new_id
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Observation
from tasks_app.operations.models import OperationStatus as S
from tests.factories import make_user
from tests.operations.making import answer, see, stand

pytestmark = pytest.mark.django_db


def test_a_seller_that_renames_its_task_at_every_look_puts_one_question() -> None:
    operation = stand(S.SUBMITTED, next_poll_at=clock.now())
    for look in range(20):
        see(operation, answer("working", task_id=f"run-{look}"), "poll")
    conflict = Conflict.objects.get()
    assert (conflict.second["task_id"], conflict.more) == ("run-0", 19)
    assert Approval.objects.get(kind="conflict").status == "open"
    assert Observation.objects.filter(operation=operation, outcome="conflict").count() == 20, "each is kept"


def test_the_same_again_is_not_counted() -> None:
    operation = stand(S.SUBMITTED, next_poll_at=clock.now())
    for _ in range(3):
        see(operation, answer("working", task_id="another"), "poll")
    assert Conflict.objects.get().more == 0


def decide(verdict: str = "approve") -> None:
    asked = Approval.objects.get(kind="conflict", status="open")
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict=verdict, comment="Stay.")


def test_the_database_has_one_open_contradiction_of_a_kind() -> None:
    operation = stand(S.SUBMITTED, next_poll_at=clock.now())
    see(operation, answer("working", task_id="another"), "poll")
    beside = Conflict.objects.get()
    beside.pk, beside.reference, beside.digest = new_id(), "CFL-2", "another"
    with transaction.atomic(), pytest.raises(IntegrityError, match="one_open_conflict_per_kind"):
        beside.save(force_insert=True)


def test_another_kind_and_what_comes_after_the_decision_are_asked_about() -> None:
    operation = stand(S.SUBMITTED, next_poll_at=clock.now())
    see(operation, answer("working", task_id="another"), "poll")
    asked = Approval.objects.get(kind="conflict")
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve", comment="Stay.")
    see(operation, answer("working", task_id="a third"), "poll")
    assert list(Conflict.objects.order_by("pk").values_list("more", flat=True)) == [0, 0]
    assert Approval.objects.filter(kind="conflict", status="open").count() == 1
