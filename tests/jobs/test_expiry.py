"""A job's time to live: what counts, what stops the clock, and the last try before giving up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from orders.models import DealStatus
from orders.questions import ask_deal
from tasks_app import clock
from tasks_app.approvals.services import approval_void
from tasks_app.jobs.actions import Done, Result, Run, WaitForApprovals, WaitForOperation, WaitUntil
from tasks_app.jobs.expiry import job_waited, jobs_expire_due
from tasks_app.jobs.models import Job, JobStatus, Step, WorkflowEvent
from tasks_app.jobs.worker import drain
from tasks_app.operations.pulse import pulse_beat
from tests.clocks import Clock
from tests.factories import approve_deal, make_deal
from tests.jobs.conftest import Bench, statuses, steps_of
from tests.jobs.test_waiting import end, out

pytestmark = pytest.mark.django_db


def asleep(bench: Bench, **recipe: object) -> Job:
    """Waits for a time far away: nobody's deadline but its own."""

    def sleep(_run: Run) -> Result:
        return WaitUntil(moment=clock.now() + timedelta(days=30))

    bench.action("sleep", sleep)
    bench.recipe({"id": "a", "action": "sleep"}, {"id": "b", "after": ["a"]}, **recipe)
    return bench.run()


@pytest.mark.parametrize(("recipe", "hours"), [({}, 24), ({"ttl_hours": 2}, 2)])
def test_it_expires_after_its_own_time(
    bench: Bench, still: Clock, recipe: dict[str, object], hours: int
) -> None:
    job = asleep(bench, **recipe)
    still.forward(hours=hours, seconds=-1)
    assert jobs_expire_due() == 0
    still.forward(seconds=1)
    assert jobs_expire_due() == 1
    job.refresh_from_db()
    assert job.status == JobStatus.EXPIRED
    assert job.error == f"Not done within {hours} h of its own time"
    assert statuses(job) == {"a": "cancelled", "b": "cancelled"}
    assert jobs_expire_due() == 0


def waits_for_a_person(bench: Bench) -> tuple[Job, Callable[[], None]]:
    """The job, and how the question it waits for goes away."""
    asked = ask_deal(make_deal())

    def ask(run: Run) -> Result:
        asked.refresh_from_db()
        return WaitForApprovals(approval_ids=(asked.pk,)) if asked.status == "open" else Done()

    def sleep(_run: Run) -> Result:
        return WaitUntil(moment=clock.now() + timedelta(days=30))

    bench.action("ask", ask)
    bench.action("sleep", sleep)
    bench.recipe({"id": "a", "action": "ask"}, {"id": "b", "action": "sleep", "after": ["a"]})
    return bench.run(), lambda: approval_void(approval=asked, reason="gone")


def test_the_clock_stops_while_a_person_is_awaited(bench: Bench, still: Clock) -> None:
    job, answer = waits_for_a_person(bench)
    still.forward(hours=100)
    assert jobs_expire_due() == 0
    job.refresh_from_db()
    assert (job.status, statuses(job)["a"]) == (JobStatus.PROCESSING, "awaiting_user_confirmation")
    answer()
    drain()
    assert statuses(job)["b"] == "awaiting_tool"
    assert job_waited(job, still.now).total == timedelta(hours=100)
    still.forward(hours=24, seconds=-1)
    assert jobs_expire_due() == 0
    still.forward(seconds=601)  # it is looked at again some minutes later at most
    assert jobs_expire_due() == 1


