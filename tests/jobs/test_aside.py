"""Steps of pure actions that mostly wait run side by side in one worker, and nothing else does."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections

from tasks_app import clock, tracing
from tasks_app.commands.boundary import read_allowed
from tasks_app.jobs import aside, calls, hand, pace
from tasks_app.jobs.actions import Done, Result, Run, StepFailedError, WaitUntil
from tasks_app.jobs.models import JobStatus, Step
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.verify import verify_entity
from tests.clocks import Clock
from tests.database import Database
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench, leases_outlived, statuses, steps_of
from tests.jobs.test_replaying import as_rows, as_told
from tests.support import PATIENCE_S, until

pytestmark = pytest.mark.deep

WAITS = pace.Pace(pace.RUNS, 0.01, 0.0)  # an action that has run often enough, and only waited
Waiting = Callable[..., None]


@pytest.fixture
def waiting(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Waiting:
    """Registers an action that is known to wait."""
    monkeypatch.setattr(pace, "_seen", {})
    monkeypatch.setattr(pace, "_note", lambda *_: None)  # whatever else the machine is doing

    def register(name: str, action: Callable[[Run], Result], *, kind: str = "pure") -> None:
        bench.action(name, action, kind=kind)
        pace._seen[name] = WAITS

    return register


def meeting(number: int) -> Callable[[Run], Result]:
    """Done when so many of it run at the same time."""
    barrier = threading.Barrier(number)

    def meets(run: Run) -> Result:
        barrier.wait(PATIENCE_S)
        return Done(outputs={"item": run.inputs["item"]})

    return meets


def fan_out(bench: Bench, action: str, **fields: Any) -> None:
    step = {"id": "all", "action": action, "for_each": "{{ inputs.items }}", "inputs": {"item": "{{ item }}"}}
    bench.recipe({**step, **fields})


@pytest.mark.django_db
def test_the_items_of_a_fan_out_run_side_by_side(bench: Bench, waiting: Waiting) -> None:
    waiting("meets", meeting(5))
    fan_out(bench, "meets")
    job = bench.run(inputs={"items": [3, 1, 4, 1, 5]})
    assert (job.status, job.error) == (JobStatus.COMPLETED, "")
    steps = steps_of(job)
    assert steps["all"].outputs == {"results": [{"item": item} for item in (3, 1, 4, 1, 5)]}
    assert [steps[f"all[{n}]"].attempts for n in range(5)] == [1] * 5
    assert sorted(bench.ran) == [f"all[{n}]" for n in range(5)]
    assert as_told(job) == as_rows(job)
    assert all(verify_entity("step", step.pk).ok for step in steps.values())


@pytest.mark.django_db
def test_they_are_taken_and_completed_in_one_commit(
    bench: Bench, waiting: Waiting, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    monkeypatch.setattr(hand, "_WAIT_S", PATIENCE_S)
    waiting("meets", meeting(aside.MANY))
    bench.recipe(
        *({"id": f"s{n}", "action": "meets", "inputs": {"item": n}} for n in range(aside.MANY)), name="layer"
    )
    job = bench.start("layer")
    with django_assert_num_queries(2):  # the claim of all; their ends, and nothing left to claim
        assert drain() == aside.MANY
    job.refresh_from_db()
    assert job.status == JobStatus.COMPLETED


@pytest.mark.django_db
def test_one_alone_runs_in_the_worker_s_own_thread(bench: Bench, waiting: Waiting) -> None:
    threads: list[threading.Thread] = []

    def looks(_run: Run) -> Result:
        threads.append(threading.current_thread())
        return Done()

    waiting("looks", looks)
    bench.recipe({"id": "a", "action": "looks"}, {"id": "b", "action": "looks", "after": ["a"]})
    bench.run()
    assert threads == [threading.current_thread()] * 2


@pytest.mark.parametrize("kind", ["command", "idempotent"])
@pytest.mark.django_db
def test_what_has_effects_runs_one_at_a_time(
    bench: Bench, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it waits."""
    monkeypatch.setattr(pace, "_seen", {})
    at_work, most = [0], [0]

    def waits(_run: Run) -> Result:
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        time.sleep(0.002)
        at_work[0] -= 1
        return Done()

    bench.action("waits", waits, kind=kind)
    fan_out(bench, "waits")
    job = bench.run(inputs={"items": list(range(3 * pace.RUNS))})
    assert (job.status, most) == (JobStatus.COMPLETED, [1])
    assert pace.taken_together() == ()


