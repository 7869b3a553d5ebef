"""Sleeping and waking: whoever comes first, the wake-up is never lost."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from tasks_app import clock, ids
from tasks_app.adcp.types import Seen
from tasks_app.approvals import kinds
from tasks_app.approvals.kinds import Kind, kind_register
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import (
    Question,
    approval_decide,
    approval_open,
    approval_void,
    approvals_expire_due,
)
from tasks_app.jobs import engine, handlers, wake, worker
from tasks_app.jobs.actions import Done, Result, Run, WaitForApprovals, WaitForOperation
from tasks_app.jobs.expiry import job_recover, steps_wake_again
from tasks_app.jobs.models import Job, Step, WorkflowEvent
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations import publish as published
from tasks_app.operations import sweep
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish, publish_due
from tasks_app.people.models import User
from tasks_app.troubles.models import RowTrouble
from tasks_app.troubles.rows import troubled_until
from tests.approvals.conftest import as_asked
from tests.clocks import Clock
from tests.database import Database
from tests.factories import make_team, make_user
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench, steps_of
from tests.lifecycle.entities import make_operation
from tests.lifecycle.threads import at_once
from tests.operations.making import observed
from tests.rounds import rounds
from tests.support import PATIENCE_S, joined, locks_awaited, until
from tests.troubles.poisoning import heal, poison

ROUNDS = rounds(3, 8)


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind of question without effects."""
    monkeypatch.setattr("tasks_app.approvals.kinds._kinds", {})
    kind_register(
        Kind(
            name="test",
            label="Test",
            apply=lambda approval, outcome: None,
            version=lambda approval: 1,
            asks=as_asked,
            reopen=lambda approval: None,
            effects={},
        )
    )


def ask() -> Approval:
    question = Question(
        kind="test",
        team=make_team(),
        title="May it?",
        subject_type="thing",
        subject_id=ids.new_id(),
        subject_version=1,
        evidence={},
        policy="Always",
    )
    return approval_open(question=question, requested_by="system", opened_by="system")


def approving(approval: Approval, user: User) -> Callable[[], Approval]:
    return lambda: approval_decide(approval_id=approval.pk, user=user, verdict="approve")


def waiting_for_operation(run: Run) -> Result:
    operation = Operation.objects.get(pk=run.inputs["id"])
    return Done() if operation.published_at else WaitForOperation(operation_id=operation.pk)


def waiting_for_approvals(run: Run) -> Result:
    if Approval.objects.filter(pk__in=run.inputs["ids"], status="open").exists():
        return WaitForApprovals(approval_ids=tuple(uuid.UUID(pk) for pk in run.inputs["ids"]))
    return Done()


def out(purpose: str = "test") -> Operation:
    """An operation whose call is out."""
    operation = make_operation(purpose)
    assert claim_one(operation_id=operation.pk)
    return operation


def end(operation: Operation) -> bool:
    """The seller's answer comes in."""
    seen = Seen(kind="answer", status="completed", payload={"products": []})
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    return publish(operation_id=operation.pk)


def finished(job: Job) -> bool:
    """Whether what is ready by now ends the job."""
    publish_due(limit=10)  # what a locked row made the publisher leave to the sweep
    drain()
    job.refresh_from_db()
    return job.status == "COMPLETED"


@pytest.fixture
def waits(bench: Bench) -> Bench:
    bench.action("operation", waiting_for_operation)
    bench.action("approvals", waiting_for_approvals)
    bench.recipe(
        {"id": "a", "action": "operation", "inputs": {"id": "{{ inputs.id }}"}}, name="operation_wait"
    )
    bench.recipe(
        {"id": "a", "action": "approvals", "inputs": {"ids": "{{ inputs.ids }}"}}, name="approvals_wait"
    )
    return bench


