"""What may move money takes two people where an operation is of no team, too: whoever may decide is asked."""

from __future__ import annotations

import pytest

from tasks_app.approvals.deciders import deciders
from tasks_app.approvals.models import Approval
from tasks_app.approvals.selectors import approvals_waiting_for
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.commands.gates import SELLER
from tasks_app.commands.kill_switch import GATE, kill_switch_set
from tasks_app.commands.questions import KIND, STOPPED, gate_ask, gates_ask_again
from tasks_app.operations.answers import operation_answer
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.ordering import order_command
from tasks_app.operations.steering import operation_settle
from tasks_app.people.models import User
from tests.adcp.raw_server import RawServer, serve
from tests.factories import make_user
from tests.operations.making import TASK, answer, ask, fresh, see, stand
from tests.operations.pausing import a2a_seller, answering, done, messages, paused
from tests.operations.sweeping import sweep

pytestmark = pytest.mark.django_db
LETTER = "Letter of their desk, 3 November, ref. 4711"
BOUGHT = {"media_buy_id": "mb-9"}


def superuser(name: str) -> User:
    """Who sees what is of no team, and holds every right."""
    return make_user("Administrator", is_superuser=True, name=name)


def decide(kind: str, user: User, verdict: str = "approve") -> Approval:
    asked = Approval.objects.get(kind=kind, status="open")
    return approval_decide(approval_id=asked.pk, user=user, verdict=verdict, comment="So.")


def settle(operation: Operation, user: User, end: str = "completed") -> Approval | None:
    return operation_settle(
        operation_id=operation.pk, user=user, end=end, reason="So.", evidence=LETTER, result=BOUGHT
    )


@pytest.mark.parametrize("task", ["create_media_buy", "update_media_buy"])
def test_one_superuser_proposes_an_end_and_another_decides(task: str) -> None:
    operation, first, second = stand(S.SUBMITTED, task, team=None), superuser("first"), superuser("second")
    asked = settle(operation, first)
    assert asked is not None
    assert (asked.team, asked.requested_by, asked.subject_id) == (None, f"human:{first.pk}", operation.pk)
    assert asked in approvals_waiting_for(second)
    with pytest.raises(DecisionRefusedError, match="yourself"):
        decide("settle_by_hand", first)
    assert fresh(operation).status == S.SUBMITTED
    decide("settle_by_hand", second)
    assert (fresh(operation).status, fresh(operation).settled_by) == (S.COMPLETED, "human")


def test_an_end_about_what_moved_on_is_asked_anew_of_the_same() -> None:
    operation, first = stand(S.SUBMITTED, team=None), superuser("first")
    asked = settle(operation, first)
    assert asked is not None
    see(operation, answer("working", task_id=TASK), "poll")
    with pytest.raises(DecisionRefusedError, match="anew"):
        decide("settle_by_hand", superuser("second"))
    again = Approval.objects.get(kind="settle_by_hand", status="open")
    assert (again.team, again.requested_by, again.evidence["end"]) == (None, asked.requested_by, "completed")
    assert fresh(operation).status == S.WORKING


def test_a_read_is_settled_by_one() -> None:
    operation = stand(S.SUBMITTED, "get_products", team=None)
    assert settle(operation, superuser("first"), end="failed") is None
    assert fresh(operation).status == S.FAILED


def paused_purchase(server: RawServer) -> Operation:
    operation = ask("create_media_buy", seller=a2a_seller(server), team=None)
    sweep()
    return fresh(operation)


def test_one_superuser_answers_and_another_releases() -> None:
    with serve(answering(paused(), done())) as server:
        operation, first, second = paused_purchase(server), superuser("first"), superuser("second")
        operation_answer(operation_id=operation.pk, generation=1, user=first, text="Germany.")
        sweep()
        assert len(messages(server)) == 1
        with pytest.raises(DecisionRefusedError, match="yourself"):
            decide("answer", first)
        decide("answer", second)
        sweep()
        assert len(messages(server)) == 2
    assert fresh(operation).status == S.COMPLETED


def test_an_answer_at_a_closed_gate_is_asked_of_two_and_waits() -> None:
    with serve(answering(paused(), done())) as server:
        operation, third = paused_purchase(server), superuser("third")
        operation_answer(operation_id=operation.pk, generation=1, user=superuser("first"), text="Germany.")
        kill_switch_set(on=True, reason="Stop", actor="system")
        decide("answer", superuser("second"))
        sweep()
        assert len(messages(server)) == 1
        asked = Approval.objects.get(kind=STOPPED)
        assert (asked.team, asked.quorum) == (None, 2)
        assert asked in approvals_waiting_for(third, kind=STOPPED)
        kill_switch_set(on=False, reason="Go on", actor="system")
        gates_ask_again()
        sweep()
        assert len(messages(server)) == 2


@pytest.mark.parametrize("stopped", [False, True])
def test_a_purchase_that_waits_at_a_gate_is_asked_of_whoever_may_decide(stopped: bool) -> None:
    """Sent again after the seller was switched off, or not sent since all is stopped."""
    operation, approver = ask("create_media_buy", team=None), make_user("Approver")
    if stopped:
        kill_switch_set(on=True, reason="Stop", actor="system")
    gate_ask(order_command(operation), {GATE: "Stop"} if stopped else {SELLER: "It is off"})
    asked = Approval.objects.get(subject_type="command")
    assert (asked.kind, asked.team) == (STOPPED if stopped else KIND, None)
    assert asked in approvals_waiting_for(approver, kind=asked.kind)
    assert deciders([asked])[asked.pk] == [approver]


def test_a_purchase_stopped_before_it_left_is_asked_about_once() -> None:
    with serve(answering(paused(), done())) as server:
        operation = ask("create_media_buy", seller=a2a_seller(server), team=None)
        kill_switch_set(on=True, reason="Stop", actor="system")
        for _ in range(2):
            sweep()
        assert messages(server) == []
    assert Approval.objects.get(kind=STOPPED).status == "open"
    assert fresh(operation).send_at is None
