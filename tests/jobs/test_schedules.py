"""Recipes that start at a time or by cron: once for each due time, whoever looks, whatever was missed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import DatabaseError, IntegrityError, transaction

from tasks_app.desk.explain import explain
from tasks_app.jobs import schedules
from tasks_app.jobs.models import Job
from tasks_app.jobs.schedule import Schedule, ScheduleEntry
from tasks_app.jobs.schedules import (
    ScheduleDraft,
    ScheduleRefusedError,
    schedule_change,
    schedule_create,
    schedule_pause,
    schedule_resume,
    schedule_run_now,
    schedules_start_due,
    schedules_wake,
)
from tasks_app.notifications.models import Notification
from tasks_app.people.models import User
from tasks_app.people.roles import ROLES
from tests.clocks import Clock
from tests.database import Database
from tests.factories import make_team, make_user
from tests.jobs.conftest import Bench
from tests.lifecycle.threads import at_once
from tests.owning import as_the_product

db = pytest.mark.django_db


@pytest.fixture
def ready(bench: Bench) -> Bench:
    bench.recipe({"id": "a", "inputs": {"channel": "{{ inputs.channel }}"}}, name="stock", startable=True)
    bench.recipe({"id": "a"}, name="inner")
    return bench


@pytest.fixture
def user() -> User:
    return make_user("Ad Ops")


def draft(**fields: Any) -> ScheduleDraft:
    given: dict[str, Any] = {
        "name": "Stock",
        "team": make_team(),
        "recipe": "stock",
        "inputs": {"channel": "ctv"},
    }
    return ScheduleDraft(**{**given, **({} if "start_at" in fields else {"cron": "0 * * * *"}), **fields})


def made(actor: Any = "system", **fields: Any) -> Schedule:
    return schedule_create(draft=draft(**fields), actor=actor)


def entries(schedule: Schedule) -> list[tuple[str, str, str]]:
    """(kind, due "day hour:minute", note), oldest first."""
    rows = ScheduleEntry.objects.filter(schedule=schedule).order_by("id")
    return [(e.kind, e.due_at.strftime("%d %H:%M") if e.due_at else "", e.note) for e in rows]


@db
def test_by_cron_each_due_time_starts_one_job(ready: Bench, still: Clock, user: User) -> None:
    schedule = made(user)
    assert (schedules_wake(), schedules_start_due()) == (0, 0)
    still.forward(hours=1)
    assert schedules_wake() == 1
    assert schedules_start_due() == 1
    assert (schedules_start_due(), schedules_wake()) == (0, 0)
    still.forward(hours=1, seconds=3)
    assert schedules_start_due() == 1
    assert entries(schedule) == [
        ("created", "", ""),
        ("started", "01 01:00", ""),
        ("started", "01 02:00", ""),
    ]
    job = Job.objects.latest("id")
    assert (job.recipe, job.inputs, job.requested_by) == ("stock", {"channel": "ctv"}, f"human:{user.pk}")
    assert (job.subject_type, job.subject_id) == ("schedule", schedule.pk)


@db
def test_at_a_time_it_starts_once(ready: Bench, still: Clock) -> None:
    schedule = made(start_at=still.now + timedelta(minutes=90))
    still.forward(hours=1)
    assert schedules_start_due() == 0
    still.forward(hours=1)
    assert schedules_start_due() == 1
    still.forward(days=400)
    assert schedules_start_due() == 0
    schedule.refresh_from_db()
    assert schedule.next_due_at is None


@db
@pytest.mark.parametrize("missed", ["once", "skip"])
def test_what_was_missed_runs_once_or_not_at_all(ready: Bench, still: Clock, missed: str) -> None:
    schedule = made(missed=missed)
    still.forward(hours=5, minutes=30)
    started = schedules_start_due()
    assert started == (1 if missed == "once" else 0)
    kind = "started" if missed == "once" else "skipped"
    assert entries(schedule)[1:] == [(kind, "01 05:00", "4 earlier times were missed; late by 0:30:00")]
    still.forward(minutes=31)
    assert schedules_start_due() == 1
    assert entries(schedule)[-1] == ("started", "01 06:00", "")
    assert Job.objects.count() == started + 1


@db
def test_the_last_one_in_time_is_started_though_earlier_ones_were_missed(ready: Bench, still: Clock) -> None:
    schedule = made(missed="skip")
    still.forward(hours=3, minutes=2)
    assert schedules_start_due() == 1
    assert entries(schedule)[-1] == ("started", "01 03:00", "2 earlier times were missed")


@db
def test_years_without_a_worker_cost_one_look(ready: Bench, still: Clock) -> None:
    schedule = made(cron="* * * * *")
    still.forward(days=700)
    assert schedules_start_due() == 1
    assert entries(schedule)[-1][2] == "100 or more earlier times were missed"


@db
def test_through_the_change_of_the_clocks(ready: Bench, still: Clock) -> None:
    still.now = datetime(2030, 3, 9, 12, tzinfo=UTC)
    schedule = made(cron="30 2 * * *", zone="America/New_York")  # 10 March 2030 has no 02:30 there
    assert schedule.next_due_at == datetime(2030, 3, 10, 7, 30, tzinfo=UTC)
    still.now = datetime(2030, 3, 10, 7, 30, tzinfo=UTC)
    assert schedules_start_due() == 1
    schedule.refresh_from_db()
    assert schedule.next_due_at == datetime(2030, 3, 11, 6, 30, tzinfo=UTC)
    still.now = datetime(2030, 11, 3, 4, tzinfo=UTC)
    schedule = made(name="Twice", cron="30 1 * * *", zone="America/New_York")  # that night has two
    for now in (datetime(2030, 11, 3, 5, 30, tzinfo=UTC), datetime(2030, 11, 3, 6, 30, tzinfo=UTC)):
        still.now = now
        schedules_start_due()
    assert [entry[1] for entry in entries(schedule)] == ["", "03 05:30"]


def test_many_processes_start_each_due_time_once(committed_db: Database, ready: Bench, still: Clock) -> None:
    rows = [made(name=f"S{n}") for n in range(4)]
    for _ in range(3):
        still.forward(hours=1)
        answers = at_once(*(schedules_start_due for _ in range(4)))
        assert sum(answers) == len(rows), answers
    assert Job.objects.count() == 3 * len(rows)
    assert ScheduleEntry.objects.filter(kind="started").count() == 3 * len(rows)


@db
def test_the_database_takes_a_due_time_once(ready: Bench, still: Clock) -> None:
    schedule = made()
    columns = {"schedule": schedule, "kind": "started", "at": still.now, "by": "system", "due_at": still.now}
    ScheduleEntry.objects.create(**columns)
    with pytest.raises(IntegrityError), transaction.atomic():
        ScheduleEntry.objects.create(**columns)


@db
def test_what_happened_stays_as_it_was_written(ready: Bench, still: Clock) -> None:
    rows = ScheduleEntry.objects.filter(schedule=made())
    for edit in (lambda: rows.update(by="human:other"), rows.delete):
        with as_the_product(), pytest.raises(DatabaseError, match="permission denied"), transaction.atomic():
            edit()
    assert rows.get().by == "system"


@db
def test_paused_it_starts_nothing_and_makes_nothing_up(ready: Bench, still: Clock, user: User) -> None:
    schedule = made()
    schedule_pause(schedule_id=schedule.pk, actor=user)
    schedule_pause(schedule_id=schedule.pk, actor=user)
    still.forward(hours=3, minutes=30)
    assert schedules_start_due() == 0
    resumed = schedule_resume(schedule_id=schedule.pk, actor=user)
    assert schedules_start_due() == 0
    assert resumed.next_due_at == still.now + timedelta(minutes=30)
    assert [
        (kind, e.by) for kind, e in zip(["created", "paused", "resumed"], _rows(schedule), strict=True)
    ] == [
        ("created", "system"),
        ("paused", f"human:{user.pk}"),
        ("resumed", f"human:{user.pk}"),
    ]


def _rows(schedule: Schedule) -> Iterator[ScheduleEntry]:
    yield from ScheduleEntry.objects.filter(schedule=schedule).order_by("id")


@db
def test_a_person_starts_it_now(ready: Bench, still: Clock, user: User) -> None:
    schedule = made()
    job = schedule_run_now(schedule_id=schedule.pk, actor=user)
    assert job.requested_by == f"human:{user.pk}"
    assert entries(schedule)[-1] == ("started", "", "By hand")
    schedule.refresh_from_db()
    assert schedule.next_due_at == still.now + timedelta(hours=1)


@db
def test_a_change_says_what_and_who(ready: Bench, still: Clock, user: User) -> None:
    schedule = made()
    changed = schedule_change(
        schedule_id=schedule.pk, draft=draft(cron="0 9 * * *", inputs={"channel": "olv"}), actor=user
    )
    assert changed.next_due_at == datetime(2030, 1, 1, 9, tzinfo=UTC)
    entry = ScheduleEntry.objects.get(schedule=schedule, kind="changed")
    assert entry.by == changed.actor == f"human:{user.pk}"
    assert entry.changes == {
        "cron": ["0 * * * *", "0 9 * * *"],
        "inputs": [{"channel": "ctv"}, {"channel": "olv"}],
    }
    with pytest.raises(ScheduleRefusedError, match="stays with its team"):
        schedule_change(schedule_id=schedule.pk, draft=draft(team=make_team("Other")), actor="system")


@db
@pytest.mark.parametrize(
    ("fields", "field", "why"),
    [
        ({"name": " "}, "name", "80"),
        ({"recipe": "nothing"}, "recipe", "no recipe"),
        ({"recipe": "inner"}, "recipe", "no recipe that people start"),
        ({"inputs": {}}, "inputs", "needs channel"),
        ({"inputs": []}, "inputs", "JSON object"),
        ({"cron": ""}, "cron", "one of them"),
        ({"cron": "61 * * * *"}, "cron", "61"),
        ({"cron": "0 0 30 2 *"}, "cron", "30 2"),
        ({"zone": "Nowhere"}, "zone", "Nowhere"),
        ({"missed": "all"}, "missed", "once or skip"),
        ({"priority": -1}, "priority", "1000"),
        ({"start_at": datetime(2029, 12, 31, tzinfo=UTC)}, "start_at", "has passed"),
        ({"start_at": datetime(2200, 1, 1, tzinfo=UTC)}, "start_at", "2199 is the last year"),
        ({"start_at": datetime.max.replace(tzinfo=ZoneInfo("Pacific/Auckland"))}, "start_at", "too far off"),
        ({"start_at": datetime(2031, 1, 1, tzinfo=UTC), "cron": "0 * * * *"}, "cron", "one of them"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    ready: Bench, still: Clock, fields: dict[str, Any], field: str, why: str
) -> None:
    with pytest.raises(ScheduleRefusedError) as refused:
        made(**fields)
    assert why in " ".join(refused.value.errors[field])
    assert not Schedule.objects.exists()


@db
def test_names_are_once_in_a_team(ready: Bench, still: Clock) -> None:
    made()
    with pytest.raises(ScheduleRefusedError) as refused:
        made()
    assert list(refused.value.errors) == ["name"]
    assert made(team=make_team("Other")).name == "Stock"


@db
def test_it_takes_the_right_and_the_team(ready: Bench, still: Clock) -> None:
    schedule = made()
    strangers = (make_user("Buyer"), make_user("Ad Ops", team=make_team("Other")))
    for user in strangers:
        for act in (
            lambda user=user: made(user, name="Mine"),
            lambda user=user: schedule_pause(schedule_id=schedule.pk, actor=user),
            lambda user=user: schedule_resume(schedule_id=schedule.pk, actor=user),
            lambda user=user: schedule_run_now(schedule_id=schedule.pk, actor=user),
            lambda user=user: schedule_change(schedule_id=schedule.pk, draft=draft(), actor=user),
        ):
            with pytest.raises(ScheduleRefusedError) as refused:
                act()
            assert refused.value.code == "no_right"
    assert entries(schedule) == [("created", "", "")]
    assert not Job.objects.exists()


@db
@pytest.mark.parametrize("how", ["left", "team", "right", "recipe"])
def test_who_may_not_any_more_starts_nothing(ready: Bench, still: Clock, user: User, how: str) -> None:
    schedule = made(user)
    if how == "left":
        User.objects.filter(pk=user.pk).update(is_active=False)
    elif how == "team":
        user.teams.clear()
    elif how == "right":
        user.groups.clear()
    else:
        Schedule.objects.update(recipe="gone")
    still.forward(hours=1)
    assert schedules_start_due() == 0
    kind, due, note = entries(schedule)[-1]
    assert (kind, due) == ("failed", "01 01:00")
    assert note
    told = Notification.objects.get(kind="schedule_failed")
    assert (told.team_id, told.body) == (schedule.team_id, note)
    still.forward(hours=1)
    schedules_start_due()
    assert Notification.objects.filter(kind="schedule_failed").count() == 1, "once a day"


@db
def test_one_that_cannot_start_holds_up_no_other(
    ready: Bench, still: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = made(name="Bad", inputs={"channel": "bad"}), made(name="Good")
    start = schedules.job_start

    def broken(**arguments: Any) -> Job:
        if arguments["inputs"]["channel"] == "bad":
            raise DatabaseError("cannot be stored")
        return start(**arguments)

    monkeypatch.setattr(schedules, "job_start", broken)
    still.forward(hours=1)
    assert schedules_start_due() == 1
    assert entries(bad)[-1] == ("failed", "01 01:00", "DatabaseError: cannot be stored")
    assert entries(good)[-1][0] == "started"


def _comes_of(act: Any, schedule: Schedule, user: User) -> bool:
    """Whether anything comes of it; everything is as before afterwards."""
    before = len(entries(schedule))
    with transaction.atomic():
        try:
            act(schedule_id=schedule.pk, actor=user)
        except ScheduleRefusedError:
            return False
        else:
            return len(entries(schedule)) > before
        finally:
            transaction.set_rollback(True)


@db
@pytest.mark.parametrize("stands", ["scheduled", "paused", "over"])
def test_what_a_schedule_says_can_be_done_can_by_those_and_nothing_else(
    ready: Bench, still: Clock, user: User, stands: str
) -> None:
    schedule = made(user, **({"start_at": still.now + timedelta(minutes=5)} if stands == "over" else {}))
    if stands == "paused":
        schedule_pause(schedule_id=schedule.pk, actor=user)
    elif stands == "over":
        still.forward(hours=1)
        schedules_start_due()
    told = explain(str(schedule.pk), make_user("Administrator"))
    assert told.state == stands
    (changes,) = [one for one in told.who if one.does.endswith("change it or run it now")]
    for role in set(ROLES) - {"Integration"}:
        tries = make_user(role)
        named = role in changes.roles
        assert _comes_of(schedule_run_now, schedule, tries) == named
        assert _comes_of(schedule_resume, schedule, tries) == (named and "resume" in changes.does)
        if stands != "over":  # what starts nothing any more has nothing to be paused
            assert _comes_of(schedule_pause, schedule, tries) == (named and "pause" in changes.does)
