"""Lanes: a worker takes from those it serves, in its order; what nobody serves is told; what is lost is made
up for; a deploy changes no running job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection
from django_q.brokers import get_broker
from django_q.models import OrmQ
from prometheus_client import REGISTRY

from config.processes import ProcessGroup
from tasks_app import clock
from tasks_app.jobs import broker as module
from tasks_app.jobs import recipes, wake
from tasks_app.jobs.broker import PostgresBroker
from tasks_app.jobs.clusters import WorkerCluster
from tasks_app.jobs.models import Job, Step
from tasks_app.jobs.outside import event_deliver
from tasks_app.jobs.serving import SWEEP, Serving, lanes_served, lanes_watch
from tasks_app.jobs.worker import drain, sweep_slice
from tasks_app.lanes import WorkerLane, lanes_read, queue_of
from tasks_app.notifications.models import Notification
from tasks_app.operations.sweep import _LOCK, sweep_runs, turn_limit_s
from tasks_app.people.actors import SYSTEM
from tasks_app.reconciliation.models import ReconciliationRun
from tasks_app.reconciliation.runs import run_ask
from tasks_app.session_locks import session_lock, session_unlock
from tests.clocks import Clock
from tests.commands.running import call
from tests.database import Database
from tests.factories import make_team
from tests.jobs.cluster import Worker, gone, works
from tests.jobs.conftest import Bench, statuses
from tests.rounds import sample_cases
from tests.support import until

LANES = list(WorkerLane)


def waiting(key: str, *after: str, lane: str = "recipes") -> dict[str, Any]:
    """A step of an action that every worker knows."""
    return {
        "id": key,
        "lane": lane,
        "after": list(after),
        "action": "wait_for_event",
        "inputs": {"name": key, "correlation": "{{ inputs.order }}"},
    }


def deliver(name: str, order: str = "1") -> None:
    event_deliver(
        name=name,
        correlation=order,
        payload={"said": name},
        idempotency_key=f"{name} {order}",
        team=make_team(),
        actor="system",
    )


def ended(job: Job) -> bool:
    return Job.objects.get(pk=job.pk).ended_at is not None


# --- which lanes, in which order ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "lanes"),
    [("", LANES), (" recipes , main", ["recipes", "main"]), ("main,recipes", ["main", "recipes"])],
)
def test_lanes_are_read_in_their_order(names: str, lanes: list[str]) -> None:
    assert list(lanes_read(names)) == lanes


@pytest.mark.parametrize(("names", "why"), [("recipes,fast", "fast"), ("main,main", "once")])
def test_what_is_no_lane_is_refused(names: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        lanes_read(names)
    ran = call("worker", "--lanes", names)
    assert (ran.code, why in ran.err) == (2, True)


@pytest.fixture
def broker(committed_db: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresBroker]:
    monkeypatch.setattr(module, "_LOOK_AGAIN_S", 0.01)
    broker = get_broker(queue_of("recipes"))
    assert isinstance(broker, PostgresBroker)
    broker.serve(["recipes", "webhooks", "main"])
    yield broker
    broker._hang_up()


def put(*lanes: str) -> None:
    for lane in lanes:
        get_broker(queue_of(lane)).enqueue(lane)


def taken(broker: PostgresBroker) -> list[str]:
    found = []
    while task := broker.dequeue():
        found += [payload for _, payload in task]
    return found


def test_a_worker_prefers_its_lanes_in_their_order(broker: PostgresBroker) -> None:
    put("main", "background", "webhooks", "recipes", "polling", "webhooks")
    assert taken(broker) == ["recipes", "webhooks", "webhooks", "main"]
    assert sorted(OrmQ.objects.filter(lock__lte=clock.now()).values_list("payload", flat=True)) == [
        "background",
        "polling",
    ]


def test_what_has_waited_a_second_goes_first(broker: PostgresBroker) -> None:
    put("main", "webhooks")
    OrmQ.objects.update(lock=clock.now() - timedelta(seconds=2))
    put("recipes", "recipes")
    assert taken(broker) == ["main", "webhooks", "recipes", "recipes"]


def test_steps_of_a_lane_wake_that_lane(
    bench: Bench, committed_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.recipe({"id": "a"}, {"id": "b", "lane": "background", "after": ["a"]}, {"id": "c", "after": ["a"]})
    told: list[str] = []
    monkeypatch.setattr(wake, "steps_tell", told.extend)
    job = bench.start()
    assert told == ["recipes"]
    assert drain(1, lanes=["recipes"]) == 1
    assert "background" in told
    assert drain(lanes=["recipes"]) == 1
    assert statuses(job) == {"a": "completed", "b": "queued", "c": "completed"}
    assert queued() == {}
    Step.objects.filter(job=job, key="b").update(ready_at=clock.now() - timedelta(seconds=2))
    assert wake.wake_if_missed() == 1
    assert queued() == {"background": 1}
    assert drain(lanes=["background"]) == 1
    assert ended(job)


def queued() -> dict[str, int]:
    keys = list(OrmQ.objects.values_list("key", flat=True))
    return {key.partition(".")[2]: keys.count(key) for key in keys}


# --- who serves them ------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_lane_that_nobody_serves_is_shown_and_told(still: Clock) -> None:
    assert lanes_watch() == 0, "no worker at all: that is not this one's to tell"
    Serving(["polling", "recipes", "main"]).look()
    Serving(["webhooks"]).look()
    assert [lane for lane, clusters in lanes_served().items() if not clusters] == ["background"]
    assert REGISTRY.get_sample_value("flightdeck_lane_clusters", {"lane": "recipes"}) == 1
    assert REGISTRY.get_sample_value("flightdeck_lane_clusters", {"lane": "background"}) == 0
    ran = call("lanes", "--json")
    assert (ran.code, ran.json["lanes"]["background"]) == (1, [])
    assert "background" in ran.err

    assert lanes_watch() == 0, "another may be starting still"
    still.forward(seconds=60)
    WorkerCluster.objects.update(seen_at=still.now)
    assert (lanes_watch(), lanes_watch()) == (1, 0)
    told = Notification.objects.get(kind="lane_unserved")
    assert (told.title, told.right) == ("No worker serves the lane background", "tasks_app.steer_job")

    still.forward(seconds=61)
    assert not any(lanes_served().values()), "nothing was heard of them"
    still.forward(days=2)
    Serving(LANES).look()
    assert WorkerCluster.objects.count() == 1
    assert call("lanes").code == 0


def test_a_sweep_that_was_lost_is_asked_for_again(committed_db: Database) -> None:
    serving = Serving(["polling"])

    def looked() -> bool:
        serving.look()
        return OrmQ.objects.filter(key=queue_of("polling")).exists()

    until(looked, "the pusher asks for a sweep")
    (task,) = OrmQ.objects.all()
    assert (task.func(), task.task["timeout"]) == (SWEEP, turn_limit_s())


def test_what_a_version_before_asked_for_becomes_a_turn(committed_db: Database) -> None:
    """It stands in the queue with two minutes: a turn would be cut there, and the calls that are out."""
    sweep_slice()
    (task,) = OrmQ.objects.all()
    assert (task.func(), task.task["timeout"]) == (SWEEP, turn_limit_s())


def test_while_somebody_sweeps_no_other_is_asked_for(committed_db: Database) -> None:
    assert not sweep_runs()
    assert session_lock(_LOCK)
    try:
        assert sweep_runs()
        serving = Serving(["polling"])
        serving._ask_at = 0.0
        serving.look()
        assert not OrmQ.objects.exists()
    finally:
        session_unlock(_LOCK)


def test_a_look_survives_a_database_that_is_away(committed_db: Database) -> None:
    serving = Serving(LANES)
    with connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        (pid,) = cursor.fetchone()
    with psycopg.connect(committed_db.urls.app, autocommit=True) as rival:
        rival.execute("select pg_terminate_backend(%s)", [pid])
    serving.look()
    serving._next = 0.0
    serving.look()
    serving._next = 0.0
    serving.look()
    assert WorkerCluster.objects.count() == 1


# --- real workers ---------------------------------------------------------------------------------


def test_each_cluster_does_what_its_lanes_carry(
    committed_db: Database, processes: ProcessGroup, bench: Bench
) -> None:
    bench.recipe(waiting("a"), waiting("b", "a", lane="background"))
    Worker(processes, lanes=["recipes", "main"])
    deliver("a")
    deliver("b")
    job = bench.start(inputs={"order": "1"})
    until(lambda: statuses(job)["a"] == "completed", "its worker ran the step")
    works(lane="main")
    assert statuses(job)["b"] == "queued"
    assert [lane for lane, clusters in lanes_served().items() if clusters] == ["recipes", "main"]
    Worker(processes, lanes=["background"], name="background")
    until(lambda: ended(job), "the other worker ran the other step")


def test_a_cluster_of_some_lanes_outlives_its_processes(
    committed_db: Database, processes: ProcessGroup
) -> None:
    """As one of all lanes does (test_cluster): the monitor, the pusher, and all its workers at once."""
    worker = Worker(processes, lanes=["recipes", "background"])
    worker.started()
    for victims in sample_cases([slice(-2, -1), slice(-1, None), slice(0, worker.workers)], most=2):
        killed = worker.started()[victims]
        for victim in killed:
            victim.kill()
        until(
            lambda killed=killed: bool(worker.members()) and not set(killed) & set(worker.members()),
            "they are replaced",
        )
        for lane in ("recipes", "background"):
            works(lane=lane)
    everybody = worker.everybody()
    worker.main.terminate()
    assert worker.exit_code() == 0
    gone(everybody)


def test_a_lost_wake_up_is_made_up_for_in_every_lane(
    committed_db: Database, processes: ProcessGroup, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.recipe(waiting("a"), waiting("b", lane="background"))
    Worker(processes, lanes=["polling"], name="polling").started()
    Worker(processes, lanes=["recipes", "background", "main"]).started()
    until(lambda: not ReconciliationRun.objects.filter(state__in=["asked", "running"]).exists(), "calm")
    deliver("a")
    deliver("b")
    with monkeypatch.context() as lost:
        lost.setattr(wake, "wake_workers", lambda *_, **__: 0)
        lost.setattr(wake, "steps_tell", lambda _: None)
        job = bench.start(inputs={"order": "1"})
        run = run_ask(trigger="hand", actor=SYSTEM)
    until(lambda: ended(job), "both lanes were woken")
    until(lambda: ReconciliationRun.objects.get(pk=run.pk).state == "ended", "main was woken")


def test_a_deploy_changes_no_running_job(
    committed_db: Database, processes: ProcessGroup, tmp_path: Path, bench: Bench
) -> None:
    """The worker of the next release, with another text of the same recipe, goes on with what is pinned."""
    worker = Worker(processes)
    release(tmp_path, 1, waiting("first"), waiting("second", "first"))
    before = bench.start("contract", inputs={"order": "1"})
    deliver("first", "1")
    until(lambda: statuses(before)["second"] == "awaiting_tool", "it is under way")

    everybody = worker.everybody()
    worker.main.terminate()
    assert worker.exit_code() == 0
    gone(everybody)
    release(tmp_path, 2, waiting("only"))
    worker.restart()
    after = bench.start("contract", inputs={"order": "2"})
    deliver("second", "1")
    deliver("only", "2")
    until(lambda: ended(before) and ended(after), "both have ended")

    before.refresh_from_db()
    after.refresh_from_db()
    assert [(job.status, job.recipe_version, job.outputs) for job in (before, after)] == [
        ("COMPLETED", 1, {"steps": 2}),
        ("COMPLETED", 2, {"steps": 1}),
    ]
    assert statuses(before) == {"first": "completed", "second": "completed"}
    assert statuses(after) == {"only": "completed"}
    assert before.recipe_digest == recipes.Recipe.stored(before.plan).digest != after.recipe_digest


def release(folder: Path, version: int, *steps: dict[str, Any]) -> None:
    """Recipes as a newly started release reads them from its files."""
    text = {
        "name": "contract",
        "version": version,
        "title": "Contract",
        "steps": steps,
        "outputs": {"steps": len(steps)},
    }
    (folder / "contract.json").write_text(json.dumps(text))
    recipes._recipes.pop("contract", None)
    recipes.recipes_register(folder)
