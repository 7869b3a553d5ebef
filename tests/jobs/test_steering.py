"""Skipping a step and changing a job's turn: what it calls off, who may, and what is kept of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from orders.questions import ask_deal
from tasks_app import clock
from tasks_app.approvals.models import ApprovalStatus
from tasks_app.jobs.actions import (
    Done,
    Result,
    Run,
    WaitForApprovals,
    WaitForEvent,
    WaitForOperation,
    WaitUntil,
)
from tasks_app.jobs.endings import JobRefusedError, nested_end_due
from tasks_app.jobs.engine import mark_complete
from tasks_app.jobs.graph import job_graph
from tasks_app.jobs.models import Job, Step, WorkflowEvent
from tasks_app.jobs.recipes import recipes_known
from tasks_app.jobs.replaying import replayed
from tasks_app.jobs.steering import can_be_skipped, job_priority_set, step_input_give, step_skip
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.people.models import User
from tests.clocks import Clock
from tests.factories import make_deal, make_user
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench, failing, statuses, steps_of
from tests.operations.making import ask

pytestmark = pytest.mark.django_db


@pytest.fixture
def ops() -> User:
    return make_user("Ad Ops")


def tomorrow(_run: Run) -> Result:
    return WaitUntil(moment=clock.now() + timedelta(days=1))


def skip(job: Job, key: str, who: User, reason: str = "the seller sent it by mail") -> Job:
    step_skip(step_id=steps_of(job)[key].pk, actor=who, reason=reason)
    job.refresh_from_db()
    return job


def test_a_waiting_step_counts_as_done_and_the_job_goes_on(bench: Bench, ops: User) -> None:
    bench.action("sleep", tomorrow)
    bench.recipe({"id": "a", "action": "sleep"}, {"id": "b", "after": ["a"]})
    job = skip(bench.run(), "a", ops)
    step = steps_of(job)["a"]
    assert (step.status, step.skipped, step.outputs) == ("completed", True, {"skipped": True})
    assert (step.waiting_for, step.ready_at) == (None, None)
    assert drain() == 1
    job.refresh_from_db()
    assert (job.status, bench.ran) == ("COMPLETED", ["a", "b"])
    last = AuditEntry.objects.filter(entity_id=step.pk).order_by("-seq").first()
    assert last is not None
    assert (last.actor, last.reason) == (f"human:{ops.pk}", "Skipped: the seller sent it by mail")
    told = WorkflowEvent.objects.get(job=job, type="step.skipped")
    assert (told.source, told.payload) == (f"human:{ops.pk}", {"reason": "the seller sent it by mail"})
    assert verify_entity("step", step.pk).ok
    assert {node.key: node.skip_reason for node in job_graph(job).nodes} == {
        "a": told.payload["reason"],
        "b": "",
    }
    run = replayed(WorkflowEvent.objects.filter(job=job))
    assert {key: one.status for key, one in run.steps.items()} == statuses(job)
    assert run.status == "COMPLETED"


def test_queued_and_failing_ones_are_skipped_before_they_run(bench: Bench, ops: User) -> None:
    bench.action("flaky", failing(9, lambda: RuntimeError("busy")))
    bench.recipe({"id": "a", "action": "flaky"}, {"id": "b"})
    job = bench.start()
    drain(1)
    assert statuses(job) == {"a": "awaiting_tool", "b": "queued"}
    skip(job, "a", ops)
    skip(job, "b", ops)
    assert (job.status, bench.ran) == ("COMPLETED", ["a"])
    assert not WorkflowEvent.objects.filter(job=job, type="retry_succeeded").exists()


def test_what_it_waited_for_is_called_off(bench: Bench, ops: User) -> None:
    approval, asked = ask_deal(make_deal()), ask("get_products")
    bench.action("person", lambda run: WaitForApprovals(approval_ids=(approval.pk,)))
    bench.action("seller", lambda run: WaitForOperation(operation_id=asked.pk))
    bench.recipe({"id": "a", "action": "person"}, {"id": "b", "action": "seller"})
    job = bench.run()
    skip(job, "a", ops)
    skip(job, "b", ops)
    approval.refresh_from_db()
    asked = Operation.objects.get(pk=asked.pk)
    assert (approval.status, asked.status) == (ApprovalStatus.VOIDED, OperationStatus.CANCELED)
    assert (job.status, drain()) == ("COMPLETED", 0)


def test_a_fan_out_is_skipped_with_its_items_and_an_item_alone(bench: Bench, ops: User) -> None:
    bench.action("sleep", tomorrow)
    bench.recipe(
        {"id": "many", "action": "sleep", "for_each": "{{ [1, 2, 3] }}"}, {"id": "b", "after": ["many"]}
    )
    job = bench.run()
    skip(job, "many[1]", ops)
    assert statuses(job)["many"] == "awaiting_tool"
    skip(job, "many", ops)
    assert statuses(job) == {
        "many": "completed",
        "many[0]": "cancelled",
        "many[1]": "completed",
        "many[2]": "cancelled",
        "b": "queued",
    }
    run = replayed(WorkflowEvent.objects.filter(job=job))
    assert {key: one.status for key, one in run.steps.items()} == statuses(job)

    again = bench.run()
    for key in ("many[0]", "many[1]", "many[2]"):
        skip(again, key, ops)
    assert steps_of(again)["many"].outputs == {"results": [], "skipped": 3}


def test_a_list_that_is_skipped_keeps_what_was_done_of_it(bench: Bench, ops: User) -> None:
    """Of twelve sellers one does not answer: the job goes on with the others'."""

    def slow(run: Run) -> Result:
        return tomorrow(run) if run.inputs["of"] == 2 else Done(outputs={"of": run.inputs["of"]})

    bench.action("ask", slow)
    each = {"id": "many", "action": "ask", "for_each": "{{ [1, 2, 3] }}", "inputs": {"of": "{{ item }}"}}
    bench.recipe(each, {"id": "b", "after": ["many"], "inputs": {"of": "{{ steps.many.outputs.results }}"}})
    job = bench.run()
    skip(job, "many", ops)
    drain()
    job.refresh_from_db()
    steps = steps_of(job)
    assert steps["many"].outputs == {"results": [{"of": 1}, {"of": 3}], "skipped": 1}
    assert (job.status, steps["b"].outputs["inputs"]) == ("COMPLETED", {"of": [{"of": 1}, {"of": 3}]})


