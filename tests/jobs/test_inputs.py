"""Giving a step by hand the event it waits for."""

from __future__ import annotations

from typing import Any

import pytest

from tasks_app.jobs.endings import JobRefusedError
from tasks_app.jobs.inputs import step_input_give, takes_input
from tasks_app.jobs.models import Job, Step, WorkflowEvent
from tasks_app.jobs.worker import drain
from tasks_app.people.models import User
from tests.factories import make_user
from tests.jobs.conftest import Bench

pytestmark = pytest.mark.django_db


@pytest.fixture
def ops() -> User:
    return make_user("Ad Ops")


@pytest.fixture
def step(bench: Bench) -> Step:
    bench.recipe({"id": "arrival", "action": "wait_for_event", "inputs": {"name": "stock.arrived"}})
    return waiting(bench)


def waiting(bench: Bench) -> Step:
    return Step.objects.get(job=bench.run())


def give(step: Step, actor: User, **changed: Any) -> Job:
    said = {"payload": {"pallets": 3}, "reason": "the driver telephoned", **changed}
    return step_input_give(step_id=step.pk, actor=actor, **said)


def test_the_step_goes_on_with_what_it_was_given(step: Step, ops: User) -> None:
    assert takes_input(step)
    give(step, ops)
    drain()
    step.refresh_from_db()
    assert (step.status, step.outputs) == ("completed", {"event": {"pallets": 3}})
    told = WorkflowEvent.objects.get(job=step.job_id, type="step.input")
    assert (told.source, told.payload) == (f"human:{ops.pk}", {"reason": "the driver telephoned"})


def test_given_twice_it_is_taken_once(step: Step, ops: User) -> None:
    give(step, ops)
    give(step, ops)
    with pytest.raises(JobRefusedError, match="came with another event"):
        give(step, ops, payload={"pallets": 4})
    drain()
    step.refresh_from_db()
    assert step.outputs == {"event": {"pallets": 3}}
    assert WorkflowEvent.objects.filter(job=step.job_id, type="step.input").count() == 1
    with pytest.raises(JobRefusedError, match="does not wait"):
        give(step, ops)


def test_it_is_not_given_to_another(bench: Bench, step: Step, ops: User) -> None:
    later = waiting(bench)
    with pytest.raises(JobRefusedError, match="waited longer"):
        give(later, ops)
    assert not woken(step)
    give(step, ops)


@pytest.mark.parametrize(
    ("role", "changed", "why"),
    [("Buyer", {}, "no right"), ("Ad Ops", {"reason": " "}, "Say why it is given by hand.")],
)
def test_what_is_refused_changes_nothing(step: Step, role: str, changed: dict[str, str], why: str) -> None:
    with pytest.raises(JobRefusedError, match=why):
        give(step, make_user(role), **changed)
    assert not woken(step)


def woken(step: Step) -> bool:
    """Whether a worker takes the step next."""
    return Step.objects.get(pk=step.pk).ready_at is not None
