"""SIGKILL between any two statements of a decision about a late purchase (of a refusal, before every third),
and of a contradiction; and both at once from two processes."""

from __future__ import annotations

import pytest

from orders.models import Deal
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Observation, Operation
from tests.database import Database
from tests.factories import make_seller, make_user
from tests.operations import mortal
from tests.operations.mortal import lives
from tests.operations.racing import race
from tests.orders.late import booking, bought, fresh, overdue, say
from tests.rounds import kill_points, rounds


@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_a_decision_about_a_late_purchase_is_whole_or_not_there(committed_db: Database, verdict: str) -> None:
    user = make_user("Approver")
    seen = set()
    with lives("decide_on") as die:
        for number in kill_points(every=3):
            deal, _ = late_and_given_up(number, user)
            asked = Approval.objects.get(kind="unclaimed", subject_id=deal.pk)
            killed = die(number, asked.pk, user.pk, verdict)
            parts = effects(asked, deal)
            assert len(set(parts)) == 1, parts
            seen.add(parts[0])
            try:
                mortal.decide(str(asked.pk), str(user.pk), verdict)
            except DecisionRefusedError:
                assert parts[0], "it was decided"
            assert set(effects(asked, deal)) == {True}
            assert Deal.objects.filter(follows=deal).count() == (1 if verdict == "approve" else 0)
            assert verify_entity("deal", deal.pk).ok
            if not killed:
                break
    assert seen == {True, False}


def late_and_given_up(number: int, user: object) -> tuple[Deal, Operation]:
    """A deal that was given up and whose purchase came after all."""
    from tasks_app.operations.publish import publish

    deal, operation = booking(make_seller(f"Seller {number}"), user)  # type: ignore[arg-type]
    overdue(operation)
    asked = Approval.objects.get(kind="overdue", subject_id=operation.pk)
    mortal.decide(str(asked.pk), str(user.pk), "reject")  # type: ignore[attr-defined]
    publish(operation_id=operation.pk)
    say(operation, "completed", bought(deal, f"mb-{number}"))
    return fresh(deal), operation


def effects(asked: Approval, deal: Deal) -> tuple[bool, ...]:
    """Whether the answer, the decision and what follows from it are there."""
    asked.refresh_from_db()
    kept = Deal.objects.filter(follows=deal, status="booked").exists()
    cancelled = Operation.objects.filter(task_type="update_media_buy", subject_id=deal.pk).exists()
    return asked.status in ("approved", "rejected"), asked.decisions.exists(), kept or cancelled


def test_a_contradiction_is_kept_with_its_question_or_not_there(committed_db: Database) -> None:
    seen = set()
    with lives("contradict") as die:
        for number in kill_points(every=2):
            operation = settled(number)
            killed = die(number, operation.pk)
            parts = conflict_parts(operation)
            assert len(set(parts)) == 1, parts
            seen.add(parts[0])
            mortal.contradict(str(operation.pk))
            assert set(conflict_parts(operation)) == {True}
            assert Conflict.objects.filter(operation=operation).count() == 1
            if not killed:
                break
    assert seen == {True, False}
    assert number > 5


def settled(number: int) -> Operation:
    deal, operation = booking(make_seller(f"Seller {number}"))
    say(operation, "completed", bought(deal, f"mb-{number}"))
    return operation


def conflict_parts(operation: Operation) -> tuple[bool, ...]:
    found = Conflict.objects.filter(operation=operation)
    return (
        Observation.objects.filter(operation=operation, outcome="conflict").exists(),
        found.exists(),
        Approval.objects.filter(kind="conflict", subject_id__in=found.values("pk"), status="open").exists(),
    )


def test_told_by_two_processes_at_once_it_is_opened_once(committed_db: Database) -> None:
    times = rounds(3, 8)
    operations = [str(settled(number).pk) for number in range(times)]
    race(("contradict", operations), ("contradict", operations))
    assert Observation.objects.filter(outcome="conflict").count() == 2 * times
    assert Conflict.objects.count() == times
    assert Approval.objects.filter(kind="conflict", status="open").count() == times
