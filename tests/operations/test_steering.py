"""What people do to operations by hand: who may, when it is possible, what happens, what is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.dispatch import claim_one, claim_polls, claim_sends
from tasks_app.operations.models import PENDING, READS, SETTLED, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.publish import publish_due
from tasks_app.operations.steer_forms import steering_data
from tasks_app.operations.steered import SteeringRefusedError
from tasks_app.operations.steering import (
    conflict_write,
    operation_poll,
    operation_resend,
    operation_settle,
    operation_stop,
)
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User
from tests.factories import make_seller, make_team, make_user
from tests.operations.making import BOUGHT, TASK, answer, ask, failed, fresh, see, stand

pytestmark = pytest.mark.django_db
LETTER = "Letter of the seller, 19 Nov 2026"
Act = Callable[[Operation, User], Any]
ACTS: dict[str, Act] = {
    "poll": lambda operation, user: operation_poll(operation_id=operation.pk, user=user),
    "resend": lambda operation, user: operation_resend(operation_id=operation.pk, user=user, reason="So."),
    "stop": lambda operation, user: operation_stop(operation_id=operation.pk, user=user, reason="So."),
    "settle": lambda operation, user: settle(operation, user),
}


def settle(operation: Operation, user: User, end: str = "completed", **more: Any) -> Approval | None:
    given = {"reason": "So.", "evidence": LETTER, "result": BOUGHT, **more}
    return operation_settle(operation_id=operation.pk, user=user, end=end, **given)


def refused(act: str, operation: Operation, user: User) -> str:
    before = fresh(operation)
    with pytest.raises(SteeringRefusedError) as refusal:
        ACTS[act](operation, user)
    after = fresh(operation)
    assert (after.status, after.version, after.send_at, after.next_poll_at) == (
        before.status,
        before.version,
        before.send_at,
        before.next_poll_at,
    )
    assert not Observation.objects.filter(operation=operation, kind="steered").exists()
    return refusal.value.code


def decide(kind: str, verdict: str = "approve", user: User | None = None) -> Approval:
    asked = Approval.objects.get(kind=kind, status="open")
    return approval_decide(
        approval_id=asked.pk, user=user or make_user("Approver"), verdict=verdict, comment="So."
    )


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("role", ["Buyer", "Approver", "Finance", "Auditor", "Integration"])
def test_only_those_who_steer_may(act: str, role: str) -> None:
    assert refused(act, stand(S.SUBMITTED), make_user(role)) == "no_right"


@pytest.mark.parametrize("act", ACTS)
def test_another_teams_operation_is_not_there(act: str) -> None:
    operation = stand(S.SUBMITTED)
    assert refused(act, operation, make_user("Ad Ops", team=make_team("Another"))) == "not_found"


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("status", [S.REQUESTED, *SETTLED])
def test_what_is_not_with_the_seller_is_not_steered(act: str, status: str, ops: User) -> None:
    assert refused(act, stand(status), ops) == "state"


@pytest.mark.parametrize("act", ["resend", "stop", "settle"])
def test_nothing_is_done_while_a_call_is_out(act: str, ops: User) -> None:
    operation = ask()
    claim_one(operation_id=operation.pk)
    assert refused(act, fresh(operation), ops) == "state"


@pytest.mark.parametrize("act", ["resend", "stop", "settle"])
def test_without_a_reason_nothing_is_done(act: str, ops: User) -> None:
    operation = stand(S.SUBMITTED)
    services: dict[str, Callable[[], Any]] = {
        "resend": lambda: operation_resend(operation_id=operation.pk, user=ops, reason=" "),
        "stop": lambda: operation_stop(operation_id=operation.pk, user=ops, reason=" "),
        "settle": lambda: settle(operation, ops, reason=" "),
    }
    with pytest.raises(SteeringRefusedError) as refusal:
        services[act]()
    assert refusal.value.code == "reason"


@pytest.mark.parametrize("status", [*PENDING, S.TIMED_OUT])
def test_poll_now_makes_it_due_and_keeps_who_asked(status: str, ops: User) -> None:
    operation = stand(status, next_poll_at=clock.now() + timedelta(hours=1))
    operation_poll(operation_id=operation.pk, user=ops)
    assert [call.operation_id for call in claim_polls(limit=5, out=Counter())] == [operation.pk]
    kept = operation.observations.get(kind="steered")
    assert (kept.channel, kept.raw_status, kept.body["by"]) == ("human", "poll now", f"human:{ops.pk}")


def test_a_seller_that_tells_of_no_task_is_not_polled(ops: User) -> None:
    seller = make_seller(tools=["get_products", "create_media_buy"])
    operation = stand(S.SUBMITTED, seller=seller, next_poll_at=clock.now())
    with pytest.raises(SteeringRefusedError, match="Norrland Digital has no tool that tells of a task"):
        operation_poll(operation_id=operation.pk, user=ops)
    assert claim_polls(limit=5, out=Counter()) == []


def test_the_same_is_sent_again_under_the_same_key(ops: User) -> None:
    operation = stand(S.SUBMITTED, task_id="", sent_at=clock.now())
    operation_resend(operation_id=operation.pk, user=ops, reason="They lost it.")
    (call,) = claim_sends(limit=5, out=Counter())
    assert call.arguments["idempotency_key"] == operation.idempotency_key
    assert "They lost it." in operation.observations.get(kind="steered").note


def test_a_resend_that_fails_is_not_repeated_where_the_task_is_known(ops: User) -> None:
    operation = stand(S.SUBMITTED, sent_at=clock.now())
    operation_resend(operation_id=operation.pk, user=ops, reason="So.")
    claim_sends(limit=5, out=Counter())
    see(operation, failed("RATE_LIMITED", "transient"))
    assert (fresh(operation).send_at, fresh(operation).status) == (None, S.SUBMITTED)
    assert fresh(operation).next_poll_at is not None


@pytest.mark.usefixtures("still")
def test_an_overdue_one_is_waited_for_again_when_it_is_resent(ops: User) -> None:
    operation = stand(S.SUBMITTED, sent_at=clock.now())
    operation_stop(operation_id=operation.pk, user=ops, reason="Too slow.")
    operation_resend(operation_id=operation.pk, user=ops, reason="After all.")
    stored = fresh(operation)
    assert (stored.status, stored.send_at is not None) == (S.SUBMITTED, True)
    assert stored.deadline_at is not None
    assert stored.deadline_at > clock.now()
    assert Approval.objects.get(kind="overdue").status == "voided"
    entry = AuditEntry.objects.filter(entity_id=operation.pk).latest("seq")
    assert (entry.actor, entry.reason) == (f"human:{ops.pk}", "After all.")


@pytest.mark.parametrize("ttl_s", [None, 3600])
def test_past_the_replay_window_nothing_is_sent_again(ttl_s: int | None, ops: User) -> None:
    operation = stand(S.SUBMITTED, sent_at=clock.now() - timedelta(hours=2))
    operation.seller.idempotency_ttl_s = ttl_s
    operation.seller.save()
    assert refused("resend", operation, ops) == "state"


def test_a_resend_that_is_due_too_late_is_not_made(ops: User) -> None:
    """The worker was away until the seller had forgotten the key."""
    operation = stand(S.SUBMITTED, sent_at=clock.now())
    operation_resend(operation_id=operation.pk, user=ops, reason="So.")
    much_later = clock.now() + timedelta(days=2)
    with clock.injected(lambda: much_later):
        assert claim_sends(limit=5, out=Counter()) == []


def test_stop_waiting_is_decided_by_somebody_else(ops: User) -> None:
    operation = stand(S.SUBMITTED)
    operation_stop(operation_id=operation.pk, user=ops, reason="They closed the desk.")
    stored = fresh(operation)
    assert (stored.status, stored.settled_at, stored.overdue_at is not None) == (S.TIMED_OUT, None, True)
    asked = Approval.objects.get(kind="overdue")
    assert (asked.evidence["stop_because"], asked.requested_by) == (
        "They closed the desk.",
        f"human:{ops.pk}",
    )
    assert publish_due(limit=5) == 0, "nothing has failed yet"
    decide("overdue", "reject")
    assert fresh(operation).settled_at is not None
    assert fresh(operation).status == S.TIMED_OUT
    assert verify_entity("operation", operation.pk).ok


def test_nobody_gives_up_what_they_asked_to_give_up() -> None:
    both = make_user("Administrator")
    operation = stand(S.SUBMITTED)
    operation_stop(operation_id=operation.pk, user=both, reason="So.")
    with pytest.raises(DecisionRefusedError, match="yourself"):
        decide("overdue", "reject", both)


def test_a_read_is_given_up_at_once(ops: User) -> None:
    operation = stand(S.SUBMITTED, "get_products")
    operation_stop(operation_id=operation.pk, user=ops, reason="So.")
    assert fresh(operation).settled_at is not None
    assert not Approval.objects.exists()


@pytest.mark.parametrize("end", ["completed", "failed", "rejected", "canceled"])
@pytest.mark.parametrize("status", [S.CALLING_ADCP, *PENDING, S.TIMED_OUT])
def test_a_purchase_is_settled_by_hand_by_two(status: str, end: str, ops: User) -> None:
    operation = stand(status)
    approval = settle(operation, ops, end)
    assert approval is not None
    assert fresh(operation).status == status
    assert (approval.evidence["evidence"], approval.requested_by) == (LETTER, f"human:{ops.pk}")

    approver = make_user("Approver")
    decide("settle_by_hand", "approve", approver)

    stored = fresh(operation)
    assert (stored.status, stored.settled_by) == (end, "human")
    assert stored.result == (BOUGHT if end == "completed" else None)
    kept = operation.observations.get(channel="human", kind="answer")
    assert (kept.body["evidence"], kept.outcome) == (LETTER, "applied")
    entry = AuditEntry.objects.filter(entity_id=operation.pk).latest("seq")
    assert entry.actor == f"human:{approver.pk}"
    assert verify_entity("operation", operation.pk).ok


def test_a_second_end_is_not_proposed_while_one_is(ops: User) -> None:
    """It would be answered by the first one's question."""
    operation = stand("submitted")
    first = settle(operation, ops, "failed")
    with pytest.raises(SteeringRefusedError, match=first.reference) as refused:
        settle(operation, make_user("Ad Ops"), "completed", result={"media_buy_id": "mb-9"})
    assert refused.value.code == "state"
    assert Approval.objects.get().evidence["end"] == "failed"
    approval_decide(approval_id=first.pk, user=make_user("Approver"), verdict="reject", comment="No.")
    second = settle(operation, make_user("Ad Ops"), "completed", result={"media_buy_id": "mb-9"})
    assert second.evidence["end"] == "completed"


