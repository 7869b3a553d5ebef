"""Many jobs at once: each is judged in its turn, as the person who asked, and reported on."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tasks_app.jobs import bulk
from tasks_app.jobs.actions import Result, Run, StepFailedError
from tasks_app.jobs.bulk import BulkConflictError, Found, bulk_chosen, bulk_start
from tasks_app.jobs.endings import JobRefusedError, job_cancel, job_expire
from tasks_app.jobs.finding import Wanted, jobs_wanted
from tasks_app.jobs.models import Job, JobStatus, Step
from tasks_app.jobs.retrying import job_retry
from tasks_app.jobs.steering import step_skip
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.people.models import Team, User
from tests.factories import make_advertiser, make_team, make_user
from tests.jobs.conftest import Bench
from tests.people.test_scope import limit

pytestmark = pytest.mark.django_db


@pytest.fixture
def ops() -> User:
    return make_user("Ad Ops")


def failing(run: Run) -> Result:
    raise StepFailedError("out of stock")


@pytest.fixture
def jobs(bench: Bench) -> list[Job]:
    """Three that have failed, then two that have not begun."""
    bench.action("fail", failing)
    bench.recipe({"id": "a", "action": "fail"}, name="broken")
    bench.recipe({"id": "a"}, name="fine")
    made = [bench.run("broken") for _ in range(3)]
    # Held back, so that a drain leaves them alone.
    held = [bench.start("fine") for _ in range(2)]
    Step.objects.filter(job__in=held).update(ready_at=None)
    return [*made, *held]


def by(user: User, **asked: str) -> Found:
    return Found(rows=jobs_wanted(user, Wanted(**asked)), said=asked)


def start(user: User, act: str, jobs: list[Job], **fields: Any) -> Job:
    return bulk_start(
        act=act,
        ids=[job.pk for job in jobs],
        user=user,
        **{"reason": "mended", "request_id": uuid.uuid4(), **fields},
    )


def told(job: Job) -> dict[str, tuple[str, str]]:
    """What was reported on each, by reference."""
    items = Step.objects.filter(job=job, fan_out__isnull=False).order_by("item_index")
    return {one["job"]: (one["outcome"], one["note"]) for one in items.values_list("outputs", flat=True)}


def test_each_is_done_or_refused_in_words(ops: User, jobs: list[Job]) -> None:
    job = start(ops, "retry", jobs)
    drain()
    job.refresh_from_db()
    new = {one.retry_of_id: one.reference for one in Job.objects.filter(retry_of__isnull=False)}
    assert told(job) == {
        **{one.reference: ("done", f"Retried as {new[one.pk]}.") for one in jobs[:3]},
        **{
            one.reference: ("refused", "It is queued: only what failed or expired is retried.")
            for one in jobs[3:]
        },
    }
    assert (job.status, job.outputs) == ("COMPLETED", {"done": 3, "refused": 2, "failed": 0})
    assert job.requested_by == f"human:{ops.pk}"


def test_all_that_a_filter_finds_are_cancelled(ops: User, jobs: list[Job]) -> None:
    job = bulk_start(
        act="cancel",
        found=by(ops, recipe="fine"),
        reason="not needed",
        user=ops,
        request_id=uuid.uuid4(),
    )
    drain()
    job.refresh_from_db()
    assert set(told(job).values()) == {("done", "Cancelled.")}
    assert {Job.objects.get(pk=one.pk).status for one in jobs[3:]} == {"CANCELLED"}
    assert {Job.objects.get(pk=one.pk).status for one in jobs[:3]} == {"FAILED"}
    assert Job.objects.get(pk=jobs[4].pk).error == f"not needed ({job.reference})"


def test_asked_twice_it_is_done_once(ops: User, jobs: list[Job]) -> None:
    key = uuid.uuid4()
    first = start(ops, "cancel", jobs[3:], request_id=key)
    drain()
    assert start(ops, "cancel", jobs[3:], request_id=key) == first
    with pytest.raises(BulkConflictError):
        start(ops, "cancel", jobs[3:], request_id=key, reason="another")
    with pytest.raises(BulkConflictError):
        start(ops, "cancel", jobs[4:], request_id=key)
    assert Job.objects.filter(recipe=bulk.RECIPE).count() == 1
    assert start(make_user("Ad Ops"), "retry", jobs[:1], request_id=key) != first, "another person's own"


def test_asked_twice_by_filter_it_answers_the_same_job(ops: User, jobs: list[Job]) -> None:
    asked: dict[str, Any] = {
        "act": "cancel",
        "found": by(ops, view="open"),
        "reason": "x",
        "request_id": uuid.uuid4(),
    }
    first = bulk_start(user=ops, **asked)
    drain()
    assert bulk_start(user=ops, **asked) == first, "though nothing is found any more"


def test_a_step_that_runs_again_finds_what_it_did(ops: User, jobs: list[Job]) -> None:
    """Killed before it said so, it says the same again; what another request did is not its own."""

    def steer(act: str, job: Job) -> Run:
        whole = start(ops, act, [job])
        step = Step.objects.filter(job=whole)[0]
        return Run(job=whole, step=step, inputs={"act": act, "reason": "mended", "job_id": str(job.pk)})

    def told_of(run: Run) -> tuple[str, str]:
        outputs = bulk.steer_one(run).outputs
        return outputs["outcome"], outputs["note"]

    retry, cancel = steer("retry", jobs[0]), steer("cancel", jobs[3])
    first = [told_of(retry), told_of(cancel)]
    new = Job.objects.get(retry_of=jobs[0])
    assert first == [("done", f"Retried as {new.reference}."), ("done", "Cancelled.")]
    moves = AuditEntry.objects.filter(entity_type="job").count()

    assert [told_of(retry), told_of(cancel)] == first
    assert Job.objects.get(pk=jobs[3].pk).status == "CANCELLED"
    assert list(Job.objects.filter(retry_of__isnull=False)) == [new]
    assert AuditEntry.objects.filter(entity_type="job").count() == moves

    others = [told_of(steer("retry", jobs[0])), told_of(steer("cancel", jobs[3]))]
    assert [outcome for outcome, _ in others] == ["refused", "refused"]


def test_who_lost_the_right_meanwhile_steers_nothing(ops: User, jobs: list[Job]) -> None:
    job = start(ops, "cancel", jobs[3:])
    ops.groups.clear()
    drain()
    job.refresh_from_db()
    assert job.outputs == {"done": 0, "refused": 0, "failed": 2}
    assert {Job.objects.get(pk=one.pk).status for one in jobs[3:]} == {"QUEUED"}


def test_what_people_skipped_is_counted_apart(ops: User, jobs: list[Job]) -> None:
    """It has no outcome of its own; the whole failed over that."""
    job = start(ops, "cancel", jobs[3:])
    drain(1)
    step_skip(step_id=Step.objects.get(job=job, key="each[0]").pk, actor=ops, reason="not that one")
    drain()
    job.refresh_from_db()
    report = Step.objects.get(job=job, key="report").outputs
    assert (job.status, report["words"]) == ("COMPLETED", "1 done, 1 skipped")
    assert (report["done"], report["skipped"], report["failed"]) == (1, 1, 0)


@pytest.fixture
def expired(ops: User, jobs: list[Job]) -> Job:
    """A bulk job that came to nothing."""
    job = start(ops, "cancel", jobs[3:])
    job_expire(job_id=job.pk, reason="Not done in time")
    return job


def test_retried_it_is_judged_and_recorded_as_who_retried_it(
    ops: User, jobs: list[Job], expired: Job
) -> None:
    other = make_user("Ad Ops", name="bo")
    ops.groups.clear()
    again = job_retry(job_id=expired.pk, actor=other, reason="again")
    drain()
    assert set(told(again).values()) == {("done", "Cancelled.")}
    for job in jobs[3:]:
        assert AuditEntry.objects.filter(entity_id=job.pk).latest("seq").actor == f"human:{other.pk}"


def test_retried_it_steers_nothing_that_who_retried_it_does_not_see(jobs: list[Job], expired: Job) -> None:
    other = make_user("Ad Ops", name="bo")
    Job.objects.filter(pk=jobs[3].pk).update(advertiser=make_advertiser("Northwind"))
    other = limit(other, make_advertiser("Lindqvist Coffee"))
    again = job_retry(job_id=expired.pk, actor=other, reason="again")
    drain()
    assert sorted(told(again).values()) == [("done", "Cancelled."), ("refused", "There is no such job.")]
    assert Job.objects.get(pk=jobs[3].pk).status == "QUEUED"


def test_who_left_the_team_meanwhile_steers_nothing(ops: User, jobs: list[Job]) -> None:
    job = start(ops, "cancel", jobs[3:])
    ops.teams.set([make_team("Elsewhere")])
    drain()
    assert set(told(job).values()) == {("refused", "There is no such job.")}
    assert {Job.objects.get(pk=one.pk).status for one in jobs[3:]} == {"QUEUED"}


def test_other_teams_jobs_are_not_there(jobs: list[Job]) -> None:
    stranger = make_user("Ad Ops", team=make_team("Elsewhere"))
    with pytest.raises(JobRefusedError, match="nothing to cancel"):
        start(stranger, "cancel", jobs)
    with pytest.raises(JobRefusedError, match="nothing to cancel"):
        bulk_start(act="cancel", found=by(stranger), reason="x", user=stranger, request_id=uuid.uuid4())


def test_two_teams_at_a_time_are_refused(ops: User, jobs: list[Job], bench: Bench) -> None:
    other = make_team("Elsewhere")
    ops.teams.add(other)
    theirs = bench.start("fine", team=other)
    with pytest.raises(JobRefusedError, match="one team"):
        start(ops, "cancel", [*jobs, theirs])
    start(ops, "cancel", [theirs])
    assert Team.objects.filter(job__recipe=bulk.RECIPE).get() == other


@pytest.mark.parametrize(
    ("role", "act", "reason", "why"),
    [
        ("Buyer", "cancel", "x", "no right"),
        ("Ad Ops", "cancel", "  ", "Say why"),
        ("Ad Ops", "explode", "x", "retry or cancel"),
    ],
)
def test_what_is_refused_starts_nothing(role: str, act: str, reason: str, why: str, jobs: list[Job]) -> None:
    with pytest.raises(JobRefusedError, match=why):
        start(make_user(role), act, jobs, reason=reason)
    assert not Job.objects.filter(recipe=bulk.RECIPE).exists()


def test_more_than_are_taken_at_a_time(ops: User, jobs: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "MOST", 2)
    with pytest.raises(JobRefusedError, match="fewer at a time"):
        start(ops, "cancel", jobs)
    with pytest.raises(JobRefusedError, match="fewer at a time"):
        bulk_chosen(viewer=ops, act="retry", found=by(ops))


def test_a_filter_takes_what_the_act_suits_and_no_nested_jobs(ops: User, bench: Bench) -> None:
    bench.recipe({"id": "inner"}, name="child")
    bench.recipe({"id": "outer", "recipe": "child"}, name="parent")
    parent = bench.start("parent")
    drain(1)
    ended = bench.start("child")
    job_cancel(job_id=ended.pk, actor=ops, reason="x")
    assert Job.objects.filter(parent_step__job=parent, status__in=(JobStatus.QUEUED,)).exists()
    assert bulk_chosen(viewer=ops, act="cancel", found=by(ops)).ids == (parent.pk,)
