"""Short steps are claimed and completed several in one commit, and nothing else is."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings

from tasks_app.jobs import aside, calls, claims, hand, pace
from tasks_app.jobs.actions import Done, Result, Run
from tasks_app.jobs.models import Job, JobStatus, Step
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.verify import verify_entity
from tests.clocks import Clock
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench, statuses, steps_of
from tests.jobs.test_one_call import guarded, recipes, run
from tests.jobs.test_replaying import as_rows, as_told
from tests.rounds import rounds

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
KNOWN = pace.Pace(pace.RUNS, 0.0, 0.0)  # an action that has run often enough, in no time


@pytest.fixture
def quick(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Makes steps of an action that is known to be short."""
    bench.action("quick", lambda run: Done(outputs={"key": run.step.key}), kind="pure")
    monkeypatch.setattr(pace, "_seen", {"quick": KNOWN})
    monkeypatch.setattr(pace, "_note", lambda *_: None)  # whatever else the machine is doing
    monkeypatch.setattr(hand, "_WAIT_S", 60.0)
    return lambda name, *after, **fields: {"id": name, "after": list(after), "action": "quick", **fields}


def test_a_layer_of_short_steps_is_one_statement(
    bench: Bench, quick: Callable[..., dict[str, Any]], django_assert_num_queries: Any
) -> None:
    names = [f"s{number}" for number in range(aside.MANY)]
    bench.recipe(*(quick(name) for name in names), quick("last", *names))
    bench.run()
    job = bench.start()
    # The claim of all; their ends with the claim of the last one; its end, and nothing left to claim.
    with django_assert_num_queries(3):
        assert drain() == aside.MANY + 1
    job.refresh_from_db()
    assert job.status == JobStatus.COMPLETED
    assert as_told(job) == as_rows(job)
    assert all(verify_entity("step", pk).ok for pk in job.steps.values_list("pk", flat=True))


