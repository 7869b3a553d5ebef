"""Risk gates: what repeats an effect asks them, and waits for a person where one says no."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.approvals.presenters import effects_of
from tasks_app.approvals.selectors import approvals_waiting_for
from tasks_app.approvals.services import DecisionRefusedError, approval_decide, approvals_expire_due
from tasks_app.commands import services
from tasks_app.commands.gates import SELLER
from tasks_app.commands.models import Command
from tasks_app.commands.questions import gates_ask_again
from tasks_app.commands.services import CommandRefusedError
from tasks_app.jobs.actions import Result, Run, StepFailedError, WaitForApprovals, WaitForOperation
from tasks_app.jobs.models import Job, JobStatus, StepStatus
from tasks_app.jobs.worker import drain
from tasks_app.operations.dispatch import claim_one, claim_polls, claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.ordering import order_question, order_run
from tasks_app.operations.publish import publish
from tasks_app.operations.steering import operation_resend
from tasks_app.sellers.models import Seller
from tests.boundary.conftest import Bench, answered, asked, purchase, stopped
from tests.factories import make_seller, make_team, make_user
from tests.jobs.conftest import statuses, steps_of
from tests.operations.making import ask, fresh, not_sent, observed, silent, stand

pytestmark = pytest.mark.django_db


def tried(seen: Any) -> Operation:
    """A purchase that was sent once, with what came of it, and is due to be sent again."""
    operation = ask(seller=make_seller(slots=5))
    assert claim_one(operation_id=operation.pk) is not None
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
    return fresh(operation)


def codes() -> list[str]:
    return list(Command.objects.get().decisions.values_list("code", flat=True))


class TestResend:
    """An operation that is due to be sent once more."""

    def test_goes_out_while_every_gate_is_open_and_the_decision_is_kept(self) -> None:
        operation = tried(not_sent())
        assert [call.operation_id for call in claim_sends(limit=5)] == [operation.pk]
        assert codes() == ["repeat_allowed"]

    def test_waits_for_a_person_where_one_says_no(self) -> None:
        operation = tried(not_sent())
        Seller.objects.update(active=False)
        assert claim_sends(limit=5) == []
        question = asked()
        assert question.evidence["gates"] == ["seller_suspended"]
        assert question.evidence["why"] == "Norrland Digital is switched off"
        assert question.evidence["operation"] == str(operation.pk)
        assert (fresh(operation).status, fresh(operation).send_at) == (S.CALLING_ADCP, None)
        assert claim_sends(limit=5) == []
        assert Approval.objects.count() == 1

    def test_goes_out_once_when_a_person_says_so(self) -> None:
        operation = tried(not_sent())
        Seller.objects.update(active=False)
        claim_sends(limit=5)
        answered("approve")
        assert [call.operation_id for call in claim_sends(limit=5)] == [operation.pk]
        assert codes() == ["waits_at_gate", "gate_overridden", "repeat_allowed"]
        observed(operation_id=operation.pk, seen=not_sent(), channel="reply")
        Operation.objects.update(send_at=clock.now())
        assert claim_sends(limit=5) == [], "the next attempt asks again"
        assert asked().subject_version == 2

    @pytest.mark.parametrize("open_again", [True, False])
    def test_goes_out_where_the_gate_opens_as_it_is_to_be_asked_anew(
        self, monkeypatch: pytest.MonkeyPatch, open_again: bool
    ) -> None:
        """What people let pass is not enough at first: then all gates are read again, without it."""
        operation = tried(not_sent())
        Seller.objects.update(active=False)
        claim_sends(limit=5)
        answered("approve")
        readings = [{"another": "It is closed"}, {} if open_again else {"another": "It is closed"}]
        monkeypatch.setattr(services, "gates_closed", lambda *_args, **_kwargs: readings.pop(0))
        sent = [call.operation_id for call in claim_sends(limit=5)]
        assert readings == []
        assert sent == ([operation.pk] if open_again else [])
        assert Approval.objects.filter(status="open").exists() is not open_again
        assert Command.objects.get().overrides == []

    def test_fails_when_a_person_says_no_and_nothing_can_have_been_done(self) -> None:
        operation = tried(not_sent())
        Seller.objects.update(active=False)
        claim_sends(limit=5)
        answered("reject")
        assert (fresh(operation).status, fresh(operation).error["code"]) == (
            S.FAILED,
            "X_FLIGHTDECK_NOT_REPEATED",
        )
        assert publish(operation_id=operation.pk)

    def test_is_looked_up_when_a_person_says_no_and_it_may_have_been_done(self) -> None:
        operation = tried(silent())
        Seller.objects.update(active=False)
        claim_sends(limit=5)
        answered("reject")
        now = fresh(operation)
        assert (now.status, now.send_at) == (S.CALLING_ADCP, None)
        assert now.next_poll_at is not None

    def test_goes_on_by_itself_when_the_gate_opens(self) -> None:
        operation = tried(not_sent())
        Seller.objects.update(active=False)
        claim_sends(limit=5)
        assert gates_ask_again() == 0
        Seller.objects.update(active=True)
        assert gates_ask_again() == 1
        assert Approval.objects.get().status == "voided"
        assert [call.operation_id for call in claim_sends(limit=5)] == [operation.pk]

    def test_the_question_goes_when_the_seller_has_answered_meanwhile(self) -> None:
        operation = tried(silent())
        Seller.objects.update(active=False)
        claim_sends(limit=5)
        Operation.objects.filter(pk=operation.pk).update(task_id="t-1")
        from tests.operations.making import answer

        observed(operation_id=operation.pk, seen=answer("completed", task_id="t-1"), channel="webhook")
        gates_ask_again()
        assert Approval.objects.get(kind="risk_gate").status == "voided"
        assert fresh(operation).status == S.COMPLETED

    def test_the_question_goes_when_the_seller_has_a_task_meanwhile(self) -> None:
        operation = tried(silent())
        Seller.objects.update(active=False)
        claim_sends(limit=5)
        Operation.objects.filter(pk=operation.pk).update(task_id="t-1")
        Seller.objects.update(active=True)
        gates_ask_again()
        assert Approval.objects.get(kind="risk_gate").status == "voided"
        assert fresh(operation).send_at is None

    def test_sent_by_hand_past_an_open_gate_it_asks_nobody_any_more(self) -> None:
        operation = tried(not_sent())
        Seller.objects.update(active=False)
        claim_sends(limit=5)
        Seller.objects.update(active=True)
        operation_resend(operation_id=operation.pk, user=make_user("Ad Ops"), reason="They are back")
        assert [call.operation_id for call in claim_sends(limit=5)] == [operation.pk]
        assert Approval.objects.get(kind="risk_gate").status == "voided"
        assert Command.objects.get().waiting_since is None

    def test_nobody_decided_is_asked_again(self) -> None:
        tried(not_sent())
        Seller.objects.update(active=False)
        claim_sends(limit=5)
        first = asked()
        with clock.injected(lambda: first.due_at):
            assert approvals_expire_due() == 1
        assert asked().pk != first.pk


class TestKillSwitch:
    """Stops what is new, and what has not left; never reads and polls."""

    def test_a_new_command_waits_and_goes_on_when_it_is_off(self) -> None:
        stopped()
        operation = order_run(order=purchase(), actor="system")
        assert fresh(operation).send_at is None
        assert order_question(operation) is not None
        assert claim_sends(limit=5) == []
        stopped(on=False)
        assert gates_ask_again() == 1
        assert [call.operation_id for call in claim_sends(limit=5)] == [operation.pk]
        assert codes() == ["waits_at_gate", "gate_open_again", "executed"]

    def test_one_passes_when_a_person_says_so(self) -> None:
        stopped()
        operation = order_run(order=purchase(), actor="system")
        answered("approve")
        assert [call.operation_id for call in claim_sends(limit=5)] == [operation.pk]

    def test_what_a_person_refuses_stays_refused(self) -> None:
        stopped()
        order = purchase()
        operation = order_run(order=order, actor="system")
        answered("reject")
        assert fresh(operation).status == S.CANCELED
        stopped(on=False)
        with pytest.raises(CommandRefusedError, match="So be it"):
            order_run(order=order, actor="system")

    def test_what_was_released_and_has_not_left_is_stopped_too(self) -> None:
        operation = order_run(order=purchase(), actor="system")
        stopped()
        assert claim_sends(limit=5) == []
        assert asked().evidence["gates"] == ["kill_switch"]
        stopped(on=False)
        gates_ask_again()
        assert [call.operation_id for call in claim_sends(limit=5)] == [operation.pk]

    def test_reads_and_polls_go_on(self) -> None:
        stopped()
        seller = make_seller(slots=5)
        read = ask("get_products", seller=seller)
        polled = stand(S.SUBMITTED, seller=seller, next_poll_at=clock.now())
        assert [call.operation_id for call in claim_sends(limit=5)] == [read.pk]
        assert [call.operation_id for call in claim_polls(limit=5)] == [polled.pk]

    def test_it_stops_the_team_it_is_turned_for_alone(self) -> None:
        seller, other = make_seller(slots=5), make_team("Another")
        stopped(team=other)
        theirs = order_run(order=purchase(seller=seller, team=other), actor="system")
        ours = order_run(order=purchase(seller=seller), actor="system")
        assert fresh(theirs).send_at is None
        assert [call.operation_id for call in claim_sends(limit=5)] == [ours.pk]

    def test_who_asked_does_not_decide(self) -> None:
        stopped()
        approver = make_user("Approver")
        order_run(order=purchase(), actor=approver)
        with pytest.raises(DecisionRefusedError, match="You asked for this yourself"):
            approval_decide(approval_id=asked().pk, user=approver, verdict="approve")


class TestTurnedMeanwhile:
    """The kill switch is turned while another gate is closed: to pass takes two people, or one again."""

    def test_let_go_one_is_asked_in_the_queue_and_what_two_said_goes_with_their_question(self) -> None:
        operation = tried(not_sent())
        Seller.objects.update(active=False)
        stopped()
        claim_sends(limit=5)
        first = asked()
        assert (first.kind, sorted(first.evidence["gates"])) == ("kill_switch", ["kill_switch", SELLER])
        approval_decide(approval_id=first.pk, user=make_user("Approver"), verdict="approve")
        stopped(on=False)
        for _ in range(2):
            assert gates_ask_again() == 0
        question = asked()
        assert (question.kind, question.quorum, question.evidence["gates"]) == ("risk_gate", 1, [SELLER])
        assert "kill switch" not in f"{question.title} {effects_of(question)['nothing']}".lower()
        assert question in approvals_waiting_for(make_user("Approver"))
        assert Approval.objects.get(pk=first.pk).status == "voided"
        assert Command.objects.get().refused_at is None, "it waits as before"
        answered("approve")
        assert [call.operation_id for call in claim_sends(limit=5)] == [operation.pk]

    def test_turned_on_two_are_asked(self) -> None:
        operation = tried(not_sent())
        Seller.objects.update(active=False)
        claim_sends(limit=5)
        assert asked().kind == "risk_gate"
        stopped()
        for _ in range(2):
            assert gates_ask_again() == 0
        question = asked()
        assert (question.kind, question.quorum) == ("kill_switch", 2)
        assert sorted(question.evidence["gates"]) == ["kill_switch", SELLER]
        answered("approve")
        assert [call.operation_id for call in claim_sends(limit=5)] == [operation.pk]


class TestStep:
    """A step whose command is at a gate waits for people, and goes on as they decide."""

    @pytest.fixture
    def act(self, bench: Bench) -> Callable[[int], Job]:
        """A job that buys after so many failures."""
        seller = make_seller(slots=5)

        def start(failures: int) -> Job:
            left = [failures]

            def buy(run: Run) -> Result:
                if left[0]:
                    left[0] -= 1
                    raise RuntimeError("it broke")
                try:
                    order = purchase(seller=seller, purpose=run.purpose("buy"))
                    operation = order_run(order=order, actor="system", awaited=True)
                except CommandRefusedError as error:
                    raise StepFailedError(str(error)) from error
                question = order_question(operation)
                if question is not None:
                    return WaitForApprovals(approval_ids=(question.pk,))
                return WaitForOperation(operation_id=operation.pk)

            bench.action("buy", buy)
            bench.recipe({"id": "a", "action": "buy"})
            return bench.run()

        return start

    def again(self, job: Job) -> Job:
        later = clock.now().replace(year=clock.now().year + 1)
        with clock.injected(lambda: later):
            drain()
        job.refresh_from_db()
        return job

    def test_a_first_try_asks_no_more_than_the_kill_switch(self, act: Callable[[int], Job]) -> None:
        Seller.objects.update(active=True)
        job = act(0)
        assert Command.objects.get().executed_at is not None
        assert steps_of(job)["a"].waiting_for["type"] == "operation"

    def test_a_step_that_was_tried_before_asks_all(self, act: Callable[[int], Job]) -> None:
        job = act(1)
        Seller.objects.update(active=False)
        self.again(job)
        assert statuses(job) == {"a": StepStatus.AWAITING_USER}
        assert asked().evidence["gates"] == ["seller_suspended"]
        answered("approve")
        self.again(job)
        operation = Operation.objects.get()
        assert steps_of(job)["a"].waiting_for["id"] == str(operation.pk)
        with clock.injected(lambda: operation.send_at):
            sent = claim_sends(limit=5)
        assert [call.operation_id for call in sent] == [operation.pk], "a person said so"

    def test_it_waits_for_the_question_that_is_asked_in_the_place_of_another(
        self, act: Callable[[int], Job]
    ) -> None:
        job = act(1)
        Seller.objects.update(active=False)
        stopped()
        self.again(job)
        first = asked()
        stopped(on=False)
        gates_ask_again()
        self.again(job)
        question = asked()
        assert (first.kind, question.kind) == ("kill_switch", "risk_gate")
        assert steps_of(job)["a"].waiting_for["ids"] == [str(question.pk)]
        answered("approve")
        self.again(job)
        assert steps_of(job)["a"].waiting_for["id"] == str(Operation.objects.get().pk)

    def test_a_refusal_fails_the_step(self, act: Callable[[int], Job]) -> None:
        stopped()
        job = act(0)
        answered("reject")
        assert (self.again(job).status, job.error) == (JobStatus.FAILED, "a: So be it.")

    def test_the_gate_that_opens_wakes_the_step(self, act: Callable[[int], Job]) -> None:
        stopped()
        job = act(0)
        assert statuses(job) == {"a": StepStatus.AWAITING_USER}
        stopped(on=False)
        gates_ask_again()
        drain()
        assert steps_of(job)["a"].waiting_for["type"] == "operation"

    def test_a_cancelled_job_takes_what_waits_with_it(self, act: Callable[[int], Job]) -> None:
        from tasks_app.jobs.endings import job_cancel

        stopped()
        job = act(0)
        job_cancel(job_id=job.pk, actor=make_user("Ad Ops"), reason="Not wanted")
        stopped(on=False)
        gates_ask_again()
        assert Operation.objects.get().status == S.CANCELED
        assert Command.objects.get().refused_why == "What asked for it has ended"
        assert claim_sends(limit=5) == []
