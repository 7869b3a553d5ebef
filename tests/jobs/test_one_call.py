"""The server-side call leaves exactly what the moves leave that it stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tasks_app import clock
from tasks_app.jobs import calls, claims, engine, over
from tasks_app.jobs.actions import Done, Result, Run, StepFailedError, WaitUntil
from tasks_app.jobs.models import Job, JobStatus, Step, WorkflowEvent
from tasks_app.jobs.scope import scope_of
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle import guards
from tasks_app.lifecycle.models import AuditEntry, OutboxEvent
from tasks_app.lifecycle.verify import verify_entity
from tests.clocks import Clock
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench, statuses, steps_of
from tests.jobs.test_replaying import as_rows, as_told
from tests.rounds import rounds

pytestmark = [pytest.mark.deep, pytest.mark.django_db]

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)
LISTS = {"one": [1], "three": [1, 2, 3], "none": []}
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
    moment = Clock(BEGAN)
    with pytest.MonkeyPatch.context() as patch, clock.injected(lambda: moment.now):
        patch.setattr("tasks_app.jobs.recipes._recipes", {})
        patch.setattr("tasks_app.jobs.actions._actions", {})
        bench = Bench()
        for action in (flaky, refused, sleep):
            bench.action(action.__name__, action)
        bench.recipe({"id": "other"}, {"id": "then", "after": ["other"]}, name="beside")
        bench.recipe(*recipe["steps"], outputs=recipe["outputs"])
        bench.start("beside")
        inputs = {**LISTS, "never": False}
        job = bench.start(inputs=inputs, priority=recipe["priority"])
        bench.start("beside")
        turns = 0
        while Job.objects.filter(pk=job.pk, ended_at=None).exists():
            if not drain():
                moment.forward(seconds=60)
            turns += 1
            assert turns < 200, "the job does not end"
    return Job.objects.get(pk=job.pk)


@contextmanager
def guarded(*edge: str) -> Iterator[None]:
    """A guard that allows everything stands on the edge: it is taken move by move."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guards, "_guards", {edge: [lambda *_: True]})
        yield


def left_behind(job: Job) -> dict[str, list[Any]]:
    """Rows, entries and events, with ids by what they stand for: events in their order, entries in that of
    their chains, as those that one statement makes have none among themselves."""
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

    left = {
        table: [
            {column: named(value) for column, value in row.items() if column not in apart}
            for row in rows.values()
        ]
        for table, rows in tables.items()
    }
    for table in ("entries", "outbox"):
        left[table].sort(key=lambda row: (row["entity_id"], int(row["seq"])))
    return left


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
@settings(
    max_examples=rounds(4, 12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
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


WANTED = calls.Wanted(lanes=claims.ALL)


def done(step: Step, outputs: dict[str, Any], wanted: calls.Wanted | None = None) -> calls.Completion:
    return calls.steps_done([calls.Ended(step=step, outputs=outputs)], told=[], wanted=wanted)


def entries() -> int:
    return AuditEntry.objects.filter(entity_type="step").count()


def test_a_late_result_writes_nothing(bench: Bench, still: Clock) -> None:
    bench.recipe(step("a"), step("b", "a"))
    job = bench.start()
    lost = claim_step()
    still.forward(seconds=61)
    new = claim_step()
    assert lost is not None
    assert new is not None
    before = entries()
    late = done(lost, {"late": True}, wanted=WANTED)
    assert (late.done, entries()) == ((False,), before)
    ended = done(new, {"late": False}, wanted=WANTED)
    assert (ended.done, ended.released) == ((True,), ("recipes",))
    assert ended.claim is not None
    assert [taken.step.key for taken in ended.claim.taken] == ["b"]
    assert done(new, {"again": True}).done == (False,)
    assert steps_of(job)["a"].outputs == {"late": False}


EDGES = [edge for edge in calls.EDGES if edge[:2] not in (("job", "PREVIEW"), ("job", "DISPATCHING"))]


@pytest.fixture
def forgotten_rules() -> Iterator[None]:
    """What the test attached is rolled back: no process may remember it."""
    yield
    guards.rules_reload()


@pytest.mark.usefixtures("forgotten_rules")
@pytest.mark.parametrize("edge", EDGES, ids=">".join)
def test_an_edge_with_a_guard_is_not_taken_past_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, edge: tuple[str, str, str]
) -> None:
    """One that an administrator attached, which other processes do not know yet: the database refuses."""
    asked: list[str] = []

    def allows(entity_id: str, *_: Any) -> bool:
        asked.append(entity_id)
        return True

    monkeypatch.setattr(guards, "_named", {"looks": allows})
    bench.recipe(step("a"), step("b", "a"))
    job = bench.start()
    taken = claim_step()
    assert taken is not None
    entity, before, after = edge
    guards.rule_add(
        entity=entity, from_status=before, to_status=after, guard="looks", actor="system", reason="Test"
    )
    with monkeypatch.context() as unaware:
        unaware.setattr(guards, "_rules", {})
        unaware.setattr(guards, "_rules_until", float("inf"))
        written = entries()
        assert done(taken, {}).done == (False,)
        assert calls.steps_claim(WANTED).apart
        assert entries() == written
    assert engine.mark_complete(step=taken, outputs={})
    bench.start()
    drain()
    job.refresh_from_db()
    assert job.status == JobStatus.COMPLETED
    assert asked or edge[1].startswith("awaiting")


def test_a_guard_that_refuses_holds_the_step(bench: Bench, still: Clock) -> None:
    bench.recipe(step("a", max_failures=1))
    job = bench.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guards, "_guards", {("step", "executing", "completed"): [lambda *_: "not before noon"]})
        drain()
    assert statuses(job) == {"a": "failed"}
    assert "not before noon" in steps_of(job)["a"].error


