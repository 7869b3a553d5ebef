"""Deadlines by type, and what people decide when one has passed."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide, approvals_expire_due
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations import deadlines, publish
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_one, claim_polls, claim_sends
from tasks_app.operations.lookup import NOT_FOUND, SEVERAL
from tasks_app.operations.models import PENDING, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.publish import publish_due
from tasks_app.sellers.models import Seller
from tests.clocks import Clock
from tests.factories import make_user
from tests.operations.making import TASK, answer, ask, fresh, hours, leased_until, see, silent, stand, unknown

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("status", [S.CALLING_ADCP, *PENDING])
def test_overdue_at_the_deadline_and_not_before(status: str, still: Clock) -> None:
    asked = {"looked_up_at": clock.now()} if status == S.CALLING_ADCP else {}
    operation = stand(status, **asked)

    still.forward(hours(24) - timedelta(seconds=1))
    assert time_out_due(limit=10) == 0
    still.forward(timedelta(seconds=1))
    assert time_out_due(limit=10) == 1

    operation = fresh(operation)
    assert (operation.status, operation.overdue_at) == (S.TIMED_OUT, still.now)
    assert operation.published_at is None
    assert bool(operation.next_poll_at) == (status != S.CALLING_ADCP), "a late answer is still taken"
    assert (operation.send_at, leased_until(operation)) == (None, None)
    assert Approval.objects.get().subject_id == operation.pk
    assert verify_entity("operation", operation.pk).ok


@pytest.mark.parametrize(
    ("task_type", "limit"), [("update_media_buy", hours(12)), ("get_products", hours(1 / 6))]
)
def test_each_type_has_its_own_deadline(task_type: str, limit: timedelta, still: Clock) -> None:
    stand(S.SUBMITTED, task_type)

    still.forward(limit - timedelta(seconds=1))
    assert time_out_due(limit=10) == 0
    still.forward(timedelta(seconds=1))
    assert time_out_due(limit=10) == 1


def test_the_time_it_was_held_for_people_is_not_the_sellers(still: Clock) -> None:
    operation = ask()
    still.forward(hours(23))
    claim_one(operation_id=operation.pk)

    still.forward(hours(2))
    assert time_out_due(limit=10) == 0
    assert fresh(operation).deadline_at == still.now + hours(22)


def test_an_overdue_read_is_given_up_without_asking_and_no_more_looked_at(still: Clock) -> None:
    operation = stand(S.SUBMITTED, "get_products")
    still.forward(hours(1))

    time_out_due(limit=10)

    operation = fresh(operation)
    assert not Approval.objects.exists()
    assert operation.settled_at == still.now
    assert operation.next_poll_at is None
    assert publish_due(limit=10) == 1


@pytest.fixture
def overdue(still: Clock) -> Operation:
    """A submitted purchase past its deadline, put to people."""
    operation = stand(S.SUBMITTED)
    still.forward(hours(25))
    time_out_due(limit=10)
    return fresh(operation)


def decide(verdict: str, role: str = "Approver") -> None:
    approval_decide(
        approval_id=Approval.objects.get(status="open").pk,
        user=make_user(role),
        verdict=verdict,
        comment="So.",
    )


def test_keep_waiting_sets_a_new_deadline_and_looks_at_once(overdue: Operation, still: Clock) -> None:
    decide("approve")

    operation = fresh(overdue)
    assert (operation.status, operation.deadline_at) == (S.SUBMITTED, still.now + hours(24))
    assert operation.overdue_at is not None, "a completion now is still a person's"
    assert [call.operation_id for call in claim_polls(limit=5, out=Counter())] == [operation.pk]
    still.forward(hours(24))
    assert time_out_due(limit=10) == 1
    assert Approval.objects.filter(status="open").count() == 1, "asked again"


def test_waiting_longer_is_counted_in_the_sellers_business_hours(still: Clock) -> None:
    """Friday 16:00 in New York; a desk that is there 8 hours a day has had 24 of them on Wednesday, 16:00."""
    still.now = datetime(2026, 11, 20, 21, 0, tzinfo=UTC)
    operation = stand(S.SUBMITTED)
    week = {"zone": "America/New_York", "weekdays": [1, 2, 3, 4, 5], "from": "09:00", "to": "17:00"}
    Seller.objects.update(business_hours=week)
    Operation.objects.update(deadline_at=still.now)
    time_out_due(limit=10)
    assert "Mon-Fri 09:00-17:00" in Approval.objects.get().evidence["more_time"]

    decide("approve")

    assert fresh(operation).deadline_at == datetime(2026, 11, 25, 21, 0, tzinfo=UTC)


def test_giving_up_publishes_and_a_late_end_is_taken(overdue: Operation, monkeypatch: Any) -> None:
    told: list[str] = []
    monkeypatch.setattr(publish, "_listeners", [lambda ended: told.append(ended.status)])

    decide("reject")
    assert publish_due(limit=10) == 1
    assert fresh(overdue).status == S.TIMED_OUT
    see(overdue, answer("completed", task_id=TASK), "poll")
    assert publish_due(limit=10) == 1
    assert publish_due(limit=10) == 0

    assert told == [S.TIMED_OUT, S.COMPLETED]


def test_nobody_deciding_asks_again_and_changes_nothing(overdue: Operation, still: Clock) -> None:
    first = Approval.objects.get()
    still.forward(hours(25))

    assert approvals_expire_due() == 1

    first.refresh_from_db()
    assert first.status == "expired"
    assert Approval.objects.get(status="open").subject_id == overdue.pk
    assert fresh(overdue).status == S.TIMED_OUT


def test_an_answer_while_the_question_is_open_wins(overdue: Operation) -> None:
    see(overdue, answer("completed", task_id=TASK), "webhook")

    with pytest.raises(DecisionRefusedError, match="gone"):
        decide("reject")
    assert fresh(overdue).status == S.COMPLETED


def test_keep_waiting_for_a_call_nobody_answered_sends_the_same_again(still: Clock) -> None:
    operation = _unanswered(still, ttl_s=7 * 86_400)

    decide("approve")

    call = claim_sends(limit=5, out=Counter())[0]
    assert call.operation_id == operation.pk
    assert call.arguments["idempotency_key"] == operation.idempotency_key
    see(operation, answer("submitted", task_id=TASK))
    assert (fresh(operation).send_at, fresh(operation).task_id) == (None, TASK)
    assert fresh(operation).next_poll_at is not None


def test_keep_waiting_never_sends_again_what_was_taken_without_a_task_id(still: Clock) -> None:
    """The seller queued it and named no task: past the replay window the same key would buy a second time."""
    operation = ask()
    operation.seller.idempotency_ttl_s = 3600
    operation.seller.save()
    claim_one(operation_id=operation.pk)
    see(operation, answer("submitted"))
    still.forward(hours(25))
    time_out_due(limit=10)

    decide("approve")

    assert fresh(operation).status == S.SUBMITTED
    assert claim_sends(limit=5, out=Counter()) == []
    it_is_looked_up_and_found(operation, still)


def test_keep_waiting_though_its_seller_shows_several_lasts_until_the_new_deadline(still: Clock) -> None:
    """Unless it shows others than people have been asked about."""
    operation = _unanswered(still, ttl_s=3600)
    two, three = (
        unknown(SEVERAL, message=f"The seller shows more than one: {names}.") for names in ("a", "b")
    )
    decide("approve")
    assert len(claim_polls(limit=5, out=Counter())) == 1
    see(operation, two, "reconcile")
    assert time_out_due(limit=5) == 1, "which of them it is, a person says"
    decide("approve")

    for _ in range(2):
        assert [call.lookup is not None for call in claim_polls(limit=5, out=Counter())] == [True]
        see(operation, two, "reconcile")
        assert time_out_due(limit=5) == 0
        still.forward(hours(1))
    assert fresh(operation).status == S.SUBMITTED
    assert len(claim_polls(limit=5, out=Counter())) == 1
    see(operation, three, "reconcile")
    assert time_out_due(limit=5) == 1


def it_is_looked_up_and_found(operation: Operation, still: Clock) -> None:
    """At once, and again while nothing is shown; what is shown then ends it."""
    for _ in range(2):
        assert [call.lookup is not None for call in claim_polls(limit=5, out=Counter())] == [True]
        see(operation, unknown(NOT_FOUND), "reconcile")
        assert fresh(operation).status == S.SUBMITTED
        still.forward(hours(1))
    assert [call.lookup is not None for call in claim_polls(limit=5, out=Counter())] == [True]
    see(operation, answer("completed", payload={"media_buy_id": "mb-1"}), "reconcile")
    assert fresh(operation).status == S.COMPLETED


def test_keep_waiting_never_sends_what_the_seller_no_longer_recognises(still: Clock) -> None:
    operation = _unanswered(still, ttl_s=3600)

    decide("approve")

    assert fresh(operation).status == S.SUBMITTED
    assert claim_sends(limit=5, out=Counter()) == []
    it_is_looked_up_and_found(operation, still)


@pytest.mark.parametrize("ttl_s", [None, 3600])
def test_past_the_replay_window_a_purchase_of_unknown_outcome_is_a_persons(
    ttl_s: int | None, still: Clock
) -> None:
    operation = ask()
    operation.seller.idempotency_ttl_s, operation.seller.idempotency_risk_accepted_by = ttl_s, "human:1"
    operation.seller.save()
    claim_one(operation_id=operation.pk)
    see(operation, silent())
    still.forward(hours(1))

    assert claim_sends(limit=5, out=Counter()) == []
    assert time_out_due(limit=5) == 0, "the seller is asked first"
    assert [call.lookup is not None for call in claim_polls(limit=5, out=Counter())] == [True]
    see(operation, unknown(NOT_FOUND), "reconcile")
    assert time_out_due(limit=5) == 1

    operation = fresh(operation)
    assert (operation.status, operation.attempts) == (S.TIMED_OUT, 1)
    assert "before buying again" in Approval.objects.get().evidence["last_message"]


def test_within_the_replay_window_the_same_is_sent_again(still: Clock) -> None:
    operation = ask()
    claim_one(operation_id=operation.pk)
    see(operation, silent())
    still.forward(hours(20))

    assert [call.operation_id for call in claim_sends(limit=5, out=Counter())] == [operation.pk]


def test_one_that_cannot_be_put_to_people_stops_no_other(monkeypatch: Any, still: Clock) -> None:
    first, second = stand(S.SUBMITTED), stand(S.SUBMITTED, task_id="task-2")
    asked: list[Operation] = []

    def listener(operation: Operation) -> None:
        if operation == first:
            raise RuntimeError("no")
        asked.append(operation)

    monkeypatch.setattr(deadlines, "_listeners", [listener])
    still.forward(hours(25))

    assert time_out_due(limit=10) == 1
    assert asked == [second]
    assert (fresh(first).status, fresh(second).status) == (S.TIMED_OUT, S.TIMED_OUT)
    monkeypatch.setattr(deadlines, "_listeners", [asked.append])
    assert time_out_due(limit=10) == 0, "it was put back for a while"
    still.forward(timedelta(seconds=5))
    assert time_out_due(limit=10) == 1
    assert asked == [second, first], "nobody is told twice"


def _unanswered(still: Clock, *, ttl_s: int) -> Operation:
    operation = ask()
    operation.seller.idempotency_ttl_s = ttl_s
    operation.seller.save()
    claim_one(operation_id=operation.pk)
    see(operation, silent())
    Operation.objects.filter(pk=operation.pk).update(looked_up_at=still.now)
    still.forward(hours(25))
    time_out_due(limit=10)
    return fresh(operation)
