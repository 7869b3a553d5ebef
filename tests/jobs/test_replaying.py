"""A run is told whole by its events: replayed from them alone it is what the rows say."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.jobs.actions import Result, Run, StepFailedError, WaitUntil
from tasks_app.jobs.endings import job_cancel, job_hide
from tasks_app.jobs.engine import mark_complete
from tasks_app.jobs.expiry import jobs_expire_due
from tasks_app.jobs.models import Job, Step, WorkflowEvent
from tasks_app.jobs.replaying import replayed
from tasks_app.jobs.retrying import job_retry
from tasks_app.jobs.steering import job_priority_set, step_input_give, step_skip
from tasks_app.jobs.worker import drain
from tests.clocks import Clock
from tests.factories import make_user
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench, failing, steps_of

pytestmark = pytest.mark.django_db


def as_rows(job: Job) -> tuple[Any, ...]:
    job.refresh_from_db()
    steps = {
        step.key: (step.status, step.attempts, step.outputs, step.error, step.skipped)
        for step in Step.objects.filter(job=job)
    }
    return job.status, job.outputs, job.error, steps


def as_told(job: Job) -> tuple[Any, ...]:
    run = replayed(WorkflowEvent.objects.filter(job=job))
    steps = {
        key: (step.status, step.attempts, step.outputs, step.error, step.skipped)
        for key, step in run.steps.items()
    }
    return run.status, run.outputs, run.error, steps


def sleep(_run: Run) -> Result:
    return WaitUntil(moment=clock.now() + timedelta(hours=1))


def test_at_every_moment_of_a_run(bench: Bench, still: Clock) -> None:
    bench.action("flaky", failing(1, lambda: OSError("reset")))
    bench.action("refused", failing(9, lambda: StepFailedError("no")))
    bench.recipe(
        {"id": "a", "preview": True},
        {"id": "b", "action": "flaky", "after": ["a"]},
        {"id": "each", "for_each": "{{ inputs.list }}", "after": ["a"]},
        {"id": "c", "condition": "{{ inputs.never }}", "after": ["b"]},
        {"id": "d", "action": "refused", "optional": True, "after": ["c"]},
        {"id": "e", "after": ["d", "each"]},
        outputs={"e": "{{ steps.e.outputs.key }}"},
    )
    job = bench.start(inputs={"list": [1, 2], "never": False})
    moments = 0
    while as_rows(job)[0] != "COMPLETED":
        assert as_told(job) == as_rows(job)
        if not drain(steps=1):
            still.forward(seconds=30)
        moments += 1
        assert moments < 200, "the job does not end"
    assert as_told(job) == as_rows(job)
    assert moments > 5


def test_cancelled_and_hidden(bench: Bench) -> None:
    bench.action("sleep", sleep)
    bench.recipe({"id": "a"}, {"id": "b", "action": "sleep", "after": ["a"]}, {"id": "c", "after": ["b"]})
    job = bench.run()
    assert as_told(job) == as_rows(job)
    job_cancel(job_id=job.pk, actor=make_user("Ad Ops"), reason="withdrawn")
    assert as_told(job) == as_rows(job)
    job_hide(job_id=job.pk, actor=make_user("Ad Ops"))
    assert as_told(job)[1:] == as_rows(job)[1:], "hiding is no part of the run"


def test_failed_and_retried(bench: Bench) -> None:
    bench.action("flaky", failing(1, lambda: StepFailedError("no")))
    bench.recipe({"id": "a"}, {"id": "b", "action": "flaky", "after": ["a"]}, {"id": "c", "after": ["b"]})
    old = bench.run()
    assert as_told(old) == as_rows(old)
    new = job_retry(job_id=old.pk, actor=make_user("Ad Ops"), reason="mended")
    drain()
    assert as_told(new) == as_rows(new)


def test_steered_by_people_and_given_its_event(bench: Bench) -> None:
    """Skipped: a fan-out under way and a step that waits. Given: an event. Its turn changed."""
    ops = make_user("Ad Ops")
    bench.action("sleep", sleep)
    bench.recipe(
        {"id": "each", "action": "sleep", "for_each": "{{ inputs.list }}"},
        {"id": "nap", "action": "sleep"},
        {"id": "heard", "action": "wait_for_event", "inputs": {"name": "it.came"}},
        {"id": "last", "after": ["each", "nap", "heard"]},
    )
    job = bench.run(inputs={"list": [1, 2]})
    steps = steps_of(job)
    for act in (
        lambda: step_skip(step_id=steps["each[0]"].pk, actor=ops, reason="not this one"),
        lambda: step_skip(step_id=steps["each"].pk, actor=ops, reason="none of them"),
        lambda: step_skip(step_id=steps["nap"].pk, actor=ops, reason="awake"),
        lambda: job_priority_set(job_id=job.pk, priority=5, actor=ops, reason="it is urgent"),
        lambda: step_input_give(step_id=steps["heard"].pk, payload={"n": 1}, actor=ops, reason="by phone"),
        drain,
    ):
        act()
        assert as_told(job) == as_rows(job)
    assert as_rows(job)[0] == "COMPLETED"


def test_taken_over_late_and_expired(bench: Bench, still: Clock) -> None:
    bench.action("sleep", sleep)
    bench.recipe({"id": "a"}, {"id": "b", "action": "sleep", "after": ["a"]}, {"id": "c", "after": ["b"]})
    job = bench.start()
    lost = claim_step()
    assert lost is not None
    still.forward(seconds=61)
    drain()
    assert not mark_complete(step=lost, outputs={"too": "late"})
    assert as_told(job) == as_rows(job)
    still.forward(hours=25)
    assert jobs_expire_due() == 1
    assert as_told(job) == as_rows(job)
    assert as_rows(job)[0] == "EXPIRED"


def test_retried_with_items_and_a_nested_job_adopted(bench: Bench) -> None:
    bench.action("flaky", failing(1, lambda: StepFailedError("no")))
    bench.recipe({"id": "in"}, name="inner")
    bench.recipe(
        {"id": "nested", "recipe": "inner"},
        {"id": "each", "action": "flaky", "for_each": "{{ inputs.list }}", "after": ["nested"]},
        {"id": "c", "after": ["each"]},
    )
    old = bench.run(inputs={"list": [1, 2, 3]})
    assert as_told(old) == as_rows(old)
    new = job_retry(job_id=old.pk, actor=make_user("Ad Ops"), reason="mended")
    drain()
    assert as_told(new) == as_rows(new)
    assert as_rows(new)[0] == "COMPLETED"
    assert WorkflowEvent.objects.filter(job=new, type="step.adopted").count() == 3