def noted(action: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether an action that always runs like this counts as waiting."""
    monkeypatch.setattr(pace, "_seen", {})
    for _ in range(pace.RUNS):
        assert not pace.is_waiting("one")
        with pace.timed("one"):
            action()
    return pace.is_waiting("one")


@pytest.mark.django_db
def test_an_action_waits_that_hardly_computes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.action("one", lambda _run: Done(), kind="pure")
    monkeypatch.setattr(pace, "BUSY", 0.5)
    monkeypatch.setattr(pace, "WAIT_S", PATIENCE_S)

    def waits() -> None:
        time.sleep(0.02)

    def computes() -> None:
        until = time.thread_time() + 2 * pace.SHORT_S
        while time.thread_time() < until:
            pass

    def asks() -> None:
        with connection.cursor() as cursor:
            cursor.execute("select pg_sleep(0.02)")

    assert noted(waits, monkeypatch)
    assert not noted(asks, monkeypatch), "each would need a connection of its own"
    with monkeypatch.context() as patch:
        patch.setattr(pace, "SHORT_S", PATIENCE_S)
        assert not noted(waits, monkeypatch), "it is short"
    with monkeypatch.context() as patch:
        patch.setattr(pace, "WAIT_S", 0.01)
        assert not noted(waits, monkeypatch), "it takes too long"
    monkeypatch.setattr(pace, "BUSY", 1e-9)  # however seldom this thread has a processor
    assert not noted(computes, monkeypatch)


@pytest.mark.django_db
def test_one_that_fails_fails_alone(bench: Bench, waiting: Waiting) -> None:
    meets = meeting(4)

    def ends(run: Run) -> Result:
        meets(run)
        if run.inputs["item"] == "refused":
            raise StepFailedError("no stock")
        if run.inputs["item"] == "breaks":
            raise OSError("connection reset")
        return Done(outputs={"n": float("nan") if run.inputs["item"] == "odd" else 1})

    waiting("ends", ends)
    fan_out(bench, "ends", max_failures=1)
    job = bench.run(inputs={"items": ["refused", "well", "breaks", "odd"]})
    steps = steps_of(job)
    assert [steps[f"all[{n}]"].status for n in range(4)] == ["failed", "completed", "failed", "failed"]
    assert steps["all[0]"].error == "no stock"
    assert "OSError: connection reset" in steps["all[2]"].error
    assert "JSON compliant" in steps["all[3]"].error
    assert (job.status, as_told(job)) == (JobStatus.FAILED, as_rows(job))


@pytest.mark.django_db
def test_one_that_sleeps_sleeps_alone(bench: Bench, waiting: Waiting) -> None:
    meets = meeting(2)

    def ends(run: Run) -> Result:
        meets(run)
        return WaitUntil(moment=clock.now() + timedelta(days=1)) if run.inputs["item"] else Done()

    waiting("ends", ends)
    fan_out(bench, "ends")
    job = bench.run(inputs={"items": [1, 0]})
    assert statuses(job) == {"all": "awaiting_tool", "all[0]": "awaiting_tool", "all[1]": "completed"}
    assert as_told(job) == as_rows(job)


@pytest.mark.django_db
def test_each_acts_for_its_own_step(bench: Bench, waiting: Waiting) -> None:
    """It is pure there too, and what it decides goes back to its step and its job's request."""
    meets, traces = meeting(2), {}

    def ends(run: Run) -> Result:
        meets(run)
        traces[run.step.pk] = (tracing.trace_id(), tracing.origin())
        if run.inputs["item"] == "asks":
            read_allowed()
        return Done()

    waiting("ends", ends)
    fan_out(bench, "ends")
    with tracing.caused_by(request="request-7", team=None, user="system"):
        job = bench.start(inputs={"items": ["asks", "asks not"]})
    drain()
    steps = steps_of(job)
    assert traces == {steps[key].pk: (f"step:{steps[key].pk}", "request-7") for key in ("all[0]", "all[1]")}
    assert (steps["all[0]"].status, steps["all[1]"].status) == ("failed", "completed")
    assert "it asks nobody" in steps["all[0]"].error


@pytest.mark.django_db
def test_an_end_does_not_wait_for_a_slower_one(
    bench: Bench, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, others_there = calls.steps_done, threading.Event()

    def completes(ended: Any, **fields: Any) -> calls.Completion:
        completion = whole(ended, **fields)
        if {one.step.key for one in ended} & {"all[1]", "all[2]"}:
            others_there.set()
        return completion

    def ends(run: Run) -> Result:
        if run.inputs["item"] == "slow":
            assert others_there.wait(PATIENCE_S)
        return Done()

    monkeypatch.setattr(calls, "steps_done", completes)
    waiting("ends", ends)
    fan_out(bench, "ends", max_failures=1)
    job = bench.run(inputs={"items": ["slow", 1, 2]})
    assert (job.status, job.error) == (JobStatus.COMPLETED, "")


@pytest.mark.django_db
def test_nothing_is_begun_while_one_is_out(
    bench: Bench, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end would lie behind what is begun, however long that takes."""
    seen: dict[str, str] = {}

    def ends(run: Run) -> Result:
        time.sleep(0.1 if run.inputs["item"] else 0)
        return Done()

    def looks(run: Run) -> Result:
        seen.update(statuses(run.job))
        return Done()

    monkeypatch.setattr(hand, "_WAIT_S", 0.0)
    waiting("ends", ends)
    bench.action("looks", looks)
    steps = [{"id": f"s{n}", "action": "ends", "inputs": {"item": n}} for n in range(2)]
    bench.recipe(*steps, {"id": "then", "action": "looks"})
    bench.run()
    assert seen == {"s0": "completed", "s1": "completed", "then": "executing"}


@pytest.mark.django_db
def test_short_ones_run_meanwhile(bench: Bench, waiting: Waiting) -> None:
    """Of a claim in its order: those that wait are begun, the short ones end before them."""
    short_ran = threading.Event()

    def waits(_run: Run) -> Result:
        assert short_ran.wait(PATIENCE_S)
        return Done()

    def short(_run: Run) -> Result:
        short_ran.set()
        return Done()

    waiting("waits", waits)
    waiting("short", short)
    pace._seen["short"] = pace.Pace(pace.RUNS, 0.0, 0.0)
    bench.recipe(
        {"id": "a", "action": "waits"}, {"id": "b", "action": "waits"}, {"id": "c", "action": "short"}
    )
    job = bench.run()
    assert (job.status, sorted(bench.ran)) == (JobStatus.COMPLETED, ["a", "b", "c"])


@pytest.mark.django_db
def test_lower_priority_numbers_are_begun_first(bench: Bench, waiting: Waiting) -> None:
    waiting("waits", lambda _run: Done())
    bench.recipe(*({"id": f"s{n}", "action": "waits"} for n in range(3 * aside.MANY)), name="many")
    bench.start("many")
    bench.recipe({"id": "urgent", "action": "waits"})
    bench.start(priority=5)
    drain()
    assert "urgent" in bench.ran[: aside.MANY]


@pytest.mark.django_db
def test_asked_to_stop_it_ends_what_it_has_and_takes_nothing_more(
    bench: Bench, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    meets = meeting(aside.MANY)

    def ends(run: Run) -> Result:
        meets(run)
        monkeypatch.setattr("tasks_app.stopping.asked", lambda: True)
        return Done()

    waiting("ends", ends)
    fan_out(bench, "ends")
    job = bench.run(inputs={"items": list(range(aside.MANY + 3))})
    found = [status for key, status in statuses(job).items() if key != "all"]
    assert sorted(found) == ["completed"] * aside.MANY + ["queued"] * 3


def test_what_a_killed_worker_had_aside_runs_again(
    committed_db: Database, bench: Bench, waiting: Waiting, settings: Any
) -> None:
    settings.STEP_LEASE_S = 0.5
    here, lived = multiprocessing.get_context("fork"), multiprocessing.current_process().pid
    begun = here.Semaphore(0)

    def ends(run: Run) -> Result:
        if multiprocessing.current_process().pid != lived:
            begun.release()
            threading.Event().wait()  # for ever
        return Done(outputs={"item": run.inputs["item"]})

    waiting("ends", ends)
    fan_out(bench, "ends")
    job = bench.start(inputs={"items": [0, 1, 2]})
    connections.close_all()  # the child would share them
    doomed = here.Process(target=drain)
    try:
        doomed.start()
        assert all(begun.acquire(timeout=PATIENCE_S) for _ in range(3))
    finally:
        doomed.kill()
        doomed.join()

    def over() -> bool:
        drain()
        job.refresh_from_db()
        return job.status == JobStatus.COMPLETED

    until(over, "its leases end, and the items run again")
    steps = steps_of(job)
    assert [steps[f"all[{n}]"].attempts for n in range(3)] == [2, 2, 2]
    assert steps["all"].outputs == {"results": [{"item": n} for n in range(3)]}
    assert as_told(job) == as_rows(job)


def test_every_lease_is_kept_while_they_run(
    committed_db: Database, bench: Bench, waiting: Waiting, still: Clock, settings: Any
) -> None:
    settings.STEP_LEASE_S = 0.3
    meets, taken = meeting(3), []

    def outlives_its_lease(run: Run) -> Result:
        meets(run)
        if not run.inputs["item"]:
            leases_outlived(still)
        meets(run)
        taken.append(claim_step())
        return Done()

    waiting("slow", outlives_its_lease)
    fan_out(bench, "slow")
    job = bench.run(inputs={"items": [0, 1, 2]})
    assert (job.status, taken) == (JobStatus.COMPLETED, [None] * 3)


def test_a_superseded_one_of_them_is_told_to_be_late(
    committed_db: Database, bench: Bench, waiting: Waiting
) -> None:
    meets = meeting(2)

    def ends(run: Run) -> Result:
        meets(run)
        if run.inputs["item"]:
            Step.objects.filter(pk=run.step.pk).update(attempts=run.step.attempts + 1)  # as a take-over does
        return Done()

    waiting("ends", ends)
    fan_out(bench, "ends")
    job = bench.run(inputs={"items": [0, 1]})
    assert statuses(job) == {"all": "awaiting_tool", "all[0]": "completed", "all[1]": "executing"}
    assert job.events.filter(type="step.late_result").count() == 1


def test_no_connection_is_left_by_one_that_asks_the_database_after_all(
    committed_db: Database, bench: Bench, waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it count as waiting then."""
    meets, busy = meeting(2), []
    monkeypatch.setattr(pace, "_note", lambda _action, seconds, worked: busy.append(worked >= seconds))

    def asks(run: Run) -> Result:
        meets(run)
        with connection.cursor() as cursor:
            cursor.execute("select pg_backend_pid()")
            return Done(outputs={"backend": cursor.fetchone()[0]})

    waiting("asks", asks)
    fan_out(bench, "asks")
    job = bench.run(inputs={"items": [0, 1]})
    told = steps_of(job)["all"].outputs or {}
    backends = [one["backend"] for one in told["results"]]

    def gone() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("select count(*) from pg_stat_activity where pid = any(%s)", [backends])
            return bool(cursor.fetchone()[0] == 0)

    until(gone, "their connections are closed")
    assert (len(set(backends)), busy) == (2, [True, True])
