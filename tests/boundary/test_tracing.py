"""Every decision goes back to a request, a team and a user."""

from __future__ import annotations

import pytest
import structlog

from tasks_app import clock
from tasks_app.commands.models import CommandDecision
from tasks_app.jobs.actions import Result, Run, WaitForOperation
from tasks_app.jobs.models import Job, WorkflowEvent
from tasks_app.jobs.retrying import job_retry
from tasks_app.jobs.worker import drain
from tasks_app.operations.ordering import order_run
from tasks_app.people.actors import actor_key
from tests.boundary.conftest import Bench, answered, purchase, stopped
from tests.factories import make_seller, make_team, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def buying(bench: Bench) -> Job:
    """A job that a buyer's request started, whose step fails once and then buys; not yet run."""
    seller, failed = make_seller(), []

    def buy(run: Run) -> Result:
        if not failed:
            failed.append(1)
            raise RuntimeError("it broke")
        order = purchase(seller=seller, purpose=run.purpose("buy"))
        return WaitForOperation(operation_id=order_run(order=order, actor="system").pk)

    bench.action("buy", buy)
    bench.recipe({"id": "a", "action": "buy"}, name="inner")
    bench.recipe({"id": "top", "recipe": "inner"}, name="outer")
    with structlog.contextvars.bound_contextvars(request_id="req-1"):
        return bench.start("outer", actor=make_user("Buyer"))


def run_on() -> None:
    drain()
    later = clock.now().replace(year=clock.now().year + 1)
    with clock.injected(lambda: later):
        drain()


def test_a_retry_goes_back_to_the_request_that_began_the_job(buying: Job) -> None:
    run_on()
    decided = WorkflowEvent.objects.get(type="retry_scheduled")
    step = decided.correlation["step_id"]
    assert decided.correlation["request"] == "req-1"
    assert decided.correlation["team"] == str(buying.team_id)
    assert decided.correlation["user"] == buying.requested_by
    assert decided.correlation["trace_id"] == f"step:{step}"
    assert (decided.payload["failures"], decided.payload["error"]) == (1, "RuntimeError: it broke")


def test_a_command_of_a_step_goes_back_to_it_too(buying: Job) -> None:
    run_on()
    executed = CommandDecision.objects.get(code="executed")
    assert (executed.request, executed.team) == ("req-1", str(buying.team_id))
    assert executed.trace_id.startswith("step:")
    assert executed.user == "system", "who asked for the command"


def test_a_decision_of_a_person_goes_back_to_that_persons_request(buying: Job) -> None:
    stopped()
    run_on()
    approver = make_user("Approver")
    with structlog.contextvars.bound_contextvars(request_id="req-2"):
        answered("approve", user=approver)
    told = {row.code: (row.request, row.user) for row in CommandDecision.objects.all()}
    assert told["waits_at_gate"] == ("req-1", "system")
    assert told["gate_overridden"] == ("req-2", actor_key(approver))
    assert set(CommandDecision.objects.values_list("team", flat=True)) == {str(make_team().pk)}


def test_a_retried_job_goes_back_to_who_retried_it(bench: Bench) -> None:
    def broken(run: Run) -> Result:
        raise RuntimeError("it broke")

    bench.action("broken", broken)
    bench.recipe({"id": "a", "action": "broken", "max_failures": 1})
    with structlog.contextvars.bound_contextvars(request_id="req-1"):
        old = bench.run()
    with structlog.contextvars.bound_contextvars(request_id="req-2"):
        new = job_retry(job_id=old.pk, actor=make_user("Ad Ops"), reason="mended")
    drain()
    codes = WorkflowEvent.objects.filter(type="failure_budget_exhausted").order_by("id")
    assert [event.correlation["request"] for event in codes] == ["req-1", "req-2"]
    assert new.request_id == "req-2"