def test_a_read_is_settled_by_one(ops: User) -> None:
    operation = stand(S.SUBMITTED, "get_products")
    assert settle(operation, ops, "failed") is None
    assert (fresh(operation).status, fresh(operation).settled_by) == (S.FAILED, "human")


@pytest.mark.parametrize("task", sorted(READS))
def test_what_a_read_asks_for_is_told_by_its_seller_alone(task: str, ops: User) -> None:
    """It makes accounts active, cancels deals and states prices in the seller's name."""
    operation = stand(S.SUBMITTED, task, seller=make_seller(tools=[task]))
    told = {"media_buys": [{"media_buy_id": "mb-1", "status": "canceled"}]}
    for who in (ops, make_user("Administrator")):
        with pytest.raises(SteeringRefusedError, match="failed, rejected, canceled") as refusal:
            settle(operation, who, result=told)
        assert refusal.value.code == "evidence"
    assert "completed" not in steering_data(operation, ops)["ends"]
    assert fresh(operation).status == S.SUBMITTED
    assert not Approval.objects.exists()


def test_a_rejected_proposal_changes_nothing(ops: User) -> None:
    operation = stand(S.SUBMITTED)
    settle(operation, ops)
    decide("settle_by_hand", "reject")
    assert fresh(operation).status == S.SUBMITTED


