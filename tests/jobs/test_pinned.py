"""What runs keeps what it was started with; a skip is one commit; jobs nest as deep as they like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import connection

from tasks_app.jobs import recipes
from tasks_app.jobs.actions import Done, StepFailedError
from tasks_app.jobs.models import Job, JobStatus
from tasks_app.jobs.retrying import job_retry
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.models import AuditEntry
from tests.database import Database
from tests.factories import make_user
from tests.jobs.conftest import Bench, failing, statuses, steps_of


def deployed(bench: Bench, monkeypatch: pytest.MonkeyPatch, *steps: dict[str, Any]) -> None:
    """The next release, with another text of the recipe."""
    monkeypatch.setattr(recipes, "_recipes", {})
    bench.recipe(*steps, version=2)


@pytest.mark.django_db
def test_a_running_job_keeps_its_recipe_across_a_deploy(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.action("flaky", failing(1, lambda: StepFailedError("no")))
    bench.recipe(
        {"id": "a"},
        {"id": "b", "after": ["a"], "inputs": {"text": "old"}},
        {"id": "c", "after": ["b"], "action": "flaky"},
    )
    job = bench.start()
    drain(1)
    deployed(
        bench, monkeypatch, {"id": "a"}, {"id": "b", "after": ["a"], "inputs": {"text": "new"}}, {"id": "z"}
    )
    drain()
    job.refresh_from_db()
    assert steps_of(job)["b"].outputs["inputs"] == {"text": "old"}
    assert (job.status, job.recipe_version, set(statuses(job))) == (JobStatus.FAILED, 1, {"a", "b", "c"})
    again = job_retry(job_id=job.pk, actor=make_user("Ad Ops"), reason="mended")
    drain()
    again.refresh_from_db()
    assert (again.status, again.recipe_version, again.recipe_digest) == ("COMPLETED", 1, job.recipe_digest)
    new = bench.run()
    assert (new.recipe_version, set(statuses(new))) == (2, {"a", "b", "z"})


@pytest.mark.django_db
def test_a_running_job_keeps_the_recipes_that_are_nested_in_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those two below, of which one is gone in the next release; a job begun then has the new ones."""
    bench.recipe({"id": "x", "inputs": {"text": "old"}}, name="lowest")
    bench.recipe({"id": "below", "recipe": "lowest"}, name="inner")
    bench.recipe({"id": "a"}, {"id": "b", "after": ["a"], "recipe": "inner"})
    job = bench.start()
    drain(1)
    monkeypatch.setattr(recipes, "_recipes", {})
    bench.recipe({"id": "y", "inputs": {"text": "new"}}, name="inner", version=2)
    bench.recipe({"id": "b", "recipe": "inner"}, version=2)
    drain()
    job.refresh_from_db()
    assert job.status == JobStatus.COMPLETED
    child = Job.objects.get(parent_step__job=job)
    lowest = Job.objects.get(parent_step__job=child)
    assert [(one.recipe, one.recipe_version) for one in (child, lowest)] == [("inner", 1), ("lowest", 1)]
    assert steps_of(lowest)["x"].outputs["inputs"] == {"text": "old"}
    new = bench.run()
    assert set(statuses(Job.objects.get(parent_step__job=new))) == {"y"}


@contextmanager
def watched(database: Database, key: str) -> Iterator[set[str]]:
    """The statuses in which somebody else sees a step, looked at before every statement."""
    seen: set[str] = set()
    with psycopg.connect(database.urls.app, autocommit=True) as other:

        def look(execute: Callable[..., Any], *given: Any) -> Any:
            seen.update(
                row[0] for row in other.execute("select status from tasks_app_step where key = %s", [key])
            )
            return execute(*given)

        with connection.execute_wrapper(look):
            yield seen


def test_a_skipped_step_is_one_commit_and_takes_no_worker(committed_db: Database, bench: Bench) -> None:
    never = {"condition": "{{ inputs.go }}"}
    bench.recipe({"id": "a", **never}, {"id": "b"}, {"id": "c", "after": ["a", "b"], **never})
    job = bench.start(inputs={"go": False})
    trail = AuditEntry.objects.filter(entity_type="job", entity_id=job.pk).order_by("seq")
    assert list(trail.values_list("to_status", flat=True)) == ["PENDING", "QUEUED"], "no worker moved it"
    walked = AuditEntry.objects.filter(entity_id=steps_of(job)["a"].pk).order_by("seq")
    assert [entry.to_status for entry in walked] == ["received", "queued", "executing", "completed"]
    assert steps_of(job)["a"].attempts == 0
    assert bench.ran == []
    with watched(committed_db, "c") as seen:
        drain()
    assert seen == {"received", "completed"}, "it was seen on its way"
    assert bench.ran == ["b"]
    job.refresh_from_db()
    assert job.status == JobStatus.COMPLETED
    assert steps_of(job)["c"].attempts == 0


@pytest.mark.django_db
def test_results_pass_up_and_inputs_down_four_jobs_deep(bench: Bench) -> None:
    bench.action("add", lambda run: Done(outputs={"n": run.inputs["n"] + 1}))
    leaf = {"id": "add", "action": "add", "inputs": {"n": "{{ inputs.n }}"}}
    bench.recipe(leaf, name="depth0", outputs={"n": "{{ steps.add.outputs.n }}"})
    for depth in (1, 2, 3, 4):
        bench.recipe(
            {**leaf, "inputs": {"n": "{{ inputs.n }}"}},
            {
                "id": "below",
                "after": ["add"],
                "recipe": f"depth{depth - 1}",
                "inputs": {"n": "{{ steps.add.outputs.n }}"},
            },
            name=f"depth{depth}",
            outputs={"n": "{{ steps.below.outputs.n }}"},
        )
    job = bench.run("depth4", inputs={"n": 1})
    assert (job.status, job.outputs) == (JobStatus.COMPLETED, {"n": 6})
    assert list(Job.objects.values_list("status", flat=True)) == [JobStatus.COMPLETED] * 5


@pytest.mark.django_db
def test_a_failure_four_jobs_deep_passes_up_by_name(bench: Bench) -> None:
    bench.action("refused", failing(9, lambda: StepFailedError("no stock")))
    bench.recipe({"id": "buy", "action": "refused"}, name="depth0")
    for depth in (1, 2, 3, 4):
        bench.recipe({"id": "below", "recipe": f"depth{depth - 1}"}, {"id": "beside"}, name=f"depth{depth}")
    job = bench.run("depth4")
    assert job.status == JobStatus.FAILED
    assert job.error.endswith("buy: no stock")
    assert job.error.count("below: JOB-") == 4
    assert bench.ran.count("beside") == 4
