"""Attempts, leases, claims and wake-ups: what happens when a step does not simply end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django_q.models import OrmQ

from tasks_app.jobs import calls, claims, engine, wake
from tasks_app.jobs.actions import Done, StepFailedError
from tasks_app.jobs.models import Job, JobStatus, Step, WorkflowEvent
from tasks_app.jobs.worker import drain, run_step
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import verify_entity
from tests.clocks import Clock
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench, failing, statuses, steps_of
from tests.support import PATIENCE_S

pytestmark = pytest.mark.django_db


def step(name: str, *after: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "after": list(after), **fields}


def verified(job: Job) -> bool:
    rows = [("job", job.pk), *(("step", pk) for pk in job.steps.values_list("pk", flat=True))]
    return all(verify_entity(*row).ok for row in rows)


def tried_until_it_fails(job: Job, still: Clock) -> tuple[list[float], Step]:
    """The pauses before its step's tries, in seconds, and the step."""
    waits: list[float] = []
    while (waiting := steps_of(job)["a"]).status != "failed":
        waits.append((waiting.ready_at - still.now).total_seconds())
        still.forward(seconds=waits[-1])
        drain()
    return waits, waiting


def test_a_retry_backs_off_and_then_succeeds(bench: Bench, still: Clock) -> None:
    bench.action("flaky", failing(2, lambda: OSError("connection reset")))
    bench.recipe(step("a", action="flaky"), step("b", "a"))
    job = bench.run()
    waits = []
    for seconds in (1, 2):
        waiting = steps_of(job)["a"]
        assert (waiting.status, waiting.waiting_for["type"]) == ("awaiting_tool", "backoff")
        assert "connection reset" in waiting.waiting_for["error"]
        waits.append(waiting.ready_at - still.now)
        still.forward(seconds=seconds, microseconds=-1)
        assert drain() == 0
        still.forward(microseconds=1)
        drain()
    assert waits == [timedelta(seconds=1), timedelta(seconds=2)]
    done = steps_of(job)["a"]
    assert (done.status, done.failures, done.attempts, done.outputs) == ("completed", 2, 3, {"attempt": 3})
    job.refresh_from_db()
    assert job.status == JobStatus.COMPLETED


def test_the_failure_budget_is_exhausted(bench: Bench, still: Clock) -> None:
    bench.action("flaky", failing(99, lambda: OSError("connection reset")))
    bench.recipe(step("a", action="flaky", max_failures=7, max_attempts=20), step("b", "a"))
    job = bench.run()
    waits, waiting = tried_until_it_fails(job, still)
    assert waits == [1, 2, 4, 8, 16, 30]
    assert waiting.error == "failure_budget_exhausted after 7: OSError: connection reset"
    assert statuses(job)["b"] == "cancelled"


def test_as_nothing_else_is_said_three_tries_after_one_and_two_seconds(bench: Bench, still: Clock) -> None:
    bench.action("flaky", failing(99, lambda: OSError("connection reset")))
    bench.recipe(step("a", action="flaky"))
    job = bench.run()
    waits, waiting = tried_until_it_fails(job, still)
    assert (waits, waiting.attempts, job.priority, waiting.priority) == ([1, 2], 3, 100, 100)
    assert waiting.error == "attempt_budget_exhausted after 3: OSError: connection reset"
    decided = [one.type for one in job.events.order_by("id") if not one.type.startswith(("job.", "step."))]
    assert decided == ["retry_scheduled", "retry_scheduled", "attempt_budget_exhausted"]
    told = [one.payload for one in job.events.filter(type__in=set(decided)).order_by("id")]
    of_all = {"max_attempts": 3, "max_failures": 3, "error": "OSError: connection reset"}
    assert told == [
        {"attempts": 1, "failures": 1, "delay_s": 1.0, **of_all},
        {"attempts": 2, "failures": 2, "delay_s": 2.0, **of_all},
        {"attempts": 3, "failures": 3, **of_all},
    ]


def test_what_cannot_help_is_not_tried_again(bench: Bench) -> None:
    bench.action("refused", failing(1, lambda: StepFailedError("rejected")))
    bench.recipe(step("a", action="refused"))
    job = bench.run()
    assert (job.error, steps_of(job)["a"].attempts) == ("a: rejected", 1)


def test_claims_go_by_priority_and_then_first_come(bench: Bench, still: Clock) -> None:
    bench.recipe(step("a"))
    jobs = []
    for priority in (100, 5, 100, 5):
        jobs.append(bench.start(priority=priority))
        still.forward(seconds=1)
    taken = [claim_step() for _ in range(4)]
    assert [s.job_id for s in taken if s] == [jobs[i].pk for i in (1, 3, 0, 2)]
    assert claim_step() is None


