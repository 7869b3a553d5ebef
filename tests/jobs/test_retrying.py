"""Retrying a failed job: what is adopted, what is done again, and what is never done twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tasks_app.jobs.actions import Done, Result, Run, StepFailedError, WaitForOperation
from tasks_app.jobs.endings import JobRefusedError
from tasks_app.jobs.models import Job, JobStatus
from tasks_app.jobs.retrying import job_retry
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.models import Operation
from tasks_app.operations.services import operation_ensure
from tests.factories import make_seller, make_team, make_user
from tests.jobs.conftest import Bench, failing, statuses, steps_of

pytestmark = pytest.mark.django_db


def refused_once() -> Callable[[Run], Result]:
    return failing(1, lambda: StepFailedError("refused"))


def retried(job: Job, **fields: Any) -> Job:
    new = job_retry(job_id=job.pk, actor=make_user("Ad Ops"), reason="mended", **fields)
    drain()
    new.refresh_from_db()
    return new


def test_completed_steps_are_adopted_and_the_rest_is_done(bench: Bench) -> None:
    bench.action("flaky", refused_once())
    bench.recipe(
        {"id": "a"},
        {"id": "b", "after": ["a"], "action": "flaky"},
        {"id": "c", "after": ["a", "b"], "inputs": {"a": "{{ steps.a.outputs.key }}"}},
        outputs={"last": "{{ steps.c.outputs.inputs.a }}"},
    )
    old = bench.run()
    assert (old.status, bench.ran) == (JobStatus.FAILED, ["a", "b"])
    new = retried(old)
    assert bench.ran == ["a", "b", "b", "c"]
    assert (new.status, new.outputs, new.retry_of_id) == (JobStatus.COMPLETED, {"last": "a"}, old.pk)
    old.refresh_from_db()
    assert (old.status, statuses(old)) == ("FAILED", {"a": "completed", "b": "failed", "c": "cancelled"})
    for pk in new.steps.values_list("pk", flat=True):
        assert verify_entity("step", pk).ok
    assert verify_entity("job", new.pk).ok


def test_items_of_a_fan_out_are_adopted_one_by_one(bench: Bench) -> None:
    failed = []

    def odd(run: Run) -> Result:
        if run.inputs["n"] == 1 and not failed:
            failed.append(1)
            raise StepFailedError("one is odd")
        return Done(outputs={"n": run.inputs["n"]})

    bench.action("odd", odd)
    bench.recipe(
        {"id": "each", "action": "odd", "for_each": "{{ inputs.list }}", "inputs": {"n": "{{ item }}"}},
        {"id": "after", "after": ["each"], "inputs": {"all": "{{ steps.each.outputs.results }}"}},
    )
    old = bench.run(inputs={"list": [0, 1, 2]})
    assert old.status == JobStatus.FAILED
    bench.ran.clear()
    new = retried(old)
    assert bench.ran == ["each[1]", "after"]
    assert steps_of(new)["after"].outputs["inputs"]["all"] == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_a_nested_job_is_retried_below(bench: Bench) -> None:
    bench.action("flaky", refused_once())
    bench.recipe({"id": "x"}, {"id": "y", "after": ["x"], "action": "flaky"}, name="inner")
    bench.recipe({"id": "top", "recipe": "inner"}, {"id": "end", "after": ["top"]}, name="outer")
    old = bench.run("outer")
    assert bench.ran == ["x", "y"]
    new = retried(old)
    assert (new.status, bench.ran) == (JobStatus.COMPLETED, ["x", "y", "y", "end"])
    child = Job.objects.get(parent_step__job=new)
    assert child.retry_of is not None
    assert child.retry_of.parent_step is not None
    assert child.retry_of.parent_step.job_id == old.pk


def test_from_a_step_on_everything_is_done_again(bench: Bench) -> None:
    bench.action("flaky", refused_once())
    bench.recipe(
        {"id": "a"}, {"id": "b", "after": ["a"]}, {"id": "c", "after": ["b"], "action": "flaky"}, {"id": "d"}
    )
    old = bench.run()
    bench.ran.clear()
    new = retried(old, from_step="b")
    assert (new.status, bench.ran) == (JobStatus.COMPLETED, ["b", "c"])


def test_a_job_all_of_whose_steps_are_adopted_ends(bench: Bench) -> None:
    """Only its outputs could not be told: they still cannot, and it says so instead of running for ever."""
    bench.recipe({"id": "a", "condition": "{{ inputs.never }}"}, outputs={"x": "{{ steps.a.outputs.key }}"})
    old = bench.run(inputs={"never": False})
    assert old.status == JobStatus.FAILED
    new = retried(old)
    assert (new.status, statuses(new)) == (JobStatus.FAILED, {"a": "completed"})
    assert new.error == old.error


def test_retries_can_be_retried(bench: Bench) -> None:
    bench.action("flaky", failing(2, lambda: StepFailedError("refused")))
    bench.recipe({"id": "a"}, {"id": "b", "after": ["a"], "action": "flaky"})
    first = bench.run()
    second = retried(first)
    assert second.status == JobStatus.FAILED
    third = retried(second)
    assert (third.status, bench.ran) == (JobStatus.COMPLETED, ["a", "b", "b", "b"])
    assert steps_of(third)["b"].lineage == steps_of(first)["b"].pk


@pytest.mark.parametrize(
    ("task_type", "status", "same"),
    [
        ("create_media_buy", "completed", True),
        ("create_media_buy", "submitted", True),
        ("create_media_buy", "timed_out", True),
        ("create_media_buy", "rejected", False),
        ("get_products", "completed", False),
    ],
)
def test_what_stands_at_the_seller_is_not_asked_twice(
    bench: Bench, task_type: str, status: str, same: bool
) -> None:
    seller, asked = make_seller(), []

    def ask(run: Run) -> Result:
        operation = operation_ensure(
            purpose=run.purpose("ask"),
            task_type=task_type,
            seller=seller,
            arguments={},
            actor="system",
            team=make_team(),
        )
        asked.append(operation.pk)
        if len(asked) == 1:
            _walk(operation, status)
            raise StepFailedError("it broke after it had asked")
        return WaitForOperation(operation_id=operation.pk)

    bench.action("ask", ask)
    bench.recipe({"id": "a", "action": "ask"})
    old = bench.run()
    retried(old)
    assert (asked[0] == asked[1]) == same
    assert Operation.objects.count() == (1 if same else 2)


def _walk(operation: Operation, status: str) -> None:
    from tasks_app.lifecycle.transitions import transition

    transition(operation, "calling_adcp", actor="system")
    transition(operation, "submitted", actor="system")
    if status != "submitted":
        transition(operation, status, actor="system")


def failed_job(bench: Bench) -> Job:
    bench.action("refused", failing(99, lambda: StepFailedError("refused")))
    bench.recipe({"id": "a", "action": "refused"}, name="inner")
    bench.recipe({"id": "top", "recipe": "inner"}, name="outer")
    return bench.run("outer")


def test_what_cannot_be_retried_says_why(bench: Bench) -> None:
    job = failed_job(bench)
    who, inner = make_user("Ad Ops"), Job.objects.get(parent_step__job=job)
    for why, arguments in {
        "Say why": {"job_id": job.pk, "actor": who, "reason": " "},
        "no right": {"job_id": job.pk, "actor": make_user("Finance"), "reason": "x"},
        "nested": {"job_id": inner.pk, "actor": who, "reason": "x"},
        "no step": {"job_id": job.pk, "actor": who, "reason": "x", "from_step": "nowhere"},
    }.items():
        with pytest.raises(JobRefusedError, match=why):
            job_retry(**arguments)
    assert Job.objects.filter(parent_step=None).count() == 1
    retried(job)
    with pytest.raises(JobRefusedError, match="already"):
        retried(job)


def test_what_runs_is_not_retried(bench: Bench) -> None:
    bench.recipe({"id": "a"})
    with pytest.raises(JobRefusedError, match="queued"):
        retried(bench.start())
