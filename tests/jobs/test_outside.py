"""Events from outside: whichever comes first, the event or the wait, each event resumes one step once."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection

from tasks_app import clock
from tasks_app.jobs import worker
from tasks_app.jobs.actions import Done, Result, Run, StepFailedError, WaitForEvent
from tasks_app.jobs.endings import job_cancel
from tasks_app.jobs.expiry import job_waited, jobs_expire_due
from tasks_app.jobs.looks import step_look
from tasks_app.jobs.models import Job, WorkflowEvent
from tasks_app.jobs.outside import Delivered, EventRefusedError, event_deliver, events_forget
from tasks_app.jobs.outside_event import OutsideEvent
from tasks_app.jobs.replaying import replayed
from tasks_app.jobs.retrying import job_retry
from tasks_app.jobs.selectors import job_rows
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.people.models import User
from tests.clocks import Clock
from tests.database import Database
from tests.factories import make_advertiser, make_team, make_user
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench, statuses, steps_of
from tests.lifecycle.threads import at_once
from tests.people.test_scope import limit
from tests.rounds import rounds

ROUNDS = rounds(3, 8)


def deliver(name: str = "signed", correlation: str = "IO-7", key: str = "k1", **fields: Any) -> Delivered:
    given = {"payload": {"by": "Astrid"}, "team": make_team(), "actor": "system", **fields}
    return event_deliver(name=name, correlation=correlation, idempotency_key=key, **given)


def waiting(run: Run) -> Result:
    """Waits for the event its inputs name; outputs {heard, late}."""
    if run.event is not None or run.event_late:
        return Done(outputs={"heard": run.event, "late": run.event_late})
    return WaitForEvent(**run.inputs)


@pytest.fixture
def waits(bench: Bench) -> Bench:
    bench.action("waiting", waiting)
    bench.recipe({"id": "a", "action": "waiting", "inputs": {"name": "signed", "correlation": "IO-7"}})
    return bench


def ended(job: Job) -> tuple[str, Any]:
    drain()
    job.refresh_from_db()
    return job.status, steps_of(job)["a"].outputs


@pytest.mark.django_db
def test_an_event_resumes_the_step_that_waits_for_its_name(waits: Bench) -> None:
    job = waits.run()
    step = steps_of(job)["a"]
    assert (step.status, step.ready_at, step.lease_until) == ("awaiting_tool", None, None)
    assert step.waiting_for == {"type": "event", "name": "signed", "correlation": "IO-7", "until": None}
    assert step_look(step, job_rows(job)).sentence == "Waits for the event signed IO-7"

    deliver("signed", "IO-8", "other")
    deliver("declined", "IO-7", "another")
    deliver("signed", "IO-7", "strangers", team=make_team("Somebody else"))
    assert ended(job) == ("PROCESSING", None)

    delivered = deliver()
    assert not delivered.duplicate
    assert ended(job) == ("COMPLETED", {"heard": {"by": "Astrid"}, "late": False})
    event = OutsideEvent.objects.get(pk=delivered.event.pk)
    assert (event.step_id, event.delivered_by) == (step.pk, "system")
    told = WorkflowEvent.objects.get(job=job, type="step.event")
    assert (told.source, told.payload["event"]) == ("system", str(event.pk))
    assert replayed(job.events.all()).steps["a"].status == "completed"


@pytest.mark.django_db
def test_an_event_that_came_first_is_kept_for_its_step(waits: Bench) -> None:
    deliver()
    job = waits.run()
    assert ended(job) == ("COMPLETED", {"heard": {"by": "Astrid"}, "late": False})
    assert (waits.ran, steps_of(job)["a"].attempts) == (["a", "a"], 2)


@pytest.mark.django_db
def test_each_event_resumes_one_step_the_longest_waiting_first(waits: Bench) -> None:
    first, second = waits.run(), waits.run()
    deliver(key="one", payload={"n": 1})
    assert [ended(first)[0], ended(second)[0]] == ["COMPLETED", "PROCESSING"]
    deliver(key="two", payload={"n": 2})
    assert [ended(job)[1]["heard"] for job in (first, second)] == [{"n": 1}, {"n": 2}]


@pytest.mark.django_db
def test_the_same_delivery_again_does_nothing(waits: Bench) -> None:
    first, second = waits.run(), waits.run()
    one, again = deliver(), deliver()
    assert (again.event.pk, again.duplicate) == (one.event.pk, True)
    assert [ended(job)[0] for job in (first, second)] == ["COMPLETED", "PROCESSING"]
    assert OutsideEvent.objects.count() == 1
    # The key is the team's own.
    assert not deliver(team=make_team("Somebody else")).duplicate


@pytest.mark.django_db
@pytest.mark.parametrize(
    "other", [{"payload": {"by": "Björn"}}, {"name": "declined"}, {"correlation": "IO-8"}], ids=str
)
def test_the_same_key_with_another_event_is_refused(waits: Bench, other: dict[str, Any]) -> None:
    deliver()
    with pytest.raises(EventRefusedError) as refused:
        deliver(**other)
    assert refused.value.code == "IDEMPOTENCY_KEY_CONFLICT"
    assert OutsideEvent.objects.get().payload == {"by": "Astrid"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Signed!"),
        ("name", ""),
        ("correlation", "x" * 201),
        ("key", ""),
        ("key", "a\nb"),
        ("key", "x" * 201),
    ],
)
def test_what_cannot_be_an_event_is_named(field: str, value: str) -> None:
    with pytest.raises(EventRefusedError) as refused:
        deliver(**{field: value})
    assert (refused.value.code, refused.value.field) == ("invalid", field.replace("key", "idempotency_key"))
    assert not OutsideEvent.objects.exists()
    if field != "key":
        with pytest.raises(ValueError, match="no event"):
            WaitForEvent(**{"name": "signed", field: value})


@pytest.mark.django_db
def test_it_takes_the_right_and_the_team() -> None:
    for user in (make_user("Buyer"), make_user("Integration", team=make_team("Somebody else"))):
        with pytest.raises(EventRefusedError) as refused:
            deliver(actor=user)
        assert refused.value.code == "no_right"
    assert not OutsideEvent.objects.exists()
    user = make_user("Integration")
    assert deliver(actor=user).event.delivered_by == f"human:{user.pk}"


@pytest.mark.django_db
@pytest.mark.parametrize("first", ["event", "wait"])
def test_it_is_handed_only_to_jobs_that_its_sender_sees(waits: Bench, first: str) -> None:
    """Of two that wait for one name, the older is another advertiser's."""
    mine, other = make_advertiser("Lindqvist Coffee"), make_advertiser("Northwind")
    sender = limit(make_user("Ad Ops"), mine)
    if first == "event":
        deliver(actor=sender)
    theirs = waits.run(subject_type="advertiser", subject_id=other.pk)
    ours = waits.run(subject_type="advertiser", subject_id=mine.pk)
    if first == "wait":
        deliver(actor=sender)
    assert ended(ours)[0] == "COMPLETED"
    assert ended(theirs)[0] == "PROCESSING"
    deliver(actor="system", key="k2")
    assert ended(theirs)[0] == "COMPLETED"


