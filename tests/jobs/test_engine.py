"""What a recipe's graph does, step by step, in one process with the clock in hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError

from tasks_app.jobs import events
from tasks_app.jobs.actions import Done, Run, StepFailedError, WaitUntil
from tasks_app.jobs.models import Edge, Job, JobStatus, Step, WorkflowEvent
from tasks_app.jobs.recipes import RecipeError
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity
from tests.clocks import Clock
from tests.jobs.conftest import Bench, failing, statuses, steps_of

pytestmark = pytest.mark.django_db


def step(name: str, *after: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "after": list(after), **fields}


def verified(job: Job) -> bool:
    rows = [("job", job.pk), *(("step", pk) for pk in job.steps.values_list("pk", flat=True))]
    return all(verify_entity(*row).ok for row in rows)


def test_a_chain_runs_in_order_and_hands_outputs_on(bench: Bench) -> None:
    bench.action("double", lambda run: Done(outputs={"n": run.inputs["n"] * 2}))
    bench.recipe(
        step("a", action="double", inputs={"n": "{{ inputs.n }}"}),
        step("b", "a", action="double", inputs={"n": "{{ steps.a.outputs.n }}"}),
        outputs={"n": "{{ steps.b.outputs.n }}"},
    )
    job = bench.run(inputs={"n": 3})
    assert bench.ran == ["a", "b"]
    assert (job.status, job.outputs) == (JobStatus.COMPLETED, {"n": 12})
    assert [entry.to_status for entry in AuditEntry.objects.filter(entity_id=job.pk).order_by("seq")] == [
        "PENDING",
        "QUEUED",
        "DISPATCHING",
        "PROCESSING",
        "COMPLETED",
    ]
    trail = AuditEntry.objects.filter(entity_id=steps_of(job)["b"].pk).order_by("seq")
    assert [entry.to_status for entry in trail] == ["received", "queued", "executing", "completed"]
    assert verified(job)


def test_a_plan_is_pinned_and_persisted_whole(bench: Bench) -> None:
    bench.recipe(step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c"))
    job = bench.start()
    assert {(e.before.key, e.after.key) for e in Edge.objects.filter(before__job=job)} == {
        ("a", "b"),
        ("a", "c"),
        ("b", "d"),
        ("c", "d"),
    }
    assert {key: s.incoming for key, s in steps_of(job).items()} == {"a": 0, "b": 1, "c": 1, "d": 2}
    assert statuses(job) == {"a": "queued", "b": "received", "c": "received", "d": "received"}
    assert (job.status, len(job.plan["steps"]), len(job.recipe_digest)) == ("QUEUED", 4, 64)


def test_branches_join_after_the_last(bench: Bench) -> None:
    bench.recipe(step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c"))
    assert bench.run().status == JobStatus.COMPLETED
    assert bench.ran[0] == "a"
    assert set(bench.ran[1:3]) == {"b", "c"}
    assert bench.ran[3:] == ["d"]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_for_each_runs_an_item_each(bench: Bench, count: int) -> None:
    bench.action("square", lambda run: Done(outputs={"n": run.inputs["n"] ** 2, "at": run.step.item_index}))
    bench.recipe(
        step("each", action="square", for_each="{{ inputs.list }}", inputs={"n": "{{ item }}"}),
        step("after", "each", inputs={"all": "{{ steps.each.outputs.results }}"}),
    )
    job = bench.run(inputs={"list": list(range(count))})
    assert job.status == JobStatus.COMPLETED
    assert bench.ran == [*(f"each[{n}]" for n in range(count)), "after"]
    told = steps_of(job)["after"].outputs["inputs"]["all"]
    assert told == [{"n": n**2, "at": n} for n in range(count)]
    assert verified(job)


@pytest.mark.parametrize("value", ["text", {"a": 1}, 7, None])
def test_for_each_wants_a_list(bench: Bench, value: Any) -> None:
    bench.recipe(step("each", for_each="{{ inputs.list }}"), step("after", "each"))
    job = bench.run(inputs={"list": value})
    assert (job.status, job.error) == (JobStatus.FAILED, "each: for_each of each is not a list")
    assert statuses(job) == {"each": "failed", "after": "cancelled"}


def test_a_failed_item_fails_the_fan_out_after_the_others_ended(bench: Bench) -> None:
    def odd(run: Run) -> Done:
        if run.inputs["n"] == 1:
            raise StepFailedError("one is odd")
        return Done(outputs={"n": run.inputs["n"]})

    bench.action("odd", odd)
    each = {"action": "odd", "for_each": "{{ inputs.list }}", "inputs": {"n": "{{ item }}"}}
    bench.recipe(step("each", **each), step("after", "each"), step("beside"))
    job = bench.run(inputs={"list": [0, 1, 2]})
    assert statuses(job) == {
        "each": "failed",
        "each[0]": "completed",
        "each[1]": "failed",
        "each[2]": "completed",
        "after": "cancelled",
        "beside": "completed",
    }
    assert (job.status, job.error) == (JobStatus.FAILED, "each: each[1]: one is odd")

    bench.recipe(
        step("each", optional=True, **each),
        step("after", "each", inputs={"all": "{{ steps.each.outputs.results }}"}),
        name="lenient",
    )
    job = bench.run("lenient", inputs={"list": [0, 1, 2]})
    assert job.status == JobStatus.COMPLETED
    assert steps_of(job)["after"].outputs["inputs"]["all"] == [{"n": 0}, {"n": 2}]


def test_a_nested_recipe_is_one_step_to_its_parent(bench: Bench) -> None:
    bench.recipe(
        step("in1", inputs={"n": "{{ inputs.n }}"}),
        step("in2", "in1"),
        name="inner",
        outputs={"n": "{{ steps.in1.outputs.inputs.n }}"},
    )
    bench.recipe(
        step("nest", recipe="inner", for_each="{{ inputs.list }}", inputs={"n": "{{ item }}"}),
        step("after", "nest", inputs={"all": "{{ steps.nest.outputs.results }}"}),
    )
    job = bench.run(inputs={"list": [7, 8]})
    assert job.status == JobStatus.COMPLETED
    assert steps_of(job)["after"].outputs["inputs"]["all"] == [{"n": 7}, {"n": 8}]
    children = Job.objects.filter(parent_step__job=job)
    assert [(c.status, c.recipe, c.subject_type) for c in children] == [("COMPLETED", "inner", "")] * 2
    assert sorted(bench.ran) == ["after", "in1", "in1", "in2", "in2"]


def test_a_nested_failure_names_the_child_and_its_step(bench: Bench) -> None:
    bench.action("broken", failing(9, lambda: StepFailedError("no stock")))
    bench.recipe(step("buy", action="broken"), name="inner")
    bench.recipe(step("nest", recipe="inner"), step("after", "nest"))
    job = bench.run()
    child = Job.objects.get(parent_step__job=job)
    assert job.error == f"nest: {child.reference} failed: buy: no stock"
    assert statuses(job) == {"nest": "failed", "after": "cancelled"}


def test_a_condition_that_is_not_met_skips_and_flows_on(bench: Bench) -> None:
    bench.action("tell", lambda run: Done(outputs={"booked": False}))
    bench.recipe(
        step("a", action="tell"),
        step("b", "a", condition="{{ steps.a.outputs.booked }}"),
        step("c", "b", condition="{{ not steps.a.outputs.booked }}"),
        step("d", "b", "c"),
    )
    job = bench.run()
    assert bench.ran == ["a", "c", "d"]
    skipped = steps_of(job)["b"]
    assert (skipped.status, skipped.skipped, skipped.outputs) == ("completed", True, {"skipped": True})
    assert skipped.attempts == 0
    assert job.status == JobStatus.COMPLETED
    assert verified(job)


def test_a_job_of_skipped_steps_only_completes_without_a_worker(bench: Bench) -> None:
    never = {"condition": "{{ inputs.go }}"}
    bench.recipe(step("a", **never), step("b", "a", **never), step("c", "a", "b", **never))
    job = bench.start(inputs={"go": False})
    job.refresh_from_db()
    assert job.status == JobStatus.COMPLETED
    assert drain() == 0
    assert verified(job)


def test_a_condition_that_cannot_be_told_fails_its_step(bench: Bench) -> None:
    bench.recipe(step("a"), step("b", "a", condition="{{ steps.a.outputs.ghost }}"))
    job = bench.run()
    assert bench.ran == ["a"]
    assert job.status == JobStatus.FAILED
    assert "steps.a.outputs.ghost" in job.error


def test_an_optional_failure_lets_the_rest_go_on(bench: Bench) -> None:
    bench.action("broken", failing(9, lambda: StepFailedError("out of paper")))
    bench.recipe(step("a", action="broken", optional=True), step("b", "a"))
    job = bench.run()
    assert statuses(job) == {"a": "failed", "b": "completed"}
    assert (job.status, job.error) == (JobStatus.COMPLETED, "")


def test_a_failure_abandons_only_what_depends_on_it(bench: Bench) -> None:
    """A diamond whose tip is reached on three ways, beside a branch that goes on."""
    bench.action("broken", failing(9, lambda: StepFailedError("no such product")))
    bench.recipe(
        step("a"),
        step("bad", "a", action="broken"),
        step("x", "bad"),
        step("y", "bad"),
        step("tip", "bad", "x", "y"),
        step("last", "tip", "good2"),
        step("good", "a"),
        step("good2", "good"),
    )
    job = bench.run()
    assert bench.ran == ["a", "bad", "good", "good2"]
    assert statuses(job) == {
        "a": "completed",
        "bad": "failed",
        "x": "cancelled",
        "y": "cancelled",
        "tip": "cancelled",
        "last": "cancelled",
        "good": "completed",
        "good2": "completed",
    }
    assert (job.status, job.error) == (JobStatus.FAILED, "bad: no such product")
    assert verified(job)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"action": "ghost"}, "there is no action 'ghost'"),
        ({"recipe": "ghost"}, "there is no recipe 'ghost'"),
        ({"inputs": {"x": "{{ inputs.ghost }}"}}, "inputs.ghost"),
    ],
)
def test_what_is_not_there_is_named(bench: Bench, fields: dict[str, Any], words: str) -> None:
    bench.recipe(step("a", **fields))
    assert words in bench.run().error


def test_outputs_that_are_not_there_fail_the_job_and_nothing_hangs(bench: Bench) -> None:
    bench.recipe(step("a", optional=True), name="test", outputs={"x": "{{ steps.a.outputs.ghost }}"})
    job = bench.run()
    assert job.status == JobStatus.FAILED
    assert job.error.startswith("outputs: steps.a.outputs.ghost")
    assert statuses(job) == {"a": "completed"}


@pytest.mark.parametrize("outputs", [{"x": object()}, {"x": float("nan")}, {"x": {1, object()}}])
def test_outputs_that_cannot_be_kept_cost_a_failure(
    bench: Bench, outputs: dict[str, Any], still: Clock
) -> None:
    bench.action("odd", lambda run: Done(outputs=outputs))
    bench.recipe(step("a", action="odd", max_failures=1))
    job = bench.run()
    assert job.status == JobStatus.FAILED
    assert "failure_budget_exhausted" in job.error


def test_texts_that_no_column_holds_are_kept_as_far_as_they_can_be(bench: Bench) -> None:
    bench.action("tell", lambda run: Done(outputs={"said": "a\x00b\ud800"}))
    bench.action("broken", failing(1, lambda: ValueError("bad\x00byte")))
    bench.recipe(step("a", action="tell"), step("b", "a", action="broken", max_failures=1))
    job = bench.run()
    assert steps_of(job)["a"].outputs == {"said": "a\ufffdb\ufffd"}
    assert steps_of(job)["b"].error.endswith("ValueError: bad\ufffdbyte")
    assert "bad\ufffdbyte" in job.error
    assert verified(job)


def test_what_a_seller_said_is_no_expression(bench: Bench) -> None:
    bench.action("tell", lambda run: Done(outputs={"said": "{{ inputs.secret }}"}))
    bench.recipe(step("a", action="tell"), step("b", "a", inputs={"x": "{{ steps.a.outputs.said }}"}))
    job = bench.run(inputs={"secret": "hidden"})
    assert steps_of(job)["b"].outputs["inputs"] == {"x": "{{ inputs.secret }}"}


def test_a_step_sleeps_until_its_moment(bench: Bench, still: Clock) -> None:
    moment = still.now + timedelta(hours=2)
    bench.action("later", lambda run: Done() if still.now >= moment else WaitUntil(moment=moment))
    bench.recipe(step("a", action="later"))
    job = bench.run()
    assert statuses(job) == {"a": "awaiting_tool"}
    still.forward(hours=2, microseconds=-1)
    assert drain() == 0
    still.forward(microseconds=1)
    assert drain() == 1
    job.refresh_from_db()
    assert job.status == JobStatus.COMPLETED


def test_starting_is_all_or_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.recipe(step("a"), step("b", "a"))
    before = AuditEntry.objects.count()
    with pytest.raises(RecipeError, match="no recipe 'ghost'"):
        bench.start("ghost")
    honest = events.record

    def breaks(job: Job, kind: str, **more: Any) -> None:
        if kind == "step.queued":
            raise DatabaseError("the disk is full")
        honest(job, kind, **more)

    monkeypatch.setattr(events, "record", breaks)
    with pytest.raises(DatabaseError):
        bench.start()
    found = (Job.objects.count(), Step.objects.count(), Edge.objects.count(), WorkflowEvent.objects.count())
    assert found == (0, 0, 0, 0)
    assert AuditEntry.objects.count() == before
