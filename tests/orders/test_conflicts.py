"""A seller that contradicts itself: kept whole, opened once, resolved by people, by declared changes only."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from orders.models import Deal
from orders.questions import DIFFERENT
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.selectors import approvals_waiting_for
from tasks_app.approvals.services import DecisionRefusedError, approval_decide, approvals_expire_due
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.notifications.models import Notification
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.conflicts import choice_words, take_refusal
from tasks_app.operations.models import Operation
from tests.factories import make_user
from tests.operations.making import answer as told
from tests.operations.making import ask, see
from tests.orders.late import (
    BUY,
    booking,
    bought,
    decide,
    fresh,
    say,
)

pytestmark = pytest.mark.django_db


def booked() -> tuple[Deal, Operation]:
    deal, operation = booking()
    say(operation, "completed", bought(deal))
    return fresh(deal), Operation.objects.get(pk=operation.pk)


def contradicted(
    operation: Operation, status: str, payload: dict[str, Any] | None = None, **more: Any
) -> Conflict:
    assert say(operation, status, payload, channel="webhook", **more).outcome == "conflict"
    return Conflict.objects.get(operation=operation)


def test_both_payloads_are_kept_whole_and_a_person_is_asked_once() -> None:
    deal, operation = booked()
    conflict = contradicted(operation, "rejected")
    for _ in range(3):
        assert say(operation, "rejected", channel="poll").outcome == "conflict"

    assert Conflict.objects.count() == 1
    assert (conflict.kind, conflict.team) == (Conflict.Kind.TERMINAL, deal.team)
    assert (conflict.first["status"], conflict.first["channel"]) == ("completed", "poll")
    assert conflict.first["value"] == bought(deal)
    assert conflict.first["body"]["result"] == bought(deal)
    assert (conflict.second["status"], conflict.second["channel"]) == ("rejected", "webhook")
    asked = Approval.objects.get(kind="conflict")
    assert (asked.status, asked.subject_id) == ("open", conflict.pk)
    assert asked.evidence["first"]["value"]["media_buy_id"] == BUY
    assert Notification.objects.filter(kind="conflict", subject_id=conflict.pk).count() == 1
    assert fresh(deal).status == "booked", "what was first stands"


def test_another_contradiction_is_counted_with_the_one_that_is_open() -> None:
    deal, operation = booked()
    contradicted(operation, "rejected")
    say(operation, "completed", bought(deal, budget=1.0))
    assert Conflict.objects.get().more == 1
    assert Approval.objects.filter(kind="conflict", status="open").count() == 1


def test_keeping_the_first_changes_nothing_and_is_not_asked_again() -> None:
    deal, operation = booked()
    conflict = contradicted(operation, "rejected")
    entries = AuditEntry.objects.filter(entity_type="deal").count()
    decide("conflict", "approve")
    conflict.refresh_from_db()
    assert (conflict.resolution, conflict.reason) == ("kept", "So.")
    assert conflict.resolved_by.startswith("human:")
    assert (fresh(deal).status, AuditEntry.objects.filter(entity_type="deal").count()) == ("booked", entries)
    say(operation, "rejected")
    assert not Approval.objects.filter(kind="conflict", status="open").exists()


@pytest.mark.parametrize("end", ["rejected", "failed", "canceled"])
def test_taking_a_refusal_calls_the_deal_off(end: str) -> None:
    deal, operation = booked()
    contradicted(operation, end)
    decide("conflict", "reject")
    assert fresh(deal).status == "cancelled"
    entry = AuditEntry.objects.filter(entity_type="deal", to_status="cancelled").get()
    assert end in entry.reason
    assert entry.actor.startswith("human:")
    assert verify_entity("deal", deal.pk).ok
    assert not Operation.objects.filter(task_type="update_media_buy").exists()


def test_taking_other_terms_of_the_same_buy_flags_what_departs() -> None:
    deal, operation = booked()
    contradicted(operation, "completed", bought(deal, budget=50_000.0))
    decide("conflict", "reject")
    assert (fresh(deal).status, fresh(deal).differs) == ("booked", True)
    assert Approval.objects.filter(kind=DIFFERENT, status="open").exists()


@pytest.mark.parametrize(
    ("status", "payload", "why"),
    [
        ("failed", None, "nothing was bought"),
        ("completed", {"packages": []}, "names no media buy"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_reason(
    status: str, payload: dict[str, Any] | None, why: str
) -> None:
    _, operation = booking()
    say(operation, "rejected")
    conflict = contradicted(Operation.objects.get(pk=operation.pk), status, payload)
    assert why in take_refusal(conflict)
    assert choice_words(conflict)[1] == ""
    with pytest.raises(DecisionRefusedError, match=why):
        decide("conflict", "reject")
    conflict.refresh_from_db()
    assert conflict.resolved_at is None
    assert Approval.objects.get(kind="conflict").decisions.count() == 0


def test_a_media_buy_that_another_deal_holds_is_not_taken() -> None:
    first, _ = booked()
    _, operation = booking(seller=first.seller)
    say(operation, "rejected")
    conflict = contradicted(Operation.objects.get(pk=operation.pk), "completed", bought(first))
    assert BUY in take_refusal(conflict)
    decide("conflict", "approve")
    assert not Operation.objects.filter(task_type="update_media_buy").exists(), "it is not a stray one"


def test_another_task_id_is_a_conflict_and_never_bound() -> None:
    _, operation = booking()
    for _ in range(2):
        conflict = contradicted(operation, "working", task_id="task-other")
    operation.refresh_from_db()
    assert (conflict.kind, conflict.second["task_id"]) == (Conflict.Kind.TASK, "task-other")
    assert (operation.task_id, operation.status) == (f"task-{operation.reference}", "submitted")
    assert "never changes" in take_refusal(conflict)
    decide("conflict", "approve")
    say(operation, "working")
    assert Operation.objects.get(pk=operation.pk).status == "working", "it goes on under its own"


def test_an_open_purchase_told_of_under_another_task_is_not_cancelled() -> None:
    """It may be our own: kept is only that the operation goes on under the task it is bound to."""
    deal, operation = booking()
    conflict = contradicted(operation, "completed", bought(deal), task_id="task-other")
    assert "goes on under the task" in choice_words(conflict)[0]
    decide("conflict", "approve")
    assert not Operation.objects.filter(task_type="update_media_buy").exists()
    say(operation, "completed", bought(deal))
    assert (fresh(deal).status, fresh(deal).media_buy_id) == ("booked", BUY)


def test_news_of_what_was_never_sent_is_a_conflict() -> None:
    operation = ask()
    see(operation, told("completed", task_id="t-1"), "webhook")
    assert Conflict.objects.get().kind == Conflict.Kind.UNSENT


def test_without_a_team_ad_ops_are_told() -> None:
    operation = ask(team=None)
    see(operation, told("completed", task_id="t-1"), "webhook")
    assert Notification.objects.get(kind="conflict").right == "tasks_app.steer_operation"


def test_without_a_team_whoever_may_decide_is_asked() -> None:
    operation, approver = ask(team=None), make_user("Approver")
    see(operation, told("completed", task_id="t-1"), "webhook")
    asked = Approval.objects.get(kind="conflict")
    assert (asked.team, asked.subject_id) == (None, Conflict.objects.get().pk)
    assert asked in approvals_waiting_for(approver)
    approval_decide(approval_id=asked.pk, user=approver, verdict="approve", comment="The first.")
    assert Conflict.objects.get().resolution == Conflict.Resolution.KEPT


def test_nobody_deciding_asks_again() -> None:
    _, operation = booked()
    contradicted(operation, "rejected")
    late = clock.now() + timedelta(hours=25)
    with clock.injected(lambda: late):
        approvals_expire_due()
    assert Approval.objects.filter(kind="conflict").count() == 2
    assert Approval.objects.filter(kind="conflict", status="open").count() == 1