def test_what_is_not_short_is_never_taken_along(
    bench: Bench, quick: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither an action whose length is not known, nor a list of any length, nor one that has effects."""
    monkeypatch.setitem(pace._seen, "note", KNOWN)
    bench.recipe(quick("a"), quick("b"), {"id": "c", "action": "note"}, quick("d"))
    bench.start()
    taken = claims.claim_steps(calls.Wanted(lanes=claims.ALL, many=9, together=("quick",)))
    assert [step.key for step in taken] == ["a", "b"]
    assert [step.key for step in claims.claim_steps(calls.Wanted(lanes=claims.ALL, many=9))] == ["c"]
    bench.recipe(quick("d"), quick("e", for_each="{{ inputs.list }}"), name="listed")
    bench.start("listed", inputs={"list": [1]}, priority=5)
    short = calls.Wanted(lanes=claims.ALL, many=9, together=("quick",))
    assert [step.key for step in claims.claim_steps(short)] == ["d"]
    assert [step.key for step in claims.claim_steps(short)] == ["e"]
    assert [step.key for step in claims.claim_steps(short)] == ["d"]


@pytest.mark.parametrize("kind", ["command", "idempotent"])
def test_only_pure_actions_are_short(bench: Bench, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_seen", {})
    monkeypatch.setattr(pace, "SHORT_S", 60.0)
    bench.action("has_effects", lambda _run: Done(), kind=kind)
    bench.action("is_pure", lambda _run: Done(), kind="pure")
    bench.recipe(
        *({"id": f"{action}_{number}", "action": action} for number in range(pace.RUNS)
          for action in ("has_effects", "is_pure"))
    )  # fmt: skip
    bench.run()
    assert pace.taken_together() == ("is_pure",)


def test_one_slow_run_ends_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.action("quick", lambda _run: Done(), kind="pure")
    monkeypatch.setattr(pace, "_seen", {"quick": KNOWN})
    assert pace.is_short("quick")
    with pace.timed("quick"):
        time.sleep(10 * pace.SHORT_S)
    assert not pace.is_short("quick")


def test_what_others_computed_meanwhile_is_no_part_of_a_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the clock goes on while a run that waits for nothing has no processor."""
    bench.action("quick", lambda _run: Done(), kind="pure")
    seconds = count()
    clocks = SimpleNamespace(perf_counter=lambda: next(seconds), thread_time=float)
    monkeypatch.setattr(pace, "time", clocks)

    def stays_short() -> bool:
        monkeypatch.setattr(pace, "_seen", {"quick": KNOWN})
        with pace.timed("quick"):
            pass
        return pace.is_short("quick")

    assert any(stays_short() for _ in range(9)), "a run may have to wait for memory"


def test_ends_wait_for_each_other_as_long_as_a_commit_takes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment, sizes, whole = [0.0], list[int](), calls.steps_done

    def ticks(_run: Run) -> Result:
        moment[0] += 0.001
        return Done()

    def slow(ended: Any, **fields: Any) -> calls.Completion:
        sizes.append(len(ended))
        moment[0] += 0.04
        return whole(ended, **fields)

    bench.action("ticks", ticks, kind="pure")
    monkeypatch.setattr(pace, "_seen", {"ticks": KNOWN})
    monkeypatch.setattr(pace, "_note", lambda *_: None)
    monkeypatch.setattr(hand, "time", SimpleNamespace(monotonic=lambda: moment[0]))
    monkeypatch.setattr(calls, "steps_done", slow)
    bench.recipe(*({"id": f"s{number}", "action": "ticks"} for number in range(3 * aside.MANY)))
    bench.run()
    assert sizes[0] < aside.MANY, "nothing is known of commits: 5 ms"
    assert sizes[1:] == [aside.MANY - sizes[0], aside.MANY, aside.MANY]
    sizes.clear()
    monkeypatch.setattr(hand, "_MOST_WAIT_S", 0.0)
    bench.recipe(*({"id": f"s{number}", "action": "ticks"} for number in range(3 * aside.MANY)), name="again")
    bench.run("again")
    assert max(sizes) < aside.MANY, "but no longer than the most"


def test_an_end_does_not_wait_for_a_step_that_is_not_short(
    bench: Bench, quick: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, str] = {}

    def looks(run: Run) -> Result:
        seen.update(statuses(run.job))
        return Done()

    bench.action("looks", looks)
    bench.recipe({"id": "first", "action": "looks"}, quick("a"), quick("b"), quick("c"))
    bench.start()
    drain()
    assert seen["a"] != "completed"
    seen.clear()
    bench.recipe(quick("a"), quick("b"), {"id": "then", "action": "looks"}, name="behind")
    bench.start("behind")
    drain()
    assert (seen["a"], seen["b"], seen["then"]) == ("completed", "completed", "executing")


def test_a_slice_ends_where_it_is_to_end(bench: Bench, quick: Callable[..., dict[str, Any]]) -> None:
    bench.recipe(*(quick(f"s{number}") for number in range(7)))
    job = bench.start()
    assert drain(5) == 5
    assert sorted(statuses(job).values()) == ["completed"] * 5 + ["queued"] * 2


def test_one_that_cannot_be_recorded_fails_alone(
    bench: Bench, quick: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.action("odd", lambda _run: Done(outputs={"n": float("nan")}), kind="pure")
    monkeypatch.setitem(pace._seen, "odd", KNOWN)
    bench.recipe(quick("a"), {"id": "b", "action": "odd", "max_failures": 1}, quick("c"))
    job = bench.run()
    assert statuses(job) == {"a": "completed", "b": "failed", "c": "completed"}
    assert "JSON compliant" in steps_of(job)["b"].error
    assert as_told(job) == as_rows(job)


def test_one_that_the_database_refuses_fails_alone(
    bench: Bench, quick: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is refused takes the whole call with it: each is then completed by itself."""
    whole = calls.steps_done

    def refuses(ended: Any, **fields: Any) -> calls.Completion:
        if any(one.step.key == "b" for one in ended):
            raise ValueError("refused")
        return whole(ended, **fields)

    monkeypatch.setattr(calls, "steps_done", refuses)
    bench.recipe(quick("a"), quick("b", max_failures=1), quick("c"))
    job = bench.run()
    assert statuses(job) == {"a": "completed", "b": "failed", "c": "completed"}
    assert as_told(job) == as_rows(job)


def test_what_needs_a_decision_is_completed_apart(bench: Bench, quick: Callable[..., dict[str, Any]]) -> None:
    bench.recipe(
        quick("a"),
        quick("b"),
        quick("c", "b", condition="{{ inputs.never }}"),
        quick("d", "a", "c"),
        quick("p", preview=True),
    )
    job = bench.run(inputs={"never": False})
    assert (job.status, steps_of(job)["c"].skipped) == (JobStatus.COMPLETED, True)
    assert as_told(job) == as_rows(job)


def test_a_step_held_too_long_is_left_to_who_took_it_over(
    bench: Bench, quick: Callable[..., dict[str, Any]], still: Clock, settings: Any
) -> None:
    bench.recipe(quick("a"), quick("b"), quick("c"))
    job = bench.start()
    held = hand.Hand(claims.ALL)
    assert [step.key for step in held.settle(9)] == ["a", "b", "c"]
    still.forward(seconds=settings.STEP_LEASE_S + 1)
    assert claim_step() is not None, "taken over"
    settings.STEP_LEASE_S = 0.0  # a third of it is over at once
    mine = [held.next(), held.next()]
    assert [step and step.key for step in mine] == ["b", "c"]
    assert {key: step.attempts for key, step in steps_of(job).items()} == {"a": 2, "b": 1, "c": 1}
    assert all(step.lease_until > still.now - timedelta(seconds=1) for step in steps_of(job).values())


def test_a_superseded_one_of_them_is_told_to_be_late(
    bench: Bench, quick: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its late end is recorded as such; the others' ends stand."""

    def superseded(run: Run) -> Result:
        Step.objects.filter(pk=run.step.pk).update(attempts=run.step.attempts + 1)  # as a take-over does
        return Done()

    bench.action("superseded", superseded, kind="idempotent")
    bench.recipe({"id": "lost", "action": "superseded"}, quick("a"), quick("b"))
    job = bench.start()
    drain()
    assert statuses(job) == {"lost": "executing", "a": "completed", "b": "completed"}
    assert job.events.filter(type="step.late_result").count() == 1


def outcome(job: Job) -> dict[str, Any]:
    """What became of the job and of each step, whoever came first."""
    steps = Step.objects.filter(job=job)
    fields = ("key", "status", "outputs", "skipped", "attempts", "incoming", "error")
    ended = {one.key: [getattr(one, field) for field in fields] for one in steps}
    return {"job": (job.status, job.outputs, job.active_steps), "steps": ended}


@pytest.mark.parametrize("how", ["is_short", "is_waiting"])
@given(recipe=recipes())
@hypothesis_settings(
    max_examples=rounds(2, 5),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_together_they_come_to_what_they_come_to_one_by_one(
    db: None, how: str, recipe: dict[str, Any]
) -> None:
    """One after the other or side by side: the same ends, with a whole trail and events that tell the same as
    the rows."""
    calm = {**recipe, "steps": [{**step, "action": "note"} for step in recipe["steps"]]}
    found = []
    for together in (True, False):
        with transaction.atomic(), pytest.MonkeyPatch.context() as patch:
            if together:
                patch.setattr(hand, how, lambda action: action == "note")
                patch.setattr(hand, "taken_together", lambda: ("note",))
                patch.setattr(hand, "_WAIT_S", 60.0)
                job = run(calm)
            else:
                with guarded("step", "executing", "completed"):
                    job = run(calm)
            found.append(outcome(job))
            assert as_told(job) == as_rows(job)
            assert verify_entity("job", job.pk).ok
            assert all(verify_entity("step", pk).ok for pk in job.steps.values_list("pk", flat=True))
            transaction.set_rollback(True)
    assert found[0] == found[1]


@pytest.mark.django_db
def test_nothing_is_taken_along_behind_one_that_may_be_long(bench: Bench) -> None:
    """It would lie there as long as that one takes, though other workers are idle."""
    bench.action("quick", lambda run: Done(), kind="pure")
    bench.recipe({"id": "long"}, {"id": "a", "action": "quick"}, {"id": "b", "action": "quick"})
    bench.start()
    short = calls.Wanted(lanes=claims.ALL, many=9, together=("quick",))
    taken = [[step.key for step in claims.claim_steps(short)] for _ in range(2)]
    assert taken == [["long"], ["a", "b"]]
