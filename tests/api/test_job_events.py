"""/api/v1/jobs/<id>/events/ as pages: complete and in order, whatever commits when."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tasks_app import clock
from tasks_app.jobs import events, planning
from tasks_app.jobs.models import Job, WorkflowEvent
from tasks_app.jobs.settled import Horizon, events_settled
from tasks_app.jobs.told import events_page
from tests.api.conftest import Open
from tests.database import Database
from tests.ending import ending
from tests.factories import make_team
from tests.rounds import rounds
from tests.support import PATIENCE_S, until

_WRITTEN = rounds(60, 300)  # by each of two processes
_INSERT = """
insert into tasks_app_workflowevent (job_id, type, source, payload, correlation, idempotency_key, at)
values (%s, %s, 'test', '{}', '{}', %s, %s) returning id
"""


def started() -> Job:
    return planning.job_start(recipe="book_deal", inputs={}, team=make_team(), actor="system")


def path(job: Job) -> str:
    return f"/api/v1/jobs/{job.pk}/events/"


@contextmanager
def writer(database: Database, job: Job, name: str, at: Any = None) -> Iterator[tuple[Any, int]]:
    """A transaction that has written an event, and has not committed: the connection, and the event's id."""
    with psycopg.connect(database.urls.app) as connection:
        row = connection.execute(_INSERT, [job.pk, name, f"{name}:{job.pk}", at or clock.now()]).fetchone()
        assert row is not None
        yield connection, row[0]


@pytest.mark.django_db
def test_pages_by_id_oldest_first(opened: Open) -> None:
    api, job = opened("Auditor"), started()
    whole = api.get(path(job)).json()
    assert [event["type"] for event in whole["results"]] == ["job.planned", "step.queued"]
    assert (whole["more"], whole["over"]) == (False, False)
    first = api.get(path(job), {"limit": 1}).json()
    assert (len(first["results"]), first["more"]) == (1, True)
    rest = api.get(path(job), {"after": first["after"]}).json()
    assert first["results"] + rest["results"] == whole["results"]
    nothing = api.get(path(job), {"after": whole["after"]}).json()
    assert (nothing["results"], nothing["after"]) == ([], whole["after"])
    told = whole["results"][1]
    assert (told["step"], told["attempt"], told["correlation"]["team"]) == ("buy", 0, str(job.team_id))


@pytest.mark.django_db
def test_secrets_in_payloads_are_not_told_and_large_ones_left_out(opened: Open) -> None:
    job = started()
    events.record(job, "odd", payload={"api_key": "k-1", "n": [1]})
    events.record(job, "large", payload={"text": "x" * 100_001})
    told = {event["type"]: event["payload"] for event in opened("Auditor").get(path(job)).json()["results"]}
    assert (told["odd"], told["large"]) == ({"api_key": "[redacted]", "n": [1]}, None)


@pytest.mark.django_db
@pytest.mark.parametrize("bad", [{"after": "-1"}, {"after": "x"}, {"after": str(2**63)}, {"limit": "0"}])
def test_what_is_no_cursor_is_refused(opened: Open, bad: dict[str, str]) -> None:
    answer = opened("Auditor").get(path(started()), bad)
    assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/problem+json")


@pytest.mark.django_db
def test_strangers_find_nothing(opened: Open, strangers: Any) -> None:
    job = started()
    stranger = opened("Administrator", strangers())
    for accept in ("application/json", "text/event-stream"):
        answer = stranger.get(path(job), headers={"Accept": accept})
        assert (answer.status_code, answer.json()["status"]) == (404, 404)


@pytest.mark.django_db
def test_without_the_edge_a_stream_is_what_there_is(opened: Open) -> None:
    api, job = opened("Auditor"), started()
    for asked in ({"headers": {"Accept": "text/event-stream"}}, {"data": {"stream": "1"}}):
        answer = api.get(path(job), **asked)
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert answer.content.startswith(b"retry: 2000\n\nid: ")
        assert answer.content.count(b"\ndata: ") == 2


def test_what_commits_later_with_a_lower_id_is_not_missed(committed_db: Database) -> None:
    job = started()
    after = events_page(job, after=0).after
    with writer(committed_db, job, "low") as (slow, low):
        with writer(committed_db, job, "high") as (quick, high):
            assert low < high
            quick.commit()
        page = events_page(job, after=after)
        assert (page.events, page.after) == ([], after), "the higher one has to wait"
        slow.commit()
    told = [(event["id"], event["type"]) for event in events_page(job, after=after).events]
    assert told == [(low, "low"), (high, "high")]


def test_what_was_rolled_back_holds_nobody_up(committed_db: Database) -> None:
    job = started()
    after = events_page(job, after=0).after
    with (
        writer(committed_db, job, "never") as (undone, _),
        writer(committed_db, job, "high") as (quick, high),
    ):
        quick.commit()
        undone.rollback()
    assert [event["id"] for event in events_page(job, after=after).events] == [high]


def test_a_writer_that_takes_long_holds_up_only_what_is_younger(committed_db: Database) -> None:
    job = started()
    WorkflowEvent.objects.filter(job=job).update(at=clock.now() - timedelta(minutes=1))
    known = list(WorkflowEvent.objects.filter(job=job).order_by("id").values_list("pk", flat=True))
    with writer(committed_db, started(), "slow"):
        assert events_settled(job.pk) == (known[-1], False)
        assert [event["id"] for event in events_page(job, after=0).events] == known


def test_one_who_looks_again_waits_only_for_those_seen_before(committed_db: Database) -> None:
    job = started()
    horizon = Horizon()
    writers = writer(committed_db, job, "first"), writer(committed_db, job, "second")
    with writers[0] as (first, _), writers[1] as (second, number):
        second.commit()
        assert horizon.look() == (0, number)
        first.commit()
        with writer(committed_db, job, "third"):
            assert horizon.look()[0] == number, "the third began after the head was read"


def test_two_processes_write_and_a_reader_misses_none(committed_db: Database) -> None:
    job = started()
    after = events_page(job, after=0).after
    command = [
        sys.executable,
        "-m",
        "tests.api.event_writer",
        committed_db.urls.app,
        str(job.pk),
        str(_WRITTEN),
    ]
    seen: list[tuple[int, str]] = []

    def read() -> bool:
        nonlocal after
        running = any(process.poll() is None for process in both)
        page = events_page(job, after=after)
        seen.extend((event["id"], event["type"]) for event in page.events)
        after = page.after
        return not running and not page.events

    with ExitStack() as begun:
        both = [begun.enter_context(ending(subprocess.Popen([*command, name]))) for name in ("a", "b")]
        until(read, "both have written", patience=PATIENCE_S * max(1, _WRITTEN / 300), every=0.001)
    assert [process.returncode for process in both] == [0, 0]
    written = WorkflowEvent.objects.filter(job=job, source="test").order_by("id").values_list("pk", "type")
    assert seen == list(written)
    assert len(seen) == 2 * _WRITTEN