@pytest.mark.django_db
@pytest.mark.parametrize("role", ["Ad Ops", "Integration"])
def test_a_sender_who_was_switched_off_is_not_everybody(waits: Bench, role: str) -> None:
    mine, other = make_advertiser("Lindqvist Coffee"), make_advertiser("Northwind")
    sender = limit(make_user(role), mine)
    deliver(actor=sender)
    User.objects.filter(pk=sender.pk).update(is_active=False)
    theirs = waits.run(subject_type="advertiser", subject_id=other.pk)
    assert ended(theirs)[0] == "PROCESSING"


@pytest.mark.django_db
def test_a_step_may_wait_for_several_one_after_the_other(bench: Bench) -> None:
    def both(run: Run) -> Result:
        if run.event is None:
            return WaitForEvent(name="first")
        return WaitForEvent(name="second") if run.event["n"] == 1 else Done(outputs=run.event)

    bench.action("both", both)
    bench.recipe({"id": "a", "action": "both"})
    job = bench.run()
    deliver("second", "", "k2", payload={"n": 2})
    assert ended(job) == ("PROCESSING", None)
    deliver("first", "", "k1", payload={"n": 1})
    assert ended(job) == ("COMPLETED", {"n": 2})


@pytest.mark.django_db
@pytest.mark.parametrize("late", ["fail", "continue"])
def test_what_has_not_come_in_time_fails_the_step_or_lets_it_go_on(
    bench: Bench, still: Clock, late: str
) -> None:
    bench.action("waiting", lambda run: waiting_until(run, still.now + timedelta(hours=30), late))
    bench.recipe({"id": "a", "action": "waiting"})
    job = bench.run()
    still.forward(hours=29)
    assert ended(job)[0] == "PROCESSING"
    still.forward(hours=2)
    status, outputs = ended(job)
    if late == "fail":
        assert (status, job.error) == ("FAILED", "a: The event signed did not come in time")
    else:
        assert (status, outputs) == ("COMPLETED", {"heard": None, "late": True})
    # What comes now is kept for another.
    assert deliver("signed", "").event.step_id is None
    assert OutsideEvent.objects.get().step_id is None