def test_the_clock_stops_while_an_operation_is_out(bench: Bench, still: Clock) -> None:
    """It has a deadline of its own; what follows its end counts again."""
    operation = out()

    def buy(_run: Run) -> Result:
        operation.refresh_from_db()
        return Done() if operation.published_at else WaitForOperation(operation_id=operation.pk)

    bench.action("buy", buy)
    bench.action("sleep", lambda _run: WaitUntil(moment=clock.now() + timedelta(days=30)))
    bench.recipe({"id": "a", "action": "buy"}, {"id": "b", "action": "sleep", "after": ["a"]})
    job = bench.run()
    still.forward(hours=30)
    assert jobs_expire_due() == 0
    assert end(operation)
    drain()
    assert statuses(job) == {"a": "completed", "b": "awaiting_tool"}
    still.forward(hours=24, seconds=-1)
    assert jobs_expire_due() == 0
    still.forward(seconds=1)
    assert jobs_expire_due() == 1


def test_waits_side_by_side_count_once(bench: Bench, still: Clock) -> None:
    asked = ask_deal(make_deal())
    bench.action("ask", lambda run: WaitForApprovals(approval_ids=(asked.pk,)))
    bench.recipe({"id": "a", "action": "ask"}, {"id": "b", "action": "ask"})
    job = bench.run()
    still.forward(hours=5)
    waited = job_waited(job, still.now)
    assert (waited.total, waited.still) == (timedelta(hours=5), True)


def test_a_nested_jobs_wait_stops_the_parents_clock(bench: Bench, still: Clock) -> None:
    asked = ask_deal(make_deal())
    bench.action("ask", lambda run: WaitForApprovals(approval_ids=(asked.pk,)))
    bench.recipe({"id": "a", "action": "ask"}, name="inner")
    bench.recipe({"id": "top", "recipe": "inner"}, name="outer")
    job = bench.run("outer")
    still.forward(hours=30)
    assert jobs_expire_due() == 0
    assert not Job.objects.filter(status=JobStatus.EXPIRED).exists()
    assert job_waited(job, still.now).still


def test_expiry_passes_down(bench: Bench, still: Clock) -> None:
    def sleep(_run: Run) -> Result:
        return WaitUntil(moment=clock.now() + timedelta(days=30))

    bench.action("sleep", sleep)
    bench.recipe({"id": "a", "action": "sleep"}, name="inner", ttl_hours=48)
    bench.recipe({"id": "top", "recipe": "inner"}, name="outer")
    bench.run("outer")
    still.forward(hours=24)
    assert jobs_expire_due() == 1
    assert set(Job.objects.values_list("status", flat=True)) == {JobStatus.EXPIRED}


def test_expiry_passes_down_to_any_depth(bench: Bench, still: Clock) -> None:
    def sleep(_run: Run) -> Result:
        return WaitUntil(moment=clock.now() + timedelta(days=30))

    bench.action("sleep", sleep)
    bench.recipe({"id": "a", "action": "sleep"}, name="depth0", ttl_hours=48)
    for depth in (1, 2, 3):
        bench.recipe({"id": "in", "recipe": f"depth{depth - 1}"}, name=f"depth{depth}", ttl_hours=48)
    bench.recipe({"id": "in", "recipe": "depth3"}, name="outer", ttl_hours=1)
    bench.run("outer")
    still.forward(hours=1)
    assert jobs_expire_due() == 1
    assert list(Job.objects.values_list("status", flat=True)) == [JobStatus.EXPIRED] * 5
    assert not Step.objects.exclude(status="cancelled").exists()


def test_a_wake_up_lost_below_is_made_up_for_before_giving_up(bench: Bench, still: Clock) -> None:
    """A nested job's step sleeps on: the job above is not ended for it."""
    asked = ask_deal(make_deal())

    def ask(_run: Run) -> Result:
        asked.refresh_from_db()
        return WaitForApprovals(approval_ids=(asked.pk,)) if asked.status == "open" else Done()

    bench.action("ask", ask)
    bench.recipe({"id": "a", "action": "ask"}, name="inner", ttl_hours=48)
    bench.recipe({"id": "top", "recipe": "inner"}, name="outer")
    job = bench.run("outer")
    approval_void(approval=asked, reason="Gone")
    Step.objects.filter(key="a").update(ready_at=None)  # as if the wake-up had been lost
    still.forward(hours=25)
    assert jobs_expire_due() == 0
    drain()
    job.refresh_from_db()
    assert job.status == JobStatus.COMPLETED


