"""Answers to paused tasks: only through what the transport gave, released by two, dispatched once."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from structlog.testing import capture_logs

from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide, approvals_expire_due
from tasks_app.commands.questions import gates_ask_again
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.notifications.models import Notification
from tasks_app.operations import policy
from tasks_app.operations.answers import operation_answer
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pauses import continuation_current
from tasks_app.operations.steered import SteeringRefusedError
from tasks_app.operations.steering import operation_resend
from tasks_app.people.models import User
from tests.adcp.raw_server import RawServer, serve
from tests.boundary.conftest import stopped
from tests.factories import make_team, make_user
from tests.operations.making import answer as told
from tests.operations.making import ask, fresh, see, stand
from tests.operations.pausing import (
    SECRET_CONTEXT,
    SECRET_TASK,
    a2a_seller,
    answering,
    done,
    everything_said,
    invocation,
    messages,
    paused,
    paused_purchase,
    release,
    say,
)
from tests.operations.sweeping import sweep

pytestmark = pytest.mark.django_db


def refused(operation: Operation, user: User, generation: int = 1, **more: Any) -> str:
    with pytest.raises(SteeringRefusedError) as refusal:
        say(operation, user, generation=generation, **more)
    return refusal.value.code


def test_a_native_pause_is_a_generation_and_its_identity_is_shown_nowhere(quill: RawServer) -> None:
    operation = paused_purchase(quill)

    current = continuation_current(operation)
    assert current is not None
    assert (operation.status, current.generation, current.asked) == (S.INPUT_REQUIRED, 1, "Which markets?")
    assert json.loads(current.descriptor) == {"task_id": SECRET_TASK, "context_id": SECRET_CONTEXT}
    with connection.cursor() as cursor:
        cursor.execute("select descriptor from tasks_app_continuation")
        assert SECRET_CONTEXT not in cursor.fetchone()[0], "stored encrypted"
    assert SECRET_TASK not in everything_said(current)


def test_the_answer_leaves_once_a_second_person_has_released_it(quill: RawServer, ops: User) -> None:
    operation = paused_purchase(quill)

    with capture_logs() as logs:
        say(operation, ops, packages=[{"product_id": "p", "budget": 5.5}])
        assert claim_sends(limit=5, out=Counter()) == [], "nobody has released it"
        release()
        sweep()

    first, second = messages(quill)
    assert (second["taskId"], second["contextId"]) == (SECRET_TASK, SECRET_CONTEXT)
    assert second["messageId"] != first["messageId"]
    assert {"text": "Sweden."} in [{"text": p["text"]} for p in second["parts"] if "text" in p]
    whole, before = invocation(second), invocation(first)
    assert whole["packages"] == [{"product_id": "p", "budget": 5.5}]
    assert whole["po_number"] == before["po_number"], "a complete request"
    assert whole["idempotency_key"] != before["idempotency_key"]
    assert (fresh(operation).status, fresh(operation).result) == (
        S.COMPLETED,
        {"media_buy_id": "mb-1", "packages": []},
    )
    consumed = Continuation.objects.get()
    assert (consumed.consumed_at is not None, consumed.stale_at) == (True, None)
    assert SECRET_TASK not in json.dumps(logs, default=str)
    assert SECRET_CONTEXT not in json.dumps(logs, default=str)
    assert verify_entity("operation", operation.pk).ok


def test_nobody_releases_their_own_answer(quill: RawServer) -> None:
    both = make_user("Ad Ops")
    both.groups.add(*make_user("Approver").groups.all())
    operation = paused_purchase(quill)
    say(operation, both)
    with pytest.raises(DecisionRefusedError, match="yourself"):
        release(both)
    sweep()
    assert len(messages(quill)) == 1


def test_a_reads_answer_leaves_at_once(ops: User) -> None:
    with serve(answering(paused(), done({"status": "completed", "products": []}))) as server:
        operation = paused_purchase(server, "get_products")
        say(operation, ops)
        sweep()
        assert len(messages(server)) == 2
    assert fresh(operation).status == S.COMPLETED


@pytest.mark.parametrize(
    "task", ["get_products", "get_media_buys", "get_media_buy_delivery", "list_accounts"]
)
@pytest.mark.parametrize(
    "changes",
    [
        {"account": {"account_id": "another-teams"}},
        {"brand": {"domain": "another-teams.example"}},
        {"media_buy_ids": ["another-teams"]},
    ],
    ids=str,
)
def test_an_answer_to_a_read_does_not_say_whose_it_is(task: str, changes: dict[str, Any], ops: User) -> None:
    """It leaves at once, under the house's one credential."""
    with serve(answering(paused())) as server:
        operation = paused_purchase(server, task, tools=[task])
        with pytest.raises(SteeringRefusedError, match="cannot be answered"):
            operation_answer(operation_id=operation.pk, generation=1, user=ops, changes=changes)
        sweep()
        assert len(messages(server)) == 1