def test_an_end_that_somebody_listens_to_is_told_in_its_commit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over, "_ended", [])
    told: list[str] = []
    over.on_job_ended(lambda job: told.append(f"{job.recipe} {job.status}"), recipe="test")
    bench.recipe(step("a"))
    bench.recipe(step("a"), name="other")
    bench.run()
    bench.run("other")
    assert told == ["test COMPLETED"]
    over.on_job_ended(lambda job: told.append(f"any {job.recipe}"))
    bench.run("other")
    assert told == ["test COMPLETED", "any other"]


def test_an_error_after_the_call_leaves_all_or_nothing(bench: Bench, still: Clock) -> None:
    """Outputs that cannot be recorded are refused before anything is written."""
    bench.recipe(step("a"), step("b", "a"))
    bench.start()
    taken = claim_step()
    assert taken is not None
    before = entries()
    with pytest.raises(ValueError, match="JSON compliant"):
        done(taken, {"n": float("nan")})
    assert entries() == before


def test_only_what_an_expression_names_is_read(
    bench: Bench, django_assert_num_queries: Any, still: Clock
) -> None:
    bench.recipe(
        step("a"),
        step("b", "a"),
        step("c", "b", inputs={"x": "{{ steps.a.outputs.key }}"}),
        step("d", "c", inputs={"n": "{{ steps | length }}"}),
    )
    job = bench.run(inputs={"large": True})
    found = steps_of(job)
    with django_assert_num_queries(0):
        assert scope_of(job, found["b"], {"plain": "text"}) == {"steps": {}, "item": None}
    with django_assert_num_queries(1):
        assert set(scope_of(job, found["c"], found["c"].spec["inputs"])["steps"]) == {"a"}
    assert found["d"].outputs["inputs"] == {"n": 3}
    assert "inputs" in scope_of(job, None, "{{ inputs.large }}")


def test_a_step_costs_one_statement(bench: Bench, django_assert_num_queries: Any) -> None:
    bench.recipe(*(step(f"s{n}", *([f"s{n - 1}"] if n else [])) for n in range(5)))
    bench.run()
    bench.start()
    with django_assert_num_queries(1 + 5):
        assert drain() == 5