def test_a_list_that_is_not_begun_is_skipped_empty(bench: Bench, ops: User) -> None:
    bench.recipe(
        {"id": "many", "for_each": "{{ [1, 2] }}"},
        {"id": "b", "after": ["many"], "inputs": {"of": "{{ steps.many.outputs.results }}"}},
    )
    job = bench.start()
    skip(job, "many", ops)
    drain()
    job.refresh_from_db()
    assert (job.status, steps_of(job)["many"].outputs) == ("COMPLETED", {"results": [], "skipped": True})


@pytest.mark.parametrize(
    ("spoken", "refused"),
    [
        ("{{ steps.a.outputs.found }}", True),
        ("{{ steps.a.outputs.found | length }}", True),
        ("{{ steps.a.outputs.found | default(0) }}", False),
        ("{{ steps.a.outputs.found is defined }}", False),
        ("{{ steps.a.outputs.skipped }}", False),
        ("a", False),
    ],
)
def test_what_others_need_is_not_skipped(bench: Bench, ops: User, spoken: str, refused: bool) -> None:
    """They could not run, however often the job is retried."""
    bench.action("sleep", tomorrow)
    last = {"id": "b", "title": "Add up", "after": ["a"], "inputs": {"n": spoken}}
    bench.recipe({"id": "a", "action": "sleep"}, last)
    job = bench.run()
    assert can_be_skipped(steps_of(job)["a"]) != refused
    if refused:
        with pytest.raises(JobRefusedError, match=r"needed: Add up\. Cancel the job"):
            skip(job, "a", ops)
        assert statuses(job)["a"] == "awaiting_tool"
        return
    skip(job, "a", ops)
    drain()
    job.refresh_from_db()
    assert (job.status, job.error) == ("COMPLETED", "")