def test_an_answer_that_is_not_released_can_be_given_anew(quill: RawServer, ops: User) -> None:
    operation = paused_purchase(quill)
    say(operation, ops, "Norway.")
    release(verdict="reject")
    say(operation, ops, "Sweden.")
    release()
    sweep()
    assert [p["text"] for p in messages(quill)[1]["parts"] if "text" in p] == ["Sweden."]


def test_an_answer_nobody_decides_on_never_leaves(quill: RawServer, ops: User) -> None:
    operation = paused_purchase(quill)
    say(operation, ops)
    late = clock.now() + timedelta(hours=25)
    with clock.injected(lambda: late):
        approvals_expire_due()
    sweep()
    assert len(messages(quill)) == 1
    current = continuation_current(operation)
    assert current is not None
    assert current.answered_at is None


def test_pause_a_resumed_into_pause_b(ops: User) -> None:
    with serve(answering(paused("A?"), paused("B?"), done())) as server:
        operation = paused_purchase(server)
        say(operation, ops, "to A")
        release()
        sweep()

        current = continuation_current(operation)
        assert current is not None
        assert (current.generation, current.asked) == (2, "B?")
        assert Continuation.objects.get(generation=1).consumed_at is not None
        assert refused(operation, ops, 1) == "stale"
        sweep()
        assert len(messages(server)) == 2, "a stale answer is not dispatched"

        say(operation, ops, "to B", generation=2)
        release()
        sweep()
        assert [[p["text"] for p in m["parts"] if "text" in p] for m in messages(server)[1:]] == [
            ["to A"],
            ["to B"],
        ]
    assert fresh(operation).status == S.COMPLETED


def test_a_second_answer_to_the_same_pause_is_told_that_one_is_on_its_way(
    quill: RawServer, ops: User
) -> None:
    operation = paused_purchase(quill)
    say(operation, ops)
    assert refused(operation, ops) == "in_progress"
    assert Approval.objects.filter(kind="answer").count() == 1


@pytest.mark.parametrize("released", [False, True])
def test_an_end_that_came_first_makes_the_answer_stale(quill: RawServer, ops: User, released: bool) -> None:
    operation = paused_purchase(quill)
    say(operation, ops)
    if released:
        release()
    see(operation, told("completed"), "webhook")

    sweep()

    assert len(messages(quill)) == 1
    assert Continuation.objects.get().stale_at is not None
    assert not Approval.objects.filter(kind="answer", status="open").exists()
    assert refused(operation, ops) == "impossible"


def test_an_end_while_the_answer_is_on_its_way_is_told_and_its_reply_changes_nothing(
    quill: RawServer, ops: User
) -> None:
    operation = paused_purchase(quill)
    say(operation, ops)
    release()
    (call,) = claim_sends(limit=5, out=Counter())
    assert call.continuation is not None

    see(operation, told("rejected"), "webhook")
    reply = see(operation, told("completed"))

    assert (fresh(operation).status, reply.outcome) == (S.REJECTED, "conflict")
    assert "on its way" in Continuation.objects.get().note
    assert Notification.objects.filter(kind="answer_overtaken").count() == 1


def test_the_seller_that_goes_on_by_itself_needs_no_answer(ops: User) -> None:
    with serve(answering(paused(), done())) as server:
        operation = paused_purchase(server)
        say(operation, ops)
        see(operation, told("working", task_id="t-9"), "webhook")
        assert not Approval.objects.filter(kind="answer", status="open").exists()
        assert refused(operation, ops) == "impossible"
        assert len(messages(server)) == 1


@pytest.mark.parametrize(
    "again", [paused("Another question?", task="native-2"), done({"status": "working", "task_id": "t-9"})]
)
def test_the_same_request_sent_again_may_replace_the_pause(ops: User, again: Any) -> None:
    """A person resends the request; the seller has another pause for it, or works on: the answer is idle."""
    with serve(answering(paused(), again)) as server:
        operation = paused_purchase(server)
        say(operation, ops)
        operation_resend(operation_id=operation.pk, user=ops, reason="They lost it.")
        sweep()
        assert [message.get("taskId") for message in messages(server)] == [None, None]
    assert not Approval.objects.filter(kind="answer", status="open").exists()
    assert not Continuation.objects.get(generation=1).is_usable
    assert refused(operation, ops) in ("stale", "impossible")


