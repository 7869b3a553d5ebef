"""An event from outside and waiters that cannot be written: each has a savepoint of its own, the event is
kept whatever becomes of them, and who could not be given one is tried again."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tasks_app import clock
from tasks_app.jobs.expiry import jobs_expire_due
from tasks_app.jobs.models import Job
from tasks_app.jobs.outside import events_hand_again
from tasks_app.jobs.outside_event import OutsideEvent
from tasks_app.troubles.models import RowTrouble
from tests.clocks import Clock
from tests.jobs.conftest import Bench, steps_of
from tests.jobs.test_outside import deliver, ended, waiting_until, waits  # noqa: F401
from tests.troubles.poisoning import heal, poison

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
HEARD = ("COMPLETED", {"heard": {"by": "Astrid"}, "late": False})


def stuck(job: Job) -> None:
    """From now on the job's step cannot be written."""
    poison("tasks_app_step", steps_of(job)["a"].pk)


def again_at() -> datetime:
    return RowTrouble.objects.get(work="events_handed").again_at


def test_a_waiter_that_cannot_be_written_leaves_the_event_to_the_next(waits: Bench) -> None:  # noqa: F811
    bad, well = waits.run(), waits.run()
    stuck(bad)
    delivered = deliver()
    assert ended(well) == HEARD
    assert delivered.event.step_id == OutsideEvent.objects.get().step_id == steps_of(well)["a"].pk

    trouble = RowTrouble.objects.get()
    assert (trouble.work, trouble.row, trouble.times) == ("events_handed", steps_of(bad)["a"].pk, 1)


def test_with_no_other_the_event_is_kept_and_handed_again(waits: Bench, still: Clock) -> None:  # noqa: F811
    job = waits.run()
    stuck(job)
    delivered = deliver()
    assert (delivered.duplicate, delivered.event.step_id, delivered.event.taken_at) == (False, None, None)
    assert deliver().duplicate
    assert events_hand_again() == 0, "not before its time"

    still.now = again_at()
    assert events_hand_again() == 0
    assert RowTrouble.objects.get().times == 2

    heal("tasks_app_step")
    still.now = again_at()
    assert events_hand_again() == 1
    assert events_hand_again() == 0
    assert ended(job) == HEARD
    assert not RowTrouble.objects.exists()


def test_what_comes_while_a_waiter_is_left_out_is_handed_later_too(
    waits: Bench,  # noqa: F811
    still: Clock,
) -> None:
    bad, well = waits.run(), waits.run()
    stuck(bad)
    deliver()
    assert ended(well) == HEARD
    deliver(key="k2", payload={"n": 2})
    assert RowTrouble.objects.get().times == 1

    heal("tasks_app_step")
    still.now = again_at()
    assert events_hand_again() == 1
    assert ended(bad) == ("COMPLETED", {"heard": {"n": 2}, "late": False})


def test_a_waiter_that_another_was_given_the_event_of_waits_on(waits: Bench, still: Clock) -> None:  # noqa: F811
    bad, well = waits.run(), waits.run()
    stuck(bad)
    deliver()
    assert ended(well) == HEARD
    heal("tasks_app_step")
    still.now = again_at()
    assert events_hand_again() == 0
    assert not RowTrouble.objects.exists()
    assert ended(bad) == ("PROCESSING", None)
    deliver(key="k2")
    assert ended(bad) == HEARD


def test_its_job_does_not_expire_meanwhile(waits: Bench, still: Clock) -> None:  # noqa: F811
    """The event has come, and the step has not heard of it: that is no time of the job's own."""
    job = waits.run()
    stuck(job)
    deliver()
    heal("tasks_app_step")
    still.forward(hours=100)
    assert jobs_expire_due() == 0
    assert events_hand_again() == 1
    assert ended(job) == HEARD


def test_an_event_that_came_in_time_is_not_late_for_its_waiter(bench: Bench, still: Clock) -> None:
    """Its time runs out while it is left out: it runs, and finds what was kept for it."""
    until = still.now + timedelta(hours=1)
    bench.action("waiting", lambda run: waiting_until(run, until, "fail"))
    bench.recipe({"id": "a", "action": "waiting"})
    job = bench.run()
    stuck(job)
    deliver("signed", "")
    heal("tasks_app_step")
    still.forward(hours=2)
    assert ended(job) == HEARD
    assert OutsideEvent.objects.get().step_id == steps_of(job)["a"].pk
    with clock.injected(lambda: still.now + timedelta(hours=1)):
        assert events_hand_again() == 0
    assert not RowTrouble.objects.exists()