def test_claims_keep_to_their_lanes(bench: Bench, still: Clock) -> None:
    bench.recipe(step("a"), step("each", for_each="{{ inputs.list }}", lane="background"))
    bench.start(inputs={"list": [1]})
    assert claim_step(["recipes"]).key == "a"
    assert claim_step(["recipes"]) is None
    drain()
    bench.start(priority=50, inputs={"list": [1]})
    whole = claim_step(["background"])
    assert whole.key == "each"
    engine.expand(step=whole, items=[7])
    assert claim_step(["recipes"]).key == "a"
    assert claim_step().key == "each[0]"
    still.forward(seconds=61)
    assert claim_step(["background"]).attempts == 2


def lose_worker(still: Clock) -> Step:
    """Somebody takes a step and is never heard of again."""
    taken = claim_step()
    assert taken is not None
    still.forward(seconds=61)
    return taken


def test_a_lost_workers_step_is_taken_over_and_its_late_result_fenced_off(bench: Bench, still: Clock) -> None:
    bench.recipe(step("a"), step("b", "a"))
    job = bench.start()
    lost = lose_worker(still)
    new = claim_step()
    assert new is not None
    assert (new.pk, new.attempts, lost.attempts) == (lost.pk, 2, 1)
    before = AuditEntry.objects.count()
    assert not claims.renew_lease(lost)
    assert not engine.mark_complete(step=lost, outputs={"late": True})
    assert not engine.mark_failed(step=lost, error="late")
    assert not engine.mark_waiting(step=lost, status="awaiting_tool", waiting_for={}, reason="late")
    assert not engine.expand(step=lost, items=[1, 2])
    assert AuditEntry.objects.count() == before
    late = WorkflowEvent.objects.filter(job=job, type="step.late_result").order_by("id")
    assert [event.payload for event in late] == [
        {"outputs": {"late": True}},
        {"error": "late"},
        {"waiting_for": {}},
        {"items": 2},
    ]
    assert engine.mark_complete(step=new, outputs={"late": False})
    assert not engine.mark_complete(step=new, outputs={"again": True})
    assert steps_of(job)["a"].outputs == {"late": False}
    drain()
    assert bench.ran == ["b"]
    assert verified(job)


def test_a_superseded_attempts_failure_schedules_nothing(bench: Bench, still: Clock) -> None:
    bench.action("flaky", failing(1, lambda: OSError("connection reset")))
    bench.recipe(step("a", action="flaky"))
    job = bench.start()
    lost = lose_worker(still)
    new = claim_step()
    assert new is not None
    run_step(lost)
    told = [event.type for event in job.events.all()]
    assert (told.count("step.late_result"), told.count("retry_scheduled")) == (1, 0)
    run_step(new)
    done = steps_of(job)["a"]
    assert (done.status, done.failures) == ("completed", 0)


def test_a_superseded_attempt_starts_no_nested_job(bench: Bench, still: Clock) -> None:
    """Also one that is over as soon as it is begun: the attempt that owns the step finds none in its way."""
    bench.recipe(step("x", condition="{{ inputs.go }}"), name="inner")
    bench.recipe(step("nest", recipe="inner", inputs={"go": False}, max_failures=1))
    job = bench.start()
    lost = lose_worker(still)
    new = claim_step()
    assert new is not None
    run_step(lost)
    assert not Job.objects.filter(parent_step__job=job).exists()
    run_step(new)
    job.refresh_from_db()
    assert (job.status, steps_of(job)["nest"].failures) == (JobStatus.COMPLETED, 0)


def test_a_renewed_lease_is_not_taken_over(bench: Bench, still: Clock) -> None:
    bench.recipe(step("a"))
    bench.start()
    mine = claim_step()
    assert mine is not None
    still.forward(seconds=settings.STEP_LEASE_S - 1)
    assert claims.renew_lease(mine)
    still.forward(seconds=settings.STEP_LEASE_S - 1)
    assert claim_step() is None


def test_a_step_that_kills_its_workers_fails_in_the_end(bench: Bench, still: Clock) -> None:
    bench.recipe(step("a", max_attempts=3), step("b", "a"))
    job = bench.start()
    for _ in range(3):
        lose_worker(still)
    drain()
    job.refresh_from_db()
    assert bench.ran == []
    assert job.error == "a: attempt_budget_exhausted: 3 workers ended without a result"