def test_overdue_comes_before_the_answer_and_waiting_on_lets_it_be_given(quill: RawServer, ops: User) -> None:
    operation = paused_purchase(quill)
    say(operation, ops)
    Operation.objects.filter(pk=operation.pk).update(deadline_at=clock.now())
    time_out_due(limit=5)
    assert not Approval.objects.filter(kind="answer", status="open").exists()
    assert refused(operation, ops) == "state"

    _decide_overdue()
    say(operation, ops, "After all.")
    release()
    sweep()
    assert [p["text"] for p in messages(quill)[-1]["parts"] if "text" in p] == ["After all."]


@pytest.mark.parametrize("protocol", ["mcp", "a2a"])
def test_a_status_alone_cannot_be_answered(ops: User, protocol: str) -> None:
    """The AdCP status inside a transport task that has ended, and every pause on plain MCP."""
    with serve(answering(done({"status": "input-required", "task_id": "t-1"}))) as server:
        seller = a2a_seller(server)
        operation = ask(seller=seller)
        if protocol == "a2a":
            sweep()
        else:
            seller.protocol = "mcp"
            seller.save()
            Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
            claim_one(operation_id=operation.pk)
            see(operation, told("input-required", task_id="t-1"))
    assert fresh(operation).status == S.INPUT_REQUIRED
    assert not Continuation.objects.exists()
    assert refused(operation, ops) == "impossible"


def test_only_a_reply_of_the_task_itself_can_be_continued() -> None:
    """A poll is a transport task of its own; a push is not proven to be the one that we hold."""
    operation = stand(S.SUBMITTED)
    identity = {"task_id": "poll-task", "context_id": "c"}
    for channel in ("poll", "webhook"):
        see(operation, told("input-required", task_id="task-1", continuation=identity), channel)
    assert fresh(operation).status == S.INPUT_REQUIRED
    assert not Continuation.objects.exists()


def test_the_same_pause_told_twice_is_one_generation(quill: RawServer) -> None:
    operation = paused_purchase(quill)
    again = Seen(
        kind="answer",
        status="input-required",
        continuation={"task_id": SECRET_TASK, "context_id": SECRET_CONTEXT},
    )
    see(operation, again)
    assert Continuation.objects.count() == 1


def test_who_may_not_and_what_cannot_be_answered(quill: RawServer, ops: User) -> None:
    operation = paused_purchase(quill)
    assert refused(operation, make_user("Buyer")) == "no_right"
    assert refused(operation, make_user("Ad Ops", team=make_team("Another"))) == "not_found"
    assert refused(operation, ops, text=" ") == "answer"
    assert refused(operation, ops, text="x" * 70_000) == "answer"
    assert refused(operation, ops, idempotency_key="mine") == "answer"
    assert refused(operation, ops, generation=2) == "stale"
    Continuation.objects.update(expires_at=clock.now())
    assert refused(operation, ops) == "impossible"
    assert not Approval.objects.exists()
    assert Continuation.objects.get().answer is None


def _decide_overdue() -> None:
    asked = Approval.objects.get(kind="overdue", status="open")
    approval_decide(approval_id=asked.pk, user=make_user("Approver"), verdict="approve", comment="Wait.")


# ---- time that is not the seller's


def test_an_answer_that_people_let_go_has_its_time(quill: RawServer, ops: User) -> None:
    operation = paused_purchase(quill)
    say(operation, ops)
    later = fresh(operation).deadline_at - timedelta(minutes=1)
    with clock.injected(lambda: later):
        release()
        span = policy.deadline(operation.task_type, operation.seller)
        assert fresh(operation).deadline_at == later + span
        sweep()
    assert fresh(operation).status == S.COMPLETED


@pytest.mark.parametrize("when", ["once it was released", "before it was released", "before people decided"])
def test_an_answer_that_the_switch_holds_is_not_overdue(quill: RawServer, ops: User, when: str) -> None:
    operation = paused_purchase(quill)
    say(operation, ops)
    if when == "once it was released":
        release()
    stopped()
    if when == "before it was released":
        release()
    Approval.objects.filter(status="open").update(due_at=clock.now() + timedelta(days=90))
    later = fresh(operation).deadline_at + timedelta(hours=1)
    with clock.injected(lambda: later):
        for _ in range(2):
            sweep()
        assert (fresh(operation).status, len(messages(quill))) == (S.INPUT_REQUIRED, 1)
        stopped(False)
        assert fresh(operation).deadline_at > later
        time_out_due(limit=5)
        assert fresh(operation).status == S.INPUT_REQUIRED
        if when == "before people decided":
            release()
        gates_ask_again()
        sweep()
    assert (fresh(operation).status, len(messages(quill))) == (S.COMPLETED, 2)


def test_what_is_not_answered_is_overdue_while_the_switch_is_on(quill: RawServer) -> None:
    operation = paused_purchase(quill)
    stopped()
    with clock.injected(lambda: operation.deadline_at):
        assert time_out_due(limit=5) == 1
    assert fresh(operation).status == S.TIMED_OUT