def test_what_the_outputs_need_is_not_skipped(bench: Bench, ops: User) -> None:
    bench.action("sleep", tomorrow)
    bench.recipe({"id": "a", "action": "sleep"}, outputs={"n": "{{ steps.a.outputs.n }}"})
    with pytest.raises(JobRefusedError, match="needed: the job's outputs"):
        skip(bench.run(), "a", ops)


def test_what_can_be_skipped_of_ours() -> None:
    needed = {
        (recipe.name, step.id): recipe.missed_by(step.id)
        for recipe in recipes_known().values()
        for step in recipe.steps
    }
    assert {key: missed for key, missed in needed.items() if missed} == {
        ("campaign", "allocate"): ["Research"],
        ("campaign", "recommend"): ["Ask people", "Book"],
    }


def test_a_nested_job_ends_with_the_step_it_runs_for(bench: Bench, ops: User) -> None:
    bench.action("sleep", tomorrow)
    bench.recipe({"id": "deep", "action": "sleep"}, name="deepest")
    bench.recipe({"id": "inner", "recipe": "deepest"}, name="below")
    bench.recipe({"id": "a", "recipe": "below"}, {"id": "b", "after": ["a"]})
    job = skip(bench.run(), "a", ops)
    below = Job.objects.exclude(pk=job.pk)
    assert set(below.values_list("recipe", "status")) == {("below", "CANCELLED"), ("deepest", "CANCELLED")}
    drain()
    job.refresh_from_db()
    assert job.status == "COMPLETED"


