"""Processes that race each other, and a gate that lets them meet at the operation's row."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tasks_app.notifications.models import Notification
from tasks_app.operations import publish
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller
from tests.database import Database
from tests.factories import make_seller
from tests.races.racer import EFFECT, Act, count_effect, race, ready
from tests.support import PATIENCE_S, until

SECRET = "the-webhook-secret-of-the-tests-1234567890"
MOST = 4
_WAITING = (
    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
)


@pytest.fixture(scope="session")
def barriers() -> Mapping[int, Barrier]:
    """Where racers wait for each other, by how many they are."""
    spawn = multiprocessing.get_context("spawn")
    return {parties: spawn.Barrier(parties) for parties in range(1, MOST + 1)}


@pytest.fixture(scope="session")
def pool(django_db_setup: Database, barriers: Mapping[int, Barrier]) -> Iterator[ProcessPoolExecutor]:
    """As many processes as ever race, started once."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(MOST, mp_context=spawn, initializer=ready, initargs=(barriers,)) as started:
        yield started


class Races:
    """Lets processes do things to the operations of one test's database."""

    def __init__(
        self, pool: ProcessPoolExecutor, barriers: Mapping[int, Barrier], database: Database
    ) -> None:
        self._pool, self._barriers = pool, barriers
        self._url, self._owner = database.urls.app, database.urls.owner

    def at_once(self, *racers: Sequence[Act]) -> list[list[str]]:
        """Each racer's acts, the n-th of all at the same moment; what each came to."""
        self._barriers[len(racers)].reset()  # one that broke in another test stays broken
        out = [self._pool.submit(race, self._url, len(racers), acts) for acts in racers]
        return [one.result(4 * PATIENCE_S) for one in out]

    def begin(self, act: Act) -> Future[list[str]]:
        return self._pool.submit(race, self._url, 1, [act])

    def meeting(self, operation: Operation, *acts: Act) -> list[str]:
        """All acts are under way when the first has its effect: each waits for the operation's row, in the
        order given, and the row is let go."""
        with self.held(operation) as waiting:
            out = []
            for number, act in enumerate(acts, start=1):
                out.append(self.begin(act))
                until(lambda number=number: waiting() == number, f"{number} wait for the row")
        return [one.result(PATIENCE_S)[0] for one in out]

    @contextmanager
    def held(self, operation: Operation) -> Iterator[Callable[[], int]]:
        """The operation's row is somebody's; how many wait for a lock."""
        row = sql.SQL("select id from tasks_app_operation where id = {} for update")
        with self.holding(row.format(operation.pk)) as waiting:
            yield waiting

    @contextmanager
    def holding(self, statement: sql.Composed) -> Iterator[Callable[[], int]]:
        """Somebody is in a transaction after this statement; how many wait for a lock."""
        with psycopg.connect(self._owner) as holder, psycopg.connect(self._url, autocommit=True) as watcher:
            holder.execute(statement)

            def waiting() -> int:
                row = watcher.execute(_WAITING).fetchone()
                return int(row[0]) if row else 0

            yield waiting
            holder.rollback()


@pytest.fixture
def races(
    pool: ProcessPoolExecutor, barriers: Mapping[int, Barrier], committed_db: Database, monkeypatch: Any
) -> Races:
    monkeypatch.setattr(publish, "_listeners", [*publish._listeners, count_effect])
    return Races(pool, barriers, committed_db)


@pytest.fixture
def norrland(committed_db: Database) -> Seller:
    """A seller that signs its webhooks with HMAC."""
    return make_seller(webhook_mode="hmac", webhook_secret=SECRET)


def effects(operation: Operation) -> int:
    """How often the operation's end had its effects."""
    return Notification.objects.filter(kind=EFFECT, subject_id=operation.pk).count()


def outcomes(operation: Operation) -> list[str]:
    """What was made of everything that was seen of it, in alphabetical order."""
    return sorted(operation.observations.values_list("outcome", flat=True))
