"""The database goes away in the middle of a booking and comes back: the workers go on by themselves."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.db import connections
from pytest_django.plugin import DjangoDbBlocker

from config import postgres
from config.postgres import engine
from config.processes import ProcessGroup
from tasks_app.jobs.models import Job
from tasks_app.lanes import WorkerLane
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.sweep import sweep_runs
from tests import scratch
from tests.database import Database, erase_project, migrated_project, point_django_at
from tests.fake_seller.driver import FakeSeller
from tests.jobs.cluster import LASTING, Worker, leases_over, works
from tests.races.bookings import booking
from tests.rounds import sample_cases
from tests.support import PATIENCE_S, until

# Commits must survive the server's death, not the machine's.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "256MB"}


class Server:
    """A database server of this test alone, that can be killed."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._held = [postgres.start(base, settings=SETTINGS)]
        self.urls = self._held[0].urls

    def kill(self) -> None:
        """SIGKILL to the postmaster; its other processes find that out and end."""
        main = engine.postmaster(self._held[0].data)
        assert main is not None
        everybody = [main, *main.children(recursive=True)]
        main.kill()
        psutil.wait_procs(everybody, timeout=PATIENCE_S)

    def shut_down(self) -> None:
        """As for an upgrade: whoever is connected is cut off."""
        engine.stop(self._held[0].data)

    def start(self) -> None:
        self._held.append(postgres.start(self._base, settings=SETTINGS))

    def close(self) -> None:
        for hold in self._held:
            hold.stop()


@pytest.fixture
def server(
    django_db_setup: Database, django_db_blocker: DjangoDbBlocker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    with ExitStack() as kept:
        base = scratch.directory()
        kept.callback(lambda: erase_project(base) or shutil.rmtree(base))
        with django_db_blocker.unblock():
            migrated_project(base)
            started = Server(base)
            kept.callback(started.close)
            database = Database(name=postgres.DATABASE, urls=started.urls)
            for name, value in database.env.items():
                monkeypatch.setenv(name, value)
            kept.callback(point_django_at, django_db_setup.urls.app)
            point_django_at(started.urls.app)
            yield started
            connections.close_all()


def asked(seller: FakeSeller, tool: str) -> int:
    return len(seller.requests(tool))


def again(server: Server) -> None:
    """Back it comes; this process's own connection went with it. Whatever was in hand is anybody's."""
    server.start()
    connections.close_all()
    leases_over()


def test_killed_and_restarted_in_mid_run(server: Server, tmp_path: Path) -> None:
    log = io.StringIO()
    with FakeSeller(tmp_path, mode="submitted") as seller, ProcessGroup(output=log) as group:
        sale = booking(seller)
        seller.fault("create_media_buy", "hang")
        seller.fault("get_task_status", "status", times=0, status="working")
        worker = Worker(group, LASTING)
        until(lambda: asked(seller, "create_media_buy"), "the purchase is out")

        server.kill()
        seller.release()
        until(lambda: "call_failed" in log.getvalue(), "the answer finds no database")
        again(server)
        # The same request is made again, and the seller knows it.
        until(lambda: asked(seller, "create_media_buy") > 1, "it is sent again")
        until(lambda: asked(seller, "get_task_status") > 1, "the seller is polled")
        server.shut_down()
        again(server)
        polls = asked(seller, "get_task_status")
        until(lambda: asked(seller, "get_task_status") > polls + 1, "it is polled on")
        seller.clear()
        until(lambda: _ended(sale.job), "the job ends")

        assert worker.main.is_running(), "the same worker all the time"
        assert sale.settled_once().status == S.COMPLETED


def test_every_lane_goes_on_after_a_restart(server: Server) -> None:
    """Clusters of some lanes each; the database is killed, and later stopped as for an upgrade."""
    with ProcessGroup(output=io.StringIO()) as group:
        workers = [
            Worker(group, lanes=["recipes", "background"]),
            Worker(group, lanes=["polling", "webhooks", "main"], name="others"),
        ]
        for end in sample_cases((server.kill, server.shut_down), most=1):
            for lane in WorkerLane:
                works(lane=lane)
            end()
            again(server)
            for lane in WorkerLane:
                works(lane=lane)
            until(sweep_runs, "somebody sweeps")
        assert all(worker.main.is_running() for worker in workers), "the same workers all the time"


def _ended(job: Any) -> bool:
    return Job.objects.get(pk=job.pk).ended_at is not None