def test_a_nested_job_whose_end_was_lost_is_ended_by_the_sweep(
    bench: Bench, ops: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.action("sleep", tomorrow)
    bench.recipe({"id": "inner", "action": "sleep"}, name="below")
    bench.recipe({"id": "a", "recipe": "below"})
    job = bench.run()
    monkeypatch.setattr("tasks_app.jobs.steering.children_end", lambda **_: 0)  # killed in between
    skip(job, "a", ops)
    assert Job.objects.get(recipe="below").status == "PROCESSING"
    assert nested_end_due() == 1
    assert Job.objects.get(recipe="below").status == "CANCELLED"


def test_what_may_not_be_skipped_stays(bench: Bench, ops: User) -> None:
    bench.recipe({"id": "a"}, {"id": "b", "after": ["a"]})
    job = bench.start()
    running = claim_step()
    assert running is not None
    before = AuditEntry.objects.count()
    for key, who, reason, why in (
        ("a", ops, "x", "A worker runs it now."),
        ("b", ops, "x", "not its turn yet"),
        ("a", make_user("Buyer"), "x", "no right"),
        ("a", ops, "  ", "Say why"),
    ):
        with pytest.raises(JobRefusedError, match=why):
            skip(job, key, who, reason)
    assert AuditEntry.objects.count() == before
    mark_complete(step=running, outputs={})
    with pytest.raises(JobRefusedError, match="completed already"):
        skip(job, "a", ops)
    assert not WorkflowEvent.objects.filter(type="step.skipped").exists()


def test_the_late_result_of_a_skipped_step_is_stale(bench: Bench, still: Clock, ops: User) -> None:
    bench.action("sleep", lambda run: WaitUntil(moment=still.now) if run.step.attempts == 1 else Done())
    bench.recipe({"id": "a", "action": "sleep"})
    job = bench.start()
    drain(1)
    late = Step.objects.get(job=job)
    skip(job, "a", ops)
    assert not mark_complete(step=late, outputs={"late": True})
    assert steps_of(job)["a"].outputs == {"skipped": True}


@pytest.fixture
def waits(bench: Bench) -> Bench:
    """A recipe whose step outputs the event `signed` that it waits for."""

    def action(run: Run) -> Result:
        return Done(outputs={"heard": run.event}) if run.event is not None else WaitForEvent(name="signed")

    bench.action("waiting", action)
    bench.recipe({"id": "a", "action": "waiting"})
    return bench


def test_a_step_is_given_the_event_it_waits_for_and_no_other_is(waits: Bench, ops: User) -> None:
    first, second = waits.run(), waits.run()
    step_input_give(
        step_id=steps_of(second)["a"].pk, payload={"by": "mail"}, actor=ops, reason="signed on paper"
    )
    with pytest.raises(JobRefusedError, match="come already"):
        step_input_give(step_id=steps_of(second)["a"].pk, payload={"by": "me"}, actor=ops, reason="again")
    drain()
    assert steps_of(second)["a"].outputs == {"heard": {"by": "mail"}}
    assert statuses(first) == {"a": "awaiting_tool"}
    told = WorkflowEvent.objects.filter(job=second, source=f"human:{ops.pk}").order_by("id")
    assert list(told.values_list("type", flat=True)) == ["step.event", "step.input"]
    assert told[1].payload == {"reason": "signed on paper"}


def test_what_cannot_be_given_is_refused(waits: Bench, ops: User) -> None:
    approval = ask_deal(make_deal())
    waits.action("person", lambda run: WaitForApprovals(approval_ids=(approval.pk,)))
    waits.recipe({"id": "p", "action": "person"}, name="asks")
    asks, job = waits.run("asks"), waits.run()
    for step, who, reason, why in (
        (steps_of(asks)["p"], ops, "x", "at their approvals"),
        (steps_of(job)["a"], make_user("Buyer"), "x", "no right"),
        (steps_of(job)["a"], ops, " ", "Say why"),
    ):
        with pytest.raises(JobRefusedError, match=why):
            step_input_give(step_id=step.pk, payload={}, actor=who, reason=reason)
    assert not WorkflowEvent.objects.filter(type="step.input").exists()
    skip(job, "a", ops)
    with pytest.raises(JobRefusedError, match="nothing that can be given"):
        step_input_give(step_id=steps_of(job)["a"].pk, payload={}, actor=ops, reason="x")


def test_a_priority_is_the_jobs_its_open_steps_and_its_nested_jobs(bench: Bench, ops: User) -> None:
    bench.action("sleep", tomorrow)
    bench.recipe({"id": "inner", "action": "sleep"}, name="below")
    bench.recipe({"id": "done"}, {"id": "a", "recipe": "below"}, {"id": "b", "after": ["a"]})
    job = bench.run()
    told = job_priority_set(job_id=job.pk, priority=7, actor=ops, reason="the client waits")
    below = Job.objects.get(recipe="below")
    assert (told.priority, below.priority) == (7, 7)
    assert {key: step.priority for key, step in steps_of(job).items()} == {"done": 100, "a": 7, "b": 7}
    assert steps_of(below)["inner"].priority == 7
    event = WorkflowEvent.objects.get(job=job, type="job.priority")
    assert (event.source, event.payload) == (
        f"human:{ops.pk}",
        {"from": 100, "to": 7, "reason": "the client waits"},
    )


def test_a_raised_job_goes_first(bench: Bench, ops: User) -> None:
    bench.recipe({"id": "a"})
    first, second = bench.start(), bench.start()
    job_priority_set(job_id=second.pk, priority=1, actor=ops, reason="urgent")
    taken = [claim_step(), claim_step()]
    assert [step.job_id for step in taken if step] == [second.pk, first.pk]


def test_a_priority_that_cannot_be_set_changes_nothing(bench: Bench, ops: User) -> None:
    bench.recipe({"id": "a"})
    job = bench.start()
    for priority, who, reason, why in (
        (-1, ops, "x", "0 to 32,767"),
        (32_768, ops, "x", "0 to 32,767"),
        (1, make_user("Buyer"), "x", "no right"),
        (1, ops, "", "Say why"),
    ):
        with pytest.raises(JobRefusedError, match=why):
            job_priority_set(job_id=job.pk, priority=priority, actor=who, reason=reason)
    drain()
    with pytest.raises(JobRefusedError, match="ended"):
        job_priority_set(job_id=job.pk, priority=1, actor=ops, reason="x")
    assert Job.objects.get().priority == 100
    assert not WorkflowEvent.objects.filter(type="job.priority").exists()
