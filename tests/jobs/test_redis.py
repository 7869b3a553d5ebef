"""The queue on Redis: a real server, lanes in their order, real workers, and what a Redis that is away costs.

Run by `make test-redis`: it needs redis-server, which `.ci/run` installs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from django.conf import settings
from django_q.brokers import get_broker
from django_q.conf import Conf

from config.processes import ProcessGroup
from demo.ports import free_port
from tasks_app.jobs import redis_broker as module
from tasks_app.jobs.models import Job
from tasks_app.jobs.redis_broker import RedisBroker
from tasks_app.jobs.serving import lanes_served
from tasks_app.lanes import WorkerLane, queue_of
from tasks_app.waking import wake_workers
from tests.database import Database
from tests.ending import end
from tests.jobs.cluster import Worker, gone
from tests.jobs.conftest import Bench
from tests.support import PATIENCE_S, until

pytestmark = pytest.mark.redis


class RedisServer:
    """A redis-server of one test, that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        command = [
            "redis-server",
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--dir",
            str(self._folder),
        ]
        self._process = subprocess.Popen(
            [*command, "--save", "", "--daemonize", "no"], stdout=subprocess.DEVNULL
        )
        try:
            until(self.answers, "Redis answers")
        except BaseException:  # given up, or interrupted: nobody else knows of it
            self.kill()
            raise

    def answers(self) -> bool:
        try:
            limits = {"socket_timeout": PATIENCE_S, "socket_connect_timeout": PATIENCE_S}
            with redis.from_url(self.url, **limits) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def kill(self) -> None:
        end(self._process)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RedisServer]:
    """Redis, and this process putting its wake-ups there."""
    running = RedisServer(tmp_path)
    try:
        monkeypatch.setattr(Conf, "BROKER_CLASS", "tasks_app.jobs.redis_broker.RedisBroker")
        monkeypatch.setattr(Conf, "REDIS", running.url)
        monkeypatch.setattr(module, "_LOOK_AGAIN_S", 0.1)
        monkeypatch.setattr(module, "_AWAY_S", 0.01)
        yield running
    finally:
        running.kill()


def broker_of(*lanes: str) -> RedisBroker:
    broker = get_broker(queue_of(lanes[0]))
    assert isinstance(broker, RedisBroker)
    broker.serve(lanes)
    return broker


def put(*lanes: str) -> None:
    for lane in lanes:
        get_broker(queue_of(lane)).enqueue(lane)


def taken(broker: RedisBroker) -> list[str]:
    found = []
    while task := broker.dequeue():
        found += [payload.decode() for _, payload in task]
    return found


@pytest.mark.django_db
def test_lanes_are_taken_in_order_and_others_left_alone(server: RedisServer) -> None:
    put("main", "background", "recipes")
    assert taken(broker_of("recipes", "main")) == ["recipes", "main"]
    assert get_broker(queue_of("background")).queue_size() == 1


@pytest.mark.django_db
def test_no_lane_starves_another(server: RedisServer) -> None:
    put(*["recipes"] * 20, "main", "webhooks")
    first = taken(broker_of("recipes", "main", "webhooks"))[:6]
    assert {"main", "webhooks"} <= set(first)


@pytest.mark.django_db
def test_a_redis_that_is_away_delays_and_raises_nothing(server: RedisServer) -> None:
    broker = broker_of("main")
    server.kill()
    assert (broker.ping(), broker.dequeue(), broker.queue_size(), broker.enqueue("lost")) == (
        False,
        None,
        0,
        0,
    )
    assert wake_workers("tasks_app.jobs.worker.drain") == 1
    server.start()
    assert (broker.ping(), broker.enqueue("here")) == (True, 1)
    assert taken(broker) == ["here"]


@pytest.mark.django_db
def test_enough_wake_ups_are_enough(server: RedisServer) -> None:
    assert [wake_workers("tasks_app.jobs.worker.drain", 5) for _ in range(3)] == [5, 3, 0]


@pytest.mark.parametrize("address", ["rabbit://here", "redis"])
def test_what_is_no_address_is_refused_at_the_start(address: str) -> None:
    command = ["-c", "import django; django.setup()"]
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", "FLIGHTDECK_QUEUE": address}
    ran = subprocess.run([sys.executable, *command], env=env, capture_output=True, check=False)
    assert ran.returncode != 0
    assert b"FLIGHTDECK_QUEUE" in ran.stderr


def jobs_end(bench: Bench, count: int) -> None:
    jobs = [bench.start(inputs={}) for _ in range(count)]
    ids = [job.pk for job in jobs]
    until(
        lambda: Job.objects.filter(pk__in=ids, status="COMPLETED").count() == count,
        "the jobs end",
    )


def test_workers_on_redis_and_its_death(
    server: RedisServer, committed_db: Database, processes: ProcessGroup, bench: Bench
) -> None:
    """Jobs in both lanes end; Redis dies with what it held, comes back, and everything goes on by itself; so
    it does after the death of any process of the cluster; nothing is left when it stops."""
    late = {"name": "none", "hours": 0.000001, "late": "continue"}
    bench.recipe(
        {"id": "a", "action": "wait_for_event", "inputs": late},
        {"id": "b", "action": "wait_for_event", "inputs": late, "lane": "background", "after": ["a"]},
    )
    worker = Worker(processes, env={"FLIGHTDECK_QUEUE": server.url})
    worker.started()
    jobs_end(bench, 3)
    assert all(lanes_served()[lane] for lane in WorkerLane)

    server.kill()
    waiting = bench.start(inputs={})
    server.start()
    until(lambda: Job.objects.get(pk=waiting.pk).status == "COMPLETED", "what was lost is made up for")

    for place in (0, worker.workers, worker.workers + 1):
        victim = worker.started()[place]
        victim.kill()
        until(lambda victim=victim: worker.members() and victim not in worker.members(), "it is replaced")
        jobs_end(bench, 1)
    everybody = worker.everybody()
    worker.main.terminate()
    assert worker.exit_code() == 0
    gone(everybody)
    assert settings.QUEUE == "postgres", "only the worker was told"
