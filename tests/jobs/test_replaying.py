"""A run is told whole by its events: replayed from them alone it is what the rows say."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.jobs.actions import Result, Run, StepFailedError, WaitUntil
from tasks_app.jobs.endings import job_cancel, job_hide
from tasks_app.jobs.models import Job, Step, WorkflowEvent
from tasks_app.jobs.replaying import replayed
from tasks_app.jobs.retrying import job_retry
from tasks_app.jobs.worker import drain
from tests.factories import make_user
from tests.jobs.conftest import Bench, Clock, failing

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