def waiting_until(run: Run, until: Any, late: str) -> Result:
    if run.event is not None or run.event_late:
        return Done(outputs={"heard": run.event, "late": run.event_late})
    return WaitForEvent(name="signed", until=until, late=late)  # type: ignore[arg-type]


@pytest.mark.django_db
def test_in_time_is_in_time_though_no_worker_ran_since(bench: Bench, still: Clock) -> None:
    until = still.now + timedelta(hours=1)
    bench.action("waiting", lambda run: waiting_until(run, until, "fail"))
    bench.recipe({"id": "a", "action": "waiting"})
    job = bench.run()
    deliver("signed", "")
    still.forward(hours=5)
    assert ended(job) == ("COMPLETED", {"heard": {"by": "Astrid"}, "late": False})


@pytest.mark.django_db
def test_waiting_again_for_what_is_late_ends(bench: Bench, still: Clock) -> None:
    until = still.now + timedelta(hours=1)
    bench.action("deaf", lambda run: WaitForEvent(name="signed", until=until, late="continue"))
    bench.recipe({"id": "a", "action": "deaf"})
    job = bench.run()
    still.forward(hours=2)
    assert ended(job)[0] == "FAILED"
    assert "waits again" in job.error


@pytest.mark.django_db
def test_the_jobs_clock_stops_meanwhile(waits: Bench, still: Clock) -> None:
    job = waits.run()
    still.forward(hours=100)
    assert jobs_expire_due() == 0
    deliver()
    assert job_waited(job, still.now).total == timedelta(hours=100)
    assert ended(job)[0] == "COMPLETED"


@pytest.mark.django_db
def test_a_cancelled_step_takes_no_event(waits: Bench) -> None:
    gone, there = waits.run(), waits.run()
    job_cancel(job_id=gone.pk, actor="system", reason="Not needed")
    deliver()
    assert [ended(gone)[0], ended(there)[0]] == ["CANCELLED", "COMPLETED"]


@pytest.mark.django_db
def test_a_worker_that_dies_with_an_event_leaves_it_to_the_next(waits: Bench, still: Clock) -> None:
    job = waits.run()
    deliver()
    assert claim_step() is not None
    still.forward(minutes=5)
    assert ended(job) == ("COMPLETED", {"heard": {"by": "Astrid"}, "late": False})


