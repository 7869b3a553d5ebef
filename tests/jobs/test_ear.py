"""An idle worker hears of ready steps itself; what it does not hear, it finds when it begins to listen."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import close_old_connections, connection, transaction
from django_q.models import OrmQ

from config.processes import ProcessGroup
from tasks_app.jobs import ear as module
from tasks_app.jobs.ear import Ear, TaskQueue
from tasks_app.jobs.models import Job
from tasks_app.jobs.wake import steps_tell, taking_next, wake
from tasks_app.jobs.worker import drain
from tests.database import Database
from tests.jobs.cluster import Worker, gone
from tests.jobs.conftest import Bench, statuses
from tests.jobs.test_lanes import deliver, ended, waiting
from tests.rounds import sample_cases
from tests.support import joined, until

pytestmark = pytest.mark.deep


class Tasks:
    """A queue's readable end, as a worker waits at it."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def fileno(self) -> int:
        return self._read

    def put(self) -> None:
        os.write(self._write, b"!")

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)


@pytest.fixture
def tasks(committed_db: Database) -> Iterator[Tasks]:
    end = Tasks()
    yield end
    end.close()


@pytest.fixture
def ear(tasks: Tasks) -> Iterator[Ear]:
    ear = Ear(["recipes", "background"])
    yield ear
    ear.close()


def heard(ear: Ear, tasks: Tasks) -> list[str]:
    """All that it says until it says that there is a task, which is put in for that."""
    tasks.put()
    found = []
    while lane := ear.wait(tasks):
        found.append(lane)
        assert ear.wait(tasks) == "", "in turn with tasks"
    return found


def listening() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("select pg_listening_channels()")
        return [row[0] for row in cursor.fetchall()]


def calm(ear: Ear, tasks: Tasks) -> None:
    """It listens, and has looked."""
    ear._open()
    ear._look_at = None
    assert listening() == ["fd_steps"]


def tell(database: Database, *lanes: str) -> None:
    """In one commit; it has come in on the connection that listens."""
    with psycopg.connect(database.urls.app, autocommit=True) as own:
        own.execute("select pg_notify('fd_steps', lane) from unnest(%s::text[]) lane", [list(lanes)])
    raw: Any = connection.connection
    until(lambda: bool(select.select([raw.fileno()], [], [], 0)[0]), "it was told")


def test_it_hears_in_the_lanes_order_what_it_serves(ear: Ear, tasks: Tasks, committed_db: Database) -> None:
    calm(ear, tasks)
    tell(committed_db, "background", "recipes", "recipes", "others")
    assert heard(ear, tasks) == ["recipes", "background"]
    assert heard(ear, tasks) == [], "each is heard once"


def test_what_comes_in_with_an_answer_is_heard(ear: Ear, tasks: Tasks, committed_db: Database) -> None:
    calm(ear, tasks)
    tell(committed_db, "recipes")
    assert listening() == ["fd_steps"]  # asked on the same connection
    assert heard(ear, tasks) == ["recipes"]


def test_who_begins_to_listen_finds_what_nobody_heard(ear: Ear, tasks: Tasks, bench: Bench) -> None:
    bench.recipe({"id": "a", "lane": "background"})
    bench.start()
    assert ear.wait(tasks) == "background"


def test_what_others_hold_is_looked_for_once(ear: Ear, tasks: Tasks, bench: Bench) -> None:
    bench.recipe({"id": "a"})
    bench.start()
    assert ear.wait(tasks) == "recipes"
    assert heard(ear, tasks) == []


def test_who_stopped_listening_hears_nothing(ear: Ear, tasks: Tasks, committed_db: Database) -> None:
    calm(ear, tasks)
    tell(committed_db, "recipes")
    ear.close()
    assert listening() == []
    assert heard(ear, tasks) == []


