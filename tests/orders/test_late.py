"""Overdue purchases: nothing moves by itself; a completion seen while overdue is always a person's."""

from __future__ import annotations

from datetime import timedelta

import pytest

from orders.models import Deal
from orders.unclaimed.question import UNCLAIMED
from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.presenters import effects_of
from tasks_app.approvals.services import approvals_expire_due
from tasks_app.jobs.models import Job, StepStatus
from tasks_app.jobs.worker import drain
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.publish import publish, publish_due
from tests.operations.making import observed
from tests.orders.late import (
    BUY,
    booking,
    bought,
    cancellation,
    decide,
    fresh,
    give_up,
    overdue,
    say,
)
from tests.orders.test_one_door import comes

pytestmark = pytest.mark.django_db


def test_overdue_moves_neither_step_nor_deal() -> None:
    deal, operation = booking()
    drain()
    job = Job.objects.get(subject_id=deal.pk)
    before = job.steps.get(key="buy").status

    overdue(operation)
    publish(operation_id=operation.pk)
    drain()

    assert (before, job.steps.get(key="buy").status) == (StepStatus.AWAITING_TOOL,) * 2
    assert fresh(deal).status == "booking"


def test_giving_up_fails_deal_and_step_and_leaves_the_operation_overdue() -> None:
    deal, operation = booking()
    drain()
    give_up(operation)
    drain()
    operation.refresh_from_db()
    assert (operation.status, operation.settled_at is not None) == (S.TIMED_OUT, True)
    assert fresh(deal).status == "failed"
    assert Job.objects.get(subject_id=deal.pk).status == "COMPLETED", "it goes on without this deal"


def test_given_up_and_completed_before_it_was_told_is_still_a_persons() -> None:
    """A worker dies between the decision and its effects, and the seller answers in between."""
    deal, operation = booking()
    give_up(operation, published=False)
    say(operation, "completed", bought(deal))
    assert fresh(deal).status == "booking"
    decide(UNCLAIMED, "approve")
    assert (fresh(deal).status, fresh(deal).media_buy_id) == ("booked", BUY)
    assert Deal.objects.count() == 1


@pytest.mark.parametrize("end", ["failed", "rejected", "canceled"])
def test_an_end_without_a_purchase_asks_nobody(end: str) -> None:
    deal, operation = booking()
    overdue(operation)
    say(operation, end)
    assert fresh(deal).status == ("cancelled" if end == "canceled" else "failed")
    assert not Approval.objects.filter(kind=UNCLAIMED).exists()
    assert not Approval.objects.filter(kind="overdue", status="open").exists()


def test_completed_after_somebody_kept_waiting_is_a_persons() -> None:
    deal, operation = booking()
    overdue(operation)
    decide("overdue", "approve")
    say(operation, "completed", bought(deal))
    assert fresh(deal).status == "booking"
    assert Approval.objects.filter(kind=UNCLAIMED, status="open").count() == 1


@pytest.mark.parametrize("given_up", [False, True])
@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_what_was_refused_without_a_name_is_put_to_people_when_it_has_one(
    verdict: str, given_up: bool
) -> None:
    deal, operation = booking()
    (give_up if given_up else overdue)(operation)
    nothing = Seen(kind="answer", status="completed", task_id=f"task-{operation.reference}", partial=True)
    observed(operation_id=operation.pk, seen=nothing, channel="poll")
    later = clock.now() + timedelta(minutes=6)
    with clock.injected(lambda: later):
        assert publish_due(limit=10) == 1
        decide(UNCLAIMED, "reject")
        assert comes(operation, bought(deal)) == "applied"
    asked = Approval.objects.get(kind=UNCLAIMED, status="open")
    assert "could be cancelled" not in effects_of(asked)["reject"]
    decide(UNCLAIMED, verdict)
    if verdict == "approve":
        assert Deal.objects.get(follows=deal).media_buy_id == BUY
    else:
        assert cancellation().request["media_buy_id"] == BUY


def test_nobody_deciding_asks_again() -> None:
    deal, operation = booking()
    give_up(operation)
    say(operation, "completed", bought(deal))
    late = clock.now() + timedelta(hours=25)
    with clock.injected(lambda: late):
        approvals_expire_due()
    assert Approval.objects.filter(kind=UNCLAIMED).count() == 2
    assert fresh(deal).status == "failed"


def booked() -> Deal:
    deal, operation = booking()
    say(operation, "completed", bought(deal))
    return fresh(deal)