@pytest.mark.django_db
def test_a_retried_job_hears_what_the_failed_one_heard(bench: Bench) -> None:
    fails = [True]

    def fussy(run: Run) -> Result:
        if run.event is None:
            return WaitForEvent(name="signed")
        if fails.pop():
            raise StepFailedError("not like this")
        return Done(outputs=run.event)

    bench.action("fussy", fussy)
    bench.recipe({"id": "a", "action": "fussy"})
    job = bench.run()
    deliver("signed", "")
    assert ended(job)[0] == "FAILED"
    fails.append(False)
    new = job_retry(job_id=job.pk, actor="system", reason="Again", from_step="")
    assert ended(new) == ("COMPLETED", {"by": "Astrid"})


@pytest.mark.django_db
def test_a_recipe_waits_without_a_line_of_python(bench: Bench) -> None:
    bench.recipe(
        {
            "id": "a",
            "action": "wait_for_event",
            "inputs": {"name": "signed", "correlation": "{{ inputs.order }}", "hours": 48},
        }
    )
    job = bench.run(inputs={"order": "IO-7"})
    deliver()
    assert ended(job) == ("COMPLETED", {"event": {"by": "Astrid"}})


@pytest.mark.django_db
@pytest.mark.parametrize(("came", "event"), [(False, None), (True, {"by": "Astrid"})])
def test_with_no_hours_to_wait_it_takes_what_is_there(bench: Bench, came: bool, event: Any) -> None:
    inputs = {"name": "signed", "correlation": "IO-7", "hours": 0, "late": "continue"}
    bench.recipe({"id": "a", "action": "wait_for_event", "inputs": inputs})
    if came:
        deliver()
    job = bench.run()
    assert ended(job) == ("COMPLETED", {"event": event})


@pytest.mark.django_db
@pytest.mark.parametrize("hours", [-1, "3", True, 10**9, [1]])
def test_hours_that_are_none_are_refused_in_words(bench: Bench, hours: Any) -> None:
    bench.recipe({"id": "a", "action": "wait_for_event", "inputs": {"name": "signed", "hours": hours}})
    assert bench.run().error == "a: hours is a number from 0 to 8,784"


def test_the_delivery_races_the_wait(committed_db: Database, waits: Bench) -> None:
    make_team()
    for number in range(ROUNDS):
        job = waits.start()
        step = claim_step()
        assert step is not None
        wait = WaitForEvent(name="signed", correlation="IO-7")
        answers = at_once(
            partial(worker._settle, step, wait),
            partial(deliver, key=f"race {number}"),
            partial(deliver, key=f"race {number}"),
        )
        assert not [answer for answer in answers if isinstance(answer, Exception)]
        assert sorted(answer.duplicate for answer in answers[1:]) == [False, True]
        assert ended(job)[0] == "COMPLETED", number
        taken = AuditEntry.objects.filter(entity_id=step.pk, to_status="executing")
        assert taken.count() == 2
    connection.close()


def test_many_events_and_many_waits_meet_one_to_one(committed_db: Database, waits: Bench) -> None:
    make_team()
    jobs = [waits.start() for _ in range(6)]
    delivered = [partial(deliver, key=str(n), payload={"n": n}) for n in range(6)]
    answers = at_once(*(drain for _ in range(3)), *delivered)
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    drain()
    heard = [ended(job)[1]["heard"]["n"] for job in jobs]
    assert sorted(heard) == list(range(6))
    assert {status for job in jobs for status in statuses(job).values()} == {"completed"}


@pytest.mark.django_db
def test_events_are_kept_while_a_step_needs_them_and_then_for_a_while(waits: Bench, still: Clock) -> None:
    deliver("nobody", "", "k0")
    job = waits.run()
    deliver()
    still.forward(days=31)
    clock.now()
    assert events_forget() == 1  # nobody's; the step that took the other has not ended
    assert ended(job)[0] == "COMPLETED"
    assert events_forget() == 1
    assert not OutsideEvent.objects.exists()