def test_a_worker_lost_between_its_claim_and_the_jobs_status_holds_nothing_up(
    bench: Bench, still: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.recipe(step("a"))
    job = bench.start()
    with monkeypatch.context() as guarded:  # the claim is then made move by move
        guarded.setattr(calls, "steps_claim", lambda wanted: calls.Claim(apart=True))
        guarded.setattr(engine, "mark_running", lambda **_: False)  # as where somebody holds the job
        assert claims.pop_ready(calls.Wanted(lanes=claims.ALL)) is not None
        still.forward(seconds=61)
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED
    drain()
    job.refresh_from_db()
    assert job.status == JobStatus.COMPLETED
    assert verified(job)


def queued() -> int:
    return OrmQ.objects.count()


def test_ready_work_and_lost_workers_call_for_a_wake_up(bench: Bench, still: Clock) -> None:
    assert wake.wake_if_missed() == 0
    bench.recipe(step("a"))
    bench.start()
    assert wake.wake_if_missed() == 0  # its own wake-up is under way
    still.forward(seconds=1)
    assert (wake.wake_if_missed(), queued()) == (1, 1)
    claim_step()
    still.forward(seconds=settings.STEP_LEASE_S - 1)
    assert wake.wake_if_missed() == 0
    still.forward(seconds=2)
    assert (wake.wake_if_missed(), queued()) == (1, 2)


def test_as_installed_a_lost_wake_up_costs_two_seconds_and_a_killed_worker_ten(
    bench: Bench, still: Clock
) -> None:
    """The sweep looks once a tick: what it has to see by then must be there a tick earlier."""
    bench.recipe(step("a"), step("b", "a"))
    job = bench.start()
    still.forward(seconds=2 - settings.SWEEP_TICK_S - 0.5)
    assert wake.wake_if_missed() == 1
    assert claim_step() is not None
    still.forward(seconds=10 - settings.SWEEP_TICK_S - 0.5)
    assert wake.wake_if_missed() == 1
    drain()
    assert (bench.ran, statuses(job)) == (["a", "b"], {"a": "completed", "b": "completed"})
    assert settings.OPERATION_LEASE_S <= settings.STEP_LEASE_S


def test_wake_ups_do_not_pile_up_and_a_killed_workers_do_not_count(bench: Bench, still: Clock) -> None:
    bench.recipe(step("a"))
    bench.start()
    still.forward(seconds=1)
    for _ in range(20):
        wake.wake_if_missed()
    assert queued() == 8
    # All of them were taken by workers that are gone: the queue hands them out again after minutes only.
    OrmQ.objects.update(lock="2999-01-01T00:00:00Z")
    wake.wake_if_missed()
    assert queued() == 9


def test_a_drain_is_bounded_and_wakes_the_next(
    bench: Bench, django_capture_on_commit_callbacks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.recipe(*(step(f"s{n}") for n in range(5)))
    bench.start()
    told: list[str] = []
    monkeypatch.setattr(wake, "steps_tell", told.extend)
    with django_capture_on_commit_callbacks(execute=True):
        assert drain(steps=2) == 2
    assert "recipes" in told
    monkeypatch.setattr("tasks_app.jobs.worker._DRAIN_S", 0)
    assert drain() == 0
    monkeypatch.setattr("tasks_app.jobs.worker._DRAIN_S", PATIENCE_S)
    assert drain() == 3


def test_a_slice_is_fifty_steps(bench: Bench) -> None:
    bench.recipe(*(step(f"s{n}") for n in range(51)))
    bench.start()
    assert (drain(), drain()) == (50, 1)


@pytest.mark.parametrize(
    ("steps", "told", "woken"),
    [
        ([step("a"), step("b", "a"), step("c", "b")], [], 0),
        ([step("a"), step("b", "a"), step("c", "a"), step("d", "a")], ["recipes"], 1),
        ([step("a"), *(step(f"b{n}", "a") for n in range(30))], ["recipes"], 8),
    ],
)
def test_others_are_woken_for_what_one_worker_cannot_take_next(
    bench: Bench, steps: list[dict[str, Any]], told: list[str], woken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them listens; the others are woken by the queue."""
    bench.recipe(*steps)
    bench.start()
    heard: list[str] = []
    monkeypatch.setattr(wake, "steps_tell", heard.extend)
    monkeypatch.setattr("django.db.transaction.on_commit", lambda call, robust: call())
    monkeypatch.setattr("tasks_app.jobs.worker.wake", lambda lanes: None)
    assert drain(steps=1) == 1
    assert (heard, queued()) == (told, woken)


def test_a_worker_that_was_asked_to_stop_takes_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.recipe(step("a"), step("b"))
    job = bench.start()
    bench.action("stop", lambda run: Done())
    asked = iter([False, True])
    monkeypatch.setattr("tasks_app.stopping.asked", lambda: next(asked))
    assert drain() == 1
    assert sorted(statuses(job).values()) == ["completed", "queued"]
