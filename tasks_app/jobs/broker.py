"""django-q2's broker on PostgreSQL: first come first served, taken in one statement, woken by what is put in.

Any number of clusters take from the lanes they serve (SKIP LOCKED). NOTIFY is sent at enqueue only, never in
the commits of the work itself, which would wait for each other; one that is lost costs the second after which
the queue is looked at.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import psycopg
import structlog
from django.db import connections
from django_q.brokers.orm import ORM
from django_q.conf import Conf

from tasks_app.database_connection import connection_checked
from tasks_app.jobs.serving import Serving
from tasks_app.lanes import queues_of

log = structlog.get_logger(__name__)
_CHANNEL = "fd_queue"
_LOOK_AGAIN_S = 1.0  # the pusher looks at its stop event as often
_DATABASE_AWAY_S = 0.5
# One round trip and one commit, which waits for no disk where it is nobody's but ours: a wake-up that a crash
# of the server loses costs a moment.
_PUT = """
with put as (insert into django_q_ormq (key, payload, lock)
             select %(key)s, %(task)s, now() from generate_series(1, {wanted}) returning id)
select id, pg_notify(%(channel)s, %(key)s),
       case when %(alone)s then set_config('synchronous_commit', 'off', true) end from put
"""
_PUT_ONE = _PUT.format(wanted="1")
# Locked ones were taken by a worker, maybe one that was killed: only those still waiting count.
_PUT_UP_TO = _PUT.format(
    wanted="""least(%(wanted)s, %(enough)s - (
        select count(*)::int from django_q_ormq where key = %(key)s and lock <= now()))"""
)
# By the lanes' order; what has waited a second goes first whatever its lane, so that none starves.
_TAKE = """
update django_q_ormq q set lock = now() + make_interval(secs => %(retry)s)
  from (select id from django_q_ormq where key = any(%(queues)s) and lock <= now()
         order by case when lock > now() - interval '1 second'
                       then array_position(%(queues)s, key::text) else 0 end, id
         limit %(bulk)s for update skip locked) due
 where q.id = due.id returning q.id, q.payload
"""


class PostgresBroker(ORM):
    """Tasks are rows of django-q2's own table; what a killed worker had in hand is due again after
    Q_CLUSTER["retry"] seconds. It takes from its own queue, or from those of the lanes it serves."""

    def __init__(self, list_key: str | None = None) -> None:
        super().__init__(list_key=list_key)
        self._serving: Serving | None = None
        self._listening: psycopg.Connection[Any] | None = None
        self._queues = [self.list_key]
        self.lanes: tuple[str, ...] = ()

    def __getstate__(self) -> Any:
        return super().__getstate__(), self.lanes

    def __setstate__(self, state: Any) -> None:
        stock, lanes = state
        super().__setstate__(stock)
        self._serving, self._listening, self._queues, self.lanes = None, None, [self.list_key], ()
        if lanes:
            self.serve(lanes)

    def serve(self, lanes: Sequence[str]) -> None:
        """Take from these lanes, in this order of preference, and say so."""
        self.lanes, self._queues, self._serving = tuple(lanes), queues_of(lanes), Serving(lanes)

    def enqueue(self, task: str) -> int:
        """Put a task in and wake who waits for its lane; both with the caller's commit."""
        return self._put(_PUT_ONE, task=task)[0]

    def enqueue_up_to(self, task: str, wanted: int, *, enough: int) -> int:
        """The same so many times, unless `enough` wait in its lane; answers how often."""
        return len(self._put(_PUT_UP_TO, task=task, wanted=wanted, enough=enough))

    def _put(self, statement: str, **which: Any) -> list[int]:
        connection_checked(Conf.ORM)
        connection = connections[Conf.ORM]
        told = {"key": self.list_key, "channel": _CHANNEL, "alone": not connection.in_atomic_block}
        with connection.cursor() as cursor:
            cursor.execute(statement, {**told, **which})
            return [int(row[0]) for row in cursor.fetchall()]

    def dequeue(self) -> list[tuple[int, str]] | None:
        """The next tasks, in the order they came; None after a second without one.

        Never raises for a database that is away: the pusher would sleep ten seconds and end.
        """
        if self._serving is not None:
            self._serving.look()
        try:
            connection = self._listener()
            return self._take(connection) or self._wait(connection)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            log.warning("queue_database_away", error=str(error))
            self._hang_up()
            time.sleep(_DATABASE_AWAY_S)
            return None

    def _take(self, connection: psycopg.Connection[Any]) -> list[tuple[int, str]]:
        which = {"retry": Conf.RETRY, "queues": self._queues, "bulk": Conf.BULK}
        return sorted(connection.execute(_TAKE, which).fetchall())

    def _wait(self, connection: psycopg.Connection[Any]) -> list[tuple[int, str]] | None:
        # The generator holds the connection's lock: it must have ended before anything is asked.
        with closing(connection.notifies(timeout=_LOOK_AGAIN_S)) as heard:
            woken = any(note.payload in self._queues for note in heard)
        return (self._take(connection) or None) if woken else None

    def _listener(self) -> psycopg.Connection[Any]:
        if self._listening is None or self._listening.closed:
            wrapper = connections[Conf.ORM]
            settings = {**wrapper.get_connection_params(), "application_name": "flightdeck queue"}
            for name in ("cursor_factory", "context", "pool"):
                settings.pop(name, None)
            self._listening = psycopg.connect(**settings, autocommit=True)
            self._listening.execute("set synchronous_commit = off")  # a lost take is a second wake-up
            self._listening.execute(f"listen {_CHANNEL}")
        return self._listening

    def _hang_up(self) -> None:
        if self._listening is not None:
            self._listening.close()
        self._listening = None

    def info(self) -> str:
        """What the cluster's own pages call it."""
        return "PostgreSQL, LISTEN/NOTIFY"