def test_a_lost_wake_up_is_made_up_for_before_giving_up(bench: Bench, still: Clock) -> None:
    job, answer = waits_for_a_person(bench)
    answer()
    Step.objects.filter(job=job, key="a").update(ready_at=None)  # as if the wake-up had been lost
    still.forward(hours=24)
    assert jobs_expire_due() == 0
    assert WorkflowEvent.objects.filter(job=job, type="step.recovered").count() == 1
    drain()
    assert steps_of(job)["a"].status == "completed"


def waits_for_an_operation(bench: Bench) -> tuple[Job, str]:
    operation = out()

    def buy(_run: Run) -> Result:
        operation.refresh_from_db()
        return Done() if operation.published_at else WaitForOperation(operation_id=operation.pk)

    bench.action("buy", buy)
    bench.recipe({"id": "a", "action": "buy"})
    job = bench.run()
    assert end(operation)
    return job, "operation"


def waits_for_a_nested_job(bench: Bench) -> tuple[Job, str]:
    bench.recipe({"id": "in"}, name="inner")
    bench.recipe({"id": "a", "recipe": "inner"})
    job = bench.start()
    drain(2)  # it sleeps, and the nested job has ended
    assert Job.objects.get(parent_step__job=job).status == JobStatus.COMPLETED
    return job, "job"


@pytest.mark.parametrize("waits", [waits_for_an_operation, waits_for_a_nested_job])
def test_whatever_is_awaited_a_lost_wake_up_is_made_up_for(
    bench: Bench, still: Clock, waits: Callable[[Bench], tuple[Job, str]]
) -> None:
    job, kind = waits(bench)
    asleep = Step.objects.filter(job=job, key="a", status="awaiting_tool")
    assert asleep.update(ready_at=None) == 1  # as if the wake-up had been lost
    still.forward(hours=25)
    assert jobs_expire_due() == 0
    recovered = WorkflowEvent.objects.get(job=job, type="step.recovered")
    assert recovered.payload["type"] == kind
    drain()
    job.refresh_from_db()
    assert job.status == JobStatus.COMPLETED


def test_its_time_stands_still_during_an_outage_of_ours(bench: Bench, still: Clock) -> None:
    job = asleep(bench)
    still.forward(hours=20)
    pulse_beat()
    still.forward(hours=30)
    pulse_beat()
    assert jobs_expire_due() == 0
    still.forward(hours=4, seconds=-1)
    assert jobs_expire_due() == 0
    still.forward(seconds=1)
    assert jobs_expire_due() == 1
    job.refresh_from_db()
    assert job.status == JobStatus.EXPIRED


def test_an_outage_while_a_person_is_waited_for_counts_once(bench: Bench, still: Clock) -> None:
    job, away = waits_for_a_person(bench)
    pulse_beat()
    still.forward(hours=30)
    pulse_beat()
    still.forward(hours=10)
    away()
    drain()
    job.refresh_from_db()
    assert job_waited(job, clock.now()).total == timedelta(hours=40)


def test_an_outage_before_it_was_planned_is_none_of_its(bench: Bench, still: Clock) -> None:
    pulse_beat()
    still.forward(hours=30)
    pulse_beat()
    job = asleep(bench)
    still.forward(hours=24)
    assert jobs_expire_due() == 1
    job.refresh_from_db()
    assert job.status == JobStatus.EXPIRED


def test_what_people_approved_is_booked_after_an_outage_of_ours() -> None:
    deal = make_deal()
    approve_deal(deal)
    pulse_beat()
    later = clock.now() + timedelta(hours=30)
    with clock.injected(lambda: later):
        pulse_beat()
        jobs_expire_due()
        drain()
    deal.refresh_from_db()
    assert deal.status == DealStatus.BOOKING