@pytest.mark.parametrize(
    "more",
    [
        {"evidence": "x"},
        {"end": "approved"},
        {"result": {}},
        {"result": {"media_buy_id": True}},
        {"result": {"media_buy_id": "x" * 300}},
    ],
    ids=str,
)
def test_evidence_and_the_media_buy_are_required(more: dict[str, Any], ops: User) -> None:
    operation = stand(S.SUBMITTED)
    with pytest.raises(SteeringRefusedError) as refusal:
        settle(operation, ops, **more)
    assert refusal.value.code == "evidence"
    assert not Approval.objects.exists()


def test_the_sellers_own_word_comes_first(ops: User) -> None:
    operation = stand(S.SUBMITTED)
    settle(operation, ops)
    see(operation, answer("rejected", task_id=TASK), "webhook")
    with pytest.raises(DecisionRefusedError, match="gone"):
        decide("settle_by_hand")
    assert fresh(operation).status == S.REJECTED


def test_another_word_of_the_seller_after_it_is_a_conflict(ops: User) -> None:
    operation = stand(S.SUBMITTED)
    settle(operation, ops)
    decide("settle_by_hand")
    assert see(operation, answer("rejected", task_id=TASK), "webhook").outcome == "conflict"
    assert Conflict.objects.get(operation=operation).first["channel"] == "human"


def test_what_moved_on_is_proposed_anew(ops: User) -> None:
    operation = stand(S.SUBMITTED)
    settle(operation, ops)
    see(operation, answer("working", task_id=TASK), "poll")
    with pytest.raises(DecisionRefusedError, match="anew"):
        decide("settle_by_hand")
    decide("settle_by_hand")
    assert fresh(operation).status == S.COMPLETED


def test_writing_to_the_seller_is_kept_and_looks_again(ops: User) -> None:
    operation = stand(S.SUBMITTED, next_poll_at=clock.now() + timedelta(hours=1))
    see(operation, answer("working", task_id="another"), "poll")
    conflict = Conflict.objects.get()
    with pytest.raises(SteeringRefusedError):
        conflict_write(conflict_id=conflict.pk, user=make_user("Approver"), reason="So.")
    conflict_write(conflict_id=conflict.pk, user=ops, reason="Mailed their desk.")
    conflict.refresh_from_db()
    assert (conflict.asked_by, conflict.resolved_at) == (f"human:{ops.pk}", None)
    assert Operation.objects.filter(pk=operation.pk, next_poll_at__lte=clock.now()).exists()
    assert Approval.objects.get(kind="conflict").status == "open"


def test_who_asked_for_what_it_is_about_does_not_settle_it(ops: User) -> None:
    """Neither does who proposed the end."""
    asker = make_user("Approver")
    operation = stand(S.SUBMITTED, requested_by=actor_key(asker))
    settle(operation, ops)
    with pytest.raises(DecisionRefusedError):
        decide("settle_by_hand", user=asker)
    assert fresh(operation).status == S.SUBMITTED
    decide("settle_by_hand")
    assert fresh(operation).status == S.COMPLETED