@pytest.mark.django_db
def test_an_operation_wakes_its_step(waits: Bench) -> None:
    operation = out()
    job = waits.run("operation_wait", inputs={"id": str(operation.pk)})
    sleeping = steps_of(job)["a"]
    assert (sleeping.status, sleeping.ready_at, sleeping.lease_until) == ("awaiting_tool", None, None)
    assert sleeping.waiting_for == {"type": "operation", "id": str(operation.pk)}
    assert not finished(job)
    assert end(operation)
    assert finished(job)
    assert steps_of(job)["a"].attempts == 2


@pytest.mark.django_db
def test_an_operation_that_has_ended_already_is_not_waited_for(waits: Bench) -> None:
    operation = out()
    job = waits.start("operation_wait", inputs={"id": str(operation.pk)})
    step = claim_step()
    assert step is not None
    end(operation)
    worker._settle(step, WaitForOperation(operation_id=operation.pk))
    assert finished(job)


@pytest.mark.django_db
def test_an_operation_wakes_nobody_elses_step(waits: Bench) -> None:
    one, other = out("one"), out("other")
    jobs = [waits.run("operation_wait", inputs={"id": str(o.pk)}) for o in (one, other)]
    end(other)
    assert [finished(job) for job in jobs] == [False, True]


def test_the_end_of_an_operation_races_the_wait(committed_db: Database, waits: Bench) -> None:
    for number in range(ROUNDS):
        operation = out(f"race {number}")
        job = waits.start("operation_wait", inputs={"id": str(operation.pk)})
        step = claim_step()
        assert step is not None
        wait = WaitForOperation(operation_id=operation.pk)
        answers = at_once(partial(worker._settle, step, wait), partial(end, operation))
        assert not [answer for answer in answers if isinstance(answer, Exception)]
        assert finished(job), number