def test_who_was_asked_to_stop_begins_nothing(
    ear: Ear, tasks: Tasks, committed_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm(ear, tasks)
    tell(committed_db, "recipes")
    monkeypatch.setattr("tasks_app.stopping.asked", lambda: True)
    assert heard(ear, tasks) == []


def test_a_connection_that_the_server_ended_is_replaced(
    ear: Ear, tasks: Tasks, committed_db: Database, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_AGAIN_S", 0.01)
    calm(ear, tasks)
    before: Any = connection.connection
    with psycopg.connect(committed_db.urls.app, autocommit=True) as own:
        own.execute("select pg_terminate_backend(%s)", [before.info.backend_pid])
    starts = threading.Timer(0.2, _start, [bench])
    starts.start()
    assert ear.wait(tasks) == "recipes", "it listens again, and looks"
    joined(starts)
    assert connection.connection is not before


def _start(bench: Bench) -> None:
    try:
        bench.recipe({"id": "a"})
        bench.start()
    finally:
        connection.close()


def test_it_listens_on_the_connection_that_the_worker_has(
    ear: Ear, tasks: Tasks, committed_db: Database
) -> None:
    calm(ear, tasks)
    connection.close_at = 0  # CONN_MAX_AGE is over
    close_old_connections()  # as at the start of each task
    calm(ear, tasks)
    tell(committed_db, "recipes")
    assert heard(ear, tasks) == ["recipes"]


def test_the_callers_commit_stays_durable(tasks: Tasks) -> None:
    with connection.cursor() as cursor, transaction.atomic():
        cursor.execute("set local synchronous_commit = on")
        steps_tell(["recipes"])
        cursor.execute("show synchronous_commit")
        assert cursor.fetchone() == ("on",)


def nothing_after_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the process is killed just after each commit."""
    monkeypatch.setattr("django.db.transaction.on_commit", lambda call, robust=False: None)


def test_a_job_is_told_by_the_commit_that_starts_it(
    ear: Ear, tasks: Tasks, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm(ear, tasks)
    nothing_after_commits(monkeypatch)
    bench.recipe({"id": "a"}, {"id": "b", "lane": "background"})
    bench.start()
    assert heard(ear, tasks) == ["recipes", "background"]


def test_a_start_that_is_rolled_back_is_told_to_nobody(ear: Ear, tasks: Tasks, bench: Bench) -> None:
    calm(ear, tasks)
    bench.recipe({"id": "a"})
    with transaction.atomic():
        bench.start()
        transaction.set_rollback(True)
    assert heard(ear, tasks) == []


def test_what_a_drain_starts_is_told_after_it_and_less_what_it_takes(
    bench: Bench, committed_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.recipe({"id": "a"})
    told: list[str] = []
    monkeypatch.setattr("tasks_app.jobs.wake.steps_tell", told.extend)
    with taking_next() as taken:
        bench.start()
        taken["recipes"] = 1
    assert told == []
    with taking_next():
        bench.start()
        assert told == [], "its worker may take it"
    assert told == ["recipes"]


def test_the_queue_hands_out_tasks_as_ever(tasks: Tasks) -> None:
    queue = TaskQueue(["recipes"], maxsize=4)
    for number in range(3):
        queue.put({"number": number})
    assert [queue.get()["number"] for _ in range(3)] == [0, 1, 2]
    assert queue.empty()
    calm(queue._ear, tasks)
    with transaction.atomic():
        wake(["recipes", "recipes"])
    task = queue.get()
    assert (task["func"], task["kwargs"]) == (drain, {"lanes": ["recipes"]})
    assert OrmQ.objects.count() == 1, "the second is for another worker"
    queue.put("STOP")
    assert queue.get() == "STOP"
    assert listening() == [], "a task may be long"
    queue.close()
    queue.join_thread()


# --- a cluster ------------------------------------------------------------------------------------


def test_a_cluster_hears_without_sweep_or_queue(
    processes: ProcessGroup, bench: Bench, committed_db: Database
) -> None:
    bench.recipe(waiting("a"), waiting("b", "a"))
    before = bench.start(inputs={"order": "1"})
    worker = Worker(processes, lanes=["recipes"])
    until(lambda: _asleep(before, "a"), "what was ready before is found")
    jobs = [before, *(bench.start(inputs={"order": str(number)}) for number in range(2, 6))]
    until(lambda: all(_asleep(job, "a") for job in jobs), "each was heard of")
    for step in ("a", "b"):
        for number in range(1, 6):
            deliver(step, str(number))
        until(lambda step=step: all(_over(job, step) for job in jobs), "and what they wait for")
    assert all(ended(job) for job in jobs)
    assert not OrmQ.objects.exists()
    everybody = worker.everybody()
    worker.main.terminate()
    assert worker.exit_code() == 0
    gone(everybody)


def _asleep(job: Job, step: str) -> bool:
    return statuses(job)[step] == "awaiting_tool"


def _over(job: Job, step: str) -> bool:
    return statuses(job)[step] == "completed"


def test_whoever_is_killed_another_listens(
    processes: ProcessGroup, bench: Bench, committed_db: Database
) -> None:
    bench.recipe(waiting("a"))
    worker = Worker(processes, lanes=["recipes"])
    worker.started()
    for number in sample_cases(range(worker.workers), most=1):
        until(worker.members, "all are there")[number].kill()
        job = bench.start(inputs={"order": str(number)})
        until(lambda job=job: _asleep(job, "a"), "it is heard of")
