"""The server-side call leaves exactly what the moves leave that it stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tasks_app import clock, ids
from tasks_app.jobs import calls, claims, engine
from tasks_app.jobs.actions import Done, Result, Run, StepFailedError, WaitUntil
from tasks_app.jobs.models import Job, JobStatus, Step, WorkflowEvent
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle import guards
from tasks_app.lifecycle.models import AuditEntry, OutboxEvent
from tasks_app.lifecycle.verify import verify_entity
from tests.jobs.conftest import Bench, Clock, statuses, steps_of
from tests.jobs.test_replaying import as_rows, as_told

pytestmark = pytest.mark.django_db

KINDS = ("note", "note", "note", "flaky", "refused", "sleep")


def flaky(run: Run) -> Result:
    if run.step.attempts == 1:
        raise OSError("connection reset")
    return Done(outputs={"attempt": run.step.attempts, "exact": 0.1})


def refused(_run: Run) -> Result:
    raise StepFailedError("no stock")


def sleep(run: Run) -> Result:
    return Done() if run.step.attempts > 1 else WaitUntil(moment=clock.now() + timedelta(minutes=1))


@st.composite
def recipes(draw: st.DrawFn) -> dict[str, Any]:
    """A recipe of up to seven steps, and how many other jobs stand in the same queue."""
    rarely = st.sampled_from([False, False, False, False, True])
    steps = []
    for number in range(draw(st.integers(1, 7))):
        earlier = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        each = draw(
            st.sampled_from(["", "", "", "{{ inputs.one }}", "{{ inputs.three }}", "{{ inputs.none }}"])
        )
        steps.append(
            {
                "id": f"s{number}",
                "after": [f"s{before}" for before in sorted(earlier)],
                "action": draw(st.sampled_from(KINDS)),
                "for_each": each,
                "condition": draw(st.sampled_from(["", "", "", "{{ inputs.never }}", "{{ inputs.three }}"])),
                "optional": draw(rarely),
                "preview": draw(rarely),
                "lane": draw(st.sampled_from(["recipes", "recipes", "background"])),
                "inputs": {"from": f"{{{{ steps.s{min(earlier)} }}}}"} if earlier and draw(rarely) else {},
            }
        )
    outputs = {"last": "{{ inputs.three }}"} if draw(rarely) else {}
    return {"steps": steps, "outputs": outputs, "priority": draw(st.sampled_from([100, 100, 5]))}


def run(recipe: dict[str, Any]) -> Job:
    """The job, ended, beside two others; its clock stands still but for what it waits for."""
    moment = Clock()
    with pytest.MonkeyPatch.context() as patch, clock.injected(lambda: moment.now):
        patch.setattr("tasks_app.jobs.recipes._recipes", {})
        patch.setattr("tasks_app.jobs.actions._actions", {})
        bench = Bench()
        for action in (flaky, refused, sleep):
            bench.action(action.__name__, action)
        bench.recipe({"id": "other"}, {"id": "then", "after": ["other"]}, name="beside")
        bench.recipe(*recipe["steps"], outputs=recipe["outputs"])
        bench.start("beside")
        inputs = {"one": [1], "three": [1, 2, 3], "none": [], "never": False}
        job = bench.start(inputs=inputs, priority=recipe["priority"])
        bench.start("beside")
        while Job.objects.filter(pk=job.pk, ended_at=None).exists():
            if not drain():
                moment.forward(seconds=60)
    return Job.objects.get(pk=job.pk)


@contextmanager
def guarded(*edge: str) -> Iterator[None]:
    """A guard that allows everything stands on the edge: it is taken move by move."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guards, "_guards", {edge: [lambda *_: True]})
        yield


def left_behind(job: Job) -> dict[str, list[Any]]:
    """Rows, entries and events, in their order, with ids by what they stand for."""
    names = {str(job.pk): "job", job.reference: "reference", str(job.team_id): "team"}
    names |= {str(step.pk): step.key for step in Step.objects.filter(job=job)}
    owned = {"entity_id__in": [pk for pk in names if re.fullmatch(r"[0-9a-f-]{36}", pk)]}
    tables = {
        "job": Job.objects.filter(pk=job.pk),
        "steps": Step.objects.filter(job=job).order_by("id"),
        "told": WorkflowEvent.objects.filter(job=job).order_by("id"),
        "entries": AuditEntry.objects.filter(**owned).order_by("id"),
        "outbox": OutboxEvent.objects.filter(**owned).order_by("id"),
    }
    # Ids and what is hashed differ; a job's number, and when its rows were made, too.
    apart = {"id", "body", "hash", "prev_hash", "created_at", "position"}

    def named(value: Any) -> Any:
        text = str(value)
        for pk, name in names.items():
            text = text.replace(pk, name)
        return text

    return {
        table: [
            {column: named(value) for column, value in row.items() if column not in apart}
            for row in rows.values()
        ]
        for table, rows in tables.items()
    }


def step(name: str, *after: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "after": list(after), "action": "note", **fields}


WIDE = {
    "steps": [
        step("a"),
        *(step(f"b{n}", "a") for n in range(5)),
        step("each", "a", for_each="{{ inputs.three }}", inputs={"n": "{{ item }}"}),
        step("late", "b0", action="flaky"),
        step("all", "b0", "b1", "b2", "b3", "b4", "each", "late"),
    ],
    "outputs": {},
    "priority": 100,
}


@given(recipe=recipes())
@example(recipe=WIDE)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_leaves_what_the_moves_leave(db: None, recipe: dict[str, Any]) -> None:
    left = []
    for apart in (False, True):
        with transaction.atomic():
            if apart:
                with guarded("step", "executing", "completed"):
                    job = run(recipe)
            else:
                job = run(recipe)
            left.append(left_behind(job))
            assert as_told(job) == as_rows(job)
            assert job.active_steps == 0
            assert verify_entity("job", job.pk).ok
            assert all(verify_entity("step", pk).ok for pk in job.steps.values_list("pk", flat=True))
            transaction.set_rollback(True)
    for table, rows in left[0].items():
        moves = left[1][table]
        assert [(a, b) for a, b in zip(rows, moves, strict=False) if a != b][:1] == [], table
        assert len(rows) == len(moves), table