def test_the_end_falls_between_the_look_and_the_sleep(
    committed_db: Database, waits: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rival at the named point: the step has looked, holds the operation, and has not slept yet."""
    operation = out()
    job = waits.start("operation_wait", inputs={"id": str(operation.pk)})
    step = claim_step()
    assert step is not None
    with meanwhile(monkeypatch, partial(end, operation)) as answered:
        worker._settle(step, WaitForOperation(operation_id=operation.pk))
    assert [type(answer) for answer in answered] == [bool]
    assert finished(job)


def claimed(key: str) -> Step:
    step = claim_step()
    assert step is not None
    assert step.key == key
    return step


@contextmanager
def meanwhile(patch: pytest.MonkeyPatch, rival: Callable[[], Any]) -> Iterator[list[Any]]:
    """Let the rival run when a step is about to sleep, as far as it comes; afterwards, what it answered."""
    sleeps = engine.mark_waiting
    answered: list[Any] = []
    thread = threading.Thread(target=lambda: answered.extend(at_once(rival)))

    def slowly(**arguments: Any) -> bool:
        thread.start()
        until(lambda: locks_awaited() or not thread.is_alive(), "the rival comes to the row")
        return sleeps(**arguments)

    with patch.context() as patched:
        patched.setattr(engine, "mark_waiting", slowly)
        yield answered
    joined(thread)


@pytest.mark.django_db
def test_the_last_of_several_approvals_wakes_the_step_once(asking: None, waits: Bench) -> None:
    user = make_user("Approver")
    asked = [ask() for _ in range(3)]
    job = waits.run("approvals_wait", inputs={"ids": [str(a.pk) for a in asked]})
    for approval in asked[:2]:
        approving(approval, user)()
        assert steps_of(job)["a"].ready_at is None
        assert not finished(job)
    approving(asked[2], user)()
    assert steps_of(job)["a"].ready_at is not None
    assert finished(job)
    assert waits.ran == ["a", "a"]
    assert steps_of(job)["a"].attempts == 2


def test_two_last_decisions_at_once_wake_the_step_once(
    committed_db: Database, asking: None, waits: Bench
) -> None:
    users = [make_user("Approver") for _ in range(2)]
    for number in range(ROUNDS):
        asked = [ask() for _ in range(2)]
        job = waits.run("approvals_wait", inputs={"ids": [str(a.pk) for a in asked]})
        answers = at_once(*(approving(approval, user) for approval, user in zip(asked, users, strict=True)))
        assert not [answer for answer in answers if isinstance(answer, Exception)]
        assert finished(job), number
        taken = AuditEntry.objects.filter(entity_id=steps_of(job)["a"].pk, to_status="executing")
        assert taken.count() == 2


def test_a_decision_races_the_wait(committed_db: Database, asking: None, waits: Bench) -> None:
    user = make_user("Approver")
    for number in range(ROUNDS):
        approval = ask()
        job = waits.start("approvals_wait", inputs={"ids": [str(approval.pk)]})
        step = claim_step()
        assert step is not None
        wait = WaitForApprovals(approval_ids=(approval.pk,))
        answers = at_once(partial(worker._settle, step, wait), approving(approval, user))
        assert not [answer for answer in answers if isinstance(answer, Exception)]
        assert finished(job), number


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["rejected", "expired", "voided"])
def test_however_an_approval_ends_it_wakes(asking: None, waits: Bench, still: Clock, how: str) -> None:
    approval = ask()
    job = waits.run("approvals_wait", inputs={"ids": [str(approval.pk)]})
    if how == "rejected":
        approval_decide(approval_id=approval.pk, user=make_user("Approver"), verdict="reject", comment="No")
    elif how == "expired":
        still.forward(days=2)
        assert approvals_expire_due() == 1
    else:
        approval_void(approval=approval, reason="Gone")
    assert finished(job)
    approval.refresh_from_db()
    assert approval.status == how


def test_the_end_of_a_nested_job_races_its_parents_wait(committed_db: Database, bench: Bench) -> None:
    bench.recipe({"id": "in"}, name="inner")
    bench.recipe({"id": "nest", "recipe": "inner"}, {"id": "after", "after": ["nest"]})
    for number in range(ROUNDS):
        job = bench.start()
        answers = at_once(drain, drain)
        assert not [answer for answer in answers if isinstance(answer, Exception)]
        assert finished(job), number
    assert bench.ran.count("in") == bench.ran.count("after") == ROUNDS


def test_a_nested_job_ends_between_the_look_and_the_sleep(
    committed_db: Database, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.recipe({"id": "in"}, name="inner")
    bench.recipe({"id": "nest", "recipe": "inner"})
    job = bench.start()
    worker.run_step(claimed("nest"))
    inner = claimed("in")
    Step.objects.filter(job=job).update(ready_at=clock.now())  # woken too early
    with meanwhile(monkeypatch, partial(engine.mark_complete, step=inner, outputs={})) as answered:
        worker.run_step(claimed("nest"))
    assert answered == [True]
    assert finished(job)


def test_parallel_ends_of_one_job_join_once(committed_db: Database, bench: Bench) -> None:
    """Two workers end the halves of a join, the last items of a fan-out, and the job's last steps at once."""
    barrier = threading.Barrier(2, timeout=PATIENCE_S)

    def meet(run: Run) -> Result:
        barrier.wait()
        return Done()

    bench.action("meet", meet)
    bench.recipe(
        {"id": "a", "action": "meet"},
        {"id": "b", "action": "meet"},
        {"id": "join", "after": ["a", "b"]},
        {"id": "each", "after": ["join"], "action": "meet", "for_each": "{{ inputs.two }}"},
        {"id": "last1", "after": ["each"], "action": "meet"},
        {"id": "last2", "after": ["each"], "action": "meet"},
    )
    for number in range(ROUNDS):
        job = bench.start(inputs={"two": [0, 1]})
        answers = at_once(partial(until_over, job), partial(until_over, job))
        assert not [answer for answer in answers if isinstance(answer, Exception)]
        assert finished(job), number
        assert set(Step.objects.filter(job=job).values_list("attempts", flat=True)) == {1}
    assert bench.ran.count("join") == bench.ran.count("last1") == ROUNDS


def until_over(job: Job) -> None:
    def over() -> bool:
        drain()
        return Job.objects.filter(pk=job.pk, status="COMPLETED").exists()

    until(over, every=0.01)


def test_two_workers_take_every_step_once_in_order(committed_db: Database, bench: Bench) -> None:
    bench.recipe({"id": "a"})
    for priority in (100, 5, 50, 100, 5, 50, 100, 5, 50, 1):
        bench.start(priority=priority)
    order = list(Step.objects.order_by("priority", "ready_at", "id").values_list("pk", flat=True))

    def take_all() -> list[Step]:
        taken = []
        while step := claim_step():
            taken.append(step)
        return taken

    one, other = at_once(take_all, take_all)
    assert sorted([*(s.pk for s in one), *(s.pk for s in other)]) == sorted(order)
    for taken in (one, other):
        places = [order.index(step.pk) for step in taken]
        assert places == sorted(places)


def test_while_one_worker_holds_a_step_the_other_takes_the_next(committed_db: Database, bench: Bench) -> None:
    bench.recipe({"id": "a"})
    first, second = bench.start(), bench.start()
    with transaction.atomic():
        Step.objects.select_for_update().get(job=first)
        (taken,) = at_once(claim_step)
    assert taken.job_id == second.pk


def test_the_handlers_are_the_ones_the_application_registers() -> None:
    assert handlers._approval_closed in kinds._closed
    assert handlers._operation_settled in published._listeners
    assert {"expired_approvals", "woken"} <= set(sweep._chores)


def put_back(step: Step) -> None:
    """It is woken later, for itself."""
    assert RowTrouble.objects.values_list("work", "row").get() == (wake.WORK, step.pk)
    heal("tasks_app_step")
    again = troubled_until(wake.WORK, step.pk)
    with clock.injected(lambda: again):
        assert steps_wake_again() == 1
        drain()
    assert Job.objects.get(pk=step.job_id).status == "COMPLETED"


@pytest.mark.django_db
def test_a_step_that_cannot_be_woken_keeps_back_no_end_of_an_operation(waits: Bench) -> None:
    """What else follows from the end, a deal booked, does not wait for the step."""
    operation = out()
    step = steps_of(waits.run("operation_wait", inputs={"id": str(operation.pk)}))["a"]
    poison("tasks_app_step", step.pk)

    assert end(operation)

    assert Operation.objects.get(pk=operation.pk).published_at
    put_back(step)


@pytest.mark.django_db
def test_a_step_that_cannot_be_woken_keeps_back_no_decision(waits: Bench, asking: None) -> None:
    """Nor another step that waits for the same, each beside something else."""
    first, second, third, user = ask(), ask(), ask(), make_user("Approver")
    bad, well = (
        waits.run("approvals_wait", inputs={"ids": [str(first.pk), str(beside.pk)]})
        for beside in (second, third)
    )
    step = steps_of(bad)["a"]
    approving(second, user)()
    approving(third, user)()
    poison("tasks_app_step", step.pk)

    assert approving(first, user)().status == "approved"

    assert finished(well)
    put_back(step)


@pytest.mark.django_db
def test_a_step_that_cannot_be_woken_keeps_back_no_end_of_a_nested_job(waits: Bench) -> None:
    operation = out()
    waits.recipe(
        {"id": "top", "recipe": "operation_wait", "inputs": {"id": "{{ inputs.id }}"}}, name="outer_wait"
    )
    step = steps_of(waits.run("outer_wait", inputs={"id": str(operation.pk)}))["top"]
    nested = Job.objects.get(parent_step=step)
    poison("tasks_app_step", step.pk)
    assert end(operation)

    assert finished(nested)

    assert not Step.objects.filter(job=nested, failures__gt=0).exists()
    put_back(step)


@pytest.mark.django_db
def test_a_step_that_cannot_be_woken_is_not_told_to_have_been(waits: Bench) -> None:
    operation = out()
    job = waits.run("operation_wait", inputs={"id": str(operation.pk)})
    step = steps_of(job)["a"]
    poison("tasks_app_step", step.pk)
    assert end(operation)

    assert job_recover(job) == 0

    assert not WorkflowEvent.objects.filter(type="step.recovered").exists()
