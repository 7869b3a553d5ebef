"""An answer to a seller that people let past the kill switch leaves: its purchase is not asked about too."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.commands.models import Command
from tasks_app.commands.questions import gates_ask_again
from tasks_app.notifications.models import Notification
from tasks_app.operations.answers import operation_answer
from tasks_app.operations.deadlines import time_out_due
from tasks_app.operations.execution import ANSWER
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.steered import SteeringRefusedError
from tasks_app.operations.steering import operation_stop
from tasks_app.sellers.models import Seller
from tests.adcp.raw_server import RawServer, serve
from tests.boundary.conftest import answered, asked, stopped
from tests.factories import make_user
from tests.operations.making import answer, fresh, observed
from tests.operations.pausing import answering, done, messages, paused, paused_purchase, release
from tests.operations.sweeping import sweep

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


def say(operation: Operation, text: str, generation: int = 1) -> None:
    ops = make_user("Ad Ops")
    operation_answer(operation_id=operation.pk, generation=generation, user=ops, text=text)


def left(server: RawServer) -> list[object]:
    """The answers that left."""
    return [message["parts"] for message in messages(server) if message.get("taskId")]


def about(question: Approval) -> str:
    return Command.objects.get(pk=question.subject_id).kind


def let_pass(operation: Operation) -> None:
    """Answered while all is stopped; released, and let past the switch by two."""
    say(operation, "Sweden.")
    stopped()
    release()
    assert about(asked()) == ANSWER
    answered("approve")


def fresh_question(question: Approval) -> Approval:
    return Approval.objects.get(pk=question.pk)


def test_it_leaves_while_the_switch_is_on() -> None:
    with serve(answering(paused(), done())) as server:
        operation = paused_purchase(server)
        let_pass(operation)
        sweep()
        assert len(left(server)) == 1
    assert fresh(operation).status == S.COMPLETED
    assert not Approval.objects.filter(status="open").exists()


def test_it_passes_this_once() -> None:
    """One that certainly was not heard is asked about before it is sent again."""
    with serve(answering(paused(), done())) as server:
        operation = paused_purchase(server)
        let_pass(operation)
        sellers = Seller.objects.filter(pk=operation.seller_id)
        sellers.update(url="http://127.0.0.1:9")
        sweep()
        assert not Approval.objects.filter(status="open").exists()
        sellers.update(url=operation.seller.url)
        later = clock.now() + timedelta(minutes=5)
        with clock.injected(lambda: later):
            sweep()
            assert left(server) == []
            answered("approve")
            sweep()
        assert len(left(server)) == 1


def test_it_stays_let_past_while_its_seller_is_off() -> None:
    """That the seller is off is asked about nobody: the answer waits, and needs no second yes of the two."""
    with serve(answering(paused(), done())) as server:
        operation = paused_purchase(server)
        let_pass(operation)
        Seller.objects.update(active=False)
        sweep()
        assert left(server) == []
        assert not Approval.objects.filter(status="open").exists()
        Seller.objects.update(active=True)
        later = clock.now() + timedelta(hours=1)
        with clock.injected(lambda: later):
            sweep()
        assert len(left(server)) == 1


def test_a_turn_of_the_switch_that_nobody_read_holds_it() -> None:
    with serve(answering(paused(), done())) as server:
        operation = paused_purchase(server)
        let_pass(operation)
        stopped(team=operation.team)
        sweep()
        assert left(server) == []
        answered("approve")
        sweep()
        assert len(left(server)) == 1


def test_what_was_given_in_time_leaves_however_long_it_was_held() -> None:
    """A pause may be answered for a week; that the switch held the answer for longer is not the answer's."""
    with serve(answering(paused(), done())) as server:
        operation = paused_purchase(server)
        say(operation, "Sweden.")
        stopped()
        release()
        sweep()
        assert left(server) == []
        later = clock.now() + timedelta(days=8)
        with clock.injected(lambda: later):
            time_out_due(limit=10)
            stopped(on=False)
            gates_ask_again()
            sweep()
        assert len(left(server)) == 1
        assert fresh(operation).status == S.COMPLETED


def test_of_what_was_given_up_nobody_is_asked_at_the_gate() -> None:
    with serve(answering(paused())) as server:
        operation = paused_purchase(server)
        say(operation, "Sweden.")
        stopped()
        release()
        question = asked()
        operation_stop(operation_id=operation.pk, user=make_user("Ad Ops"), reason="Too late")
        gates_ask_again()
        assert fresh_question(question).status == "open"  # people may still wait on
        overdue = Approval.objects.get(kind="overdue", status="open")
        approval_decide(approval_id=overdue.pk, user=make_user("Approver"), verdict="reject", comment="No.")
        gates_ask_again()
        assert fresh_question(question).status == "voided"


def test_what_its_seller_says_again_keeps_no_answer_from_leaving() -> None:
    with serve(answering(paused(), done())) as server:
        operation = paused_purchase(server)
        say(operation, "Sweden.")
        release()
        observed(operation_id=operation.pk, seen=answer("input-required"), channel="poll")
        sweep()
        assert len(left(server)) == 1
    assert fresh(operation).status == S.COMPLETED


def test_an_answer_that_cannot_leave_any_more_is_held_back() -> None:
    """Its seller speaks MCP since: neither the answer nor what was asked first leaves in its place."""
    with serve(answering(paused(), done())) as server:
        operation = paused_purchase(server)
        say(operation, "Sweden.")
        release()
        Seller.objects.update(protocol="mcp")
        before = len(server.requests)
        sweep()
        assert len(server.requests) == before
    told = Notification.objects.get(kind="answer_held_back")
    assert "no way to answer" in told.title
    assert "write to it" in told.body
    with pytest.raises(SteeringRefusedError) as refused:
        say(operation, "Sweden.", generation=2)
    assert refused.value.code == "impossible"
