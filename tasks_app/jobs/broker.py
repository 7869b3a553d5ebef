"""django-q2's broker on PostgreSQL: first come first served, taken in one statement, woken by what is put in.

Any number of clusters take from one queue (SKIP LOCKED). NOTIFY is sent at enqueue only, never in the commits
of the work itself (performance.md); one that is lost costs the second after which the queue is looked at.
"""

from __future__ import annotations

import time
from typing import Any

import psycopg
import structlog
from django.db import connections
from django_q.brokers.orm import ORM
from django_q.conf import Conf

log = structlog.get_logger(__name__)
_CHANNEL = "fd_queue"
_LOOK_AGAIN_S = 1.0  # the pusher looks at its stop event as often
_DATABASE_AWAY_S = 0.5
# One round trip and one commit, which waits for no disk where it is nobody's but ours: a wake-up that a crash
# of the server loses costs a moment.
_PUT = """
with put as (insert into django_q_ormq (key, payload, lock) values (%s, %s, now()) returning id)
select id, pg_notify(%s, %s), case when %s then set_config('synchronous_commit', 'off', true) end from put
"""
_TAKE = """
update django_q_ormq q set lock = now() + make_interval(secs => %s)
  from (select id from django_q_ormq where key = %s and lock <= now()
         order by id limit %s for update skip locked) due
 where q.id = due.id returning q.id, q.payload
"""


class PostgresBroker(ORM):
    """Tasks are rows of django-q2's own table; what a killed worker had in hand is due again after
    Q_CLUSTER["retry"] seconds."""

    def __init__(self, list_key: str | None = None) -> None:
        super().__init__(list_key=list_key)
        self._listening: psycopg.Connection[Any] | None = None

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self._listening = None

    def enqueue(self, task: str) -> int:
        """Put a task in and wake one pusher; both with the caller's commit."""
        self.get_connection()  # outside a transaction a stale one is closed
        connection, key = connections[Conf.ORM], self.list_key or Conf.CLUSTER_NAME
        with connection.cursor() as cursor:
            cursor.execute(_PUT, [key, task, _CHANNEL, key, not connection.in_atomic_block])
            return int(cursor.fetchone()[0])

    def dequeue(self) -> list[tuple[int, str]] | None:
        """The next tasks, in the order they came; None after a second without one.

        Never raises for a database that is away: the pusher would sleep ten seconds and end.
        """
        try:
            connection = self._listener()
            return self._take(connection) or self._wait(connection)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            log.warning("queue_database_away", error=str(error))
            self._hang_up()
            time.sleep(_DATABASE_AWAY_S)
            return None

    def _take(self, connection: psycopg.Connection[Any]) -> list[tuple[int, str]]:
        rows = connection.execute(_TAKE, (Conf.RETRY, self.list_key, Conf.BULK)).fetchall()
        return sorted(rows)

    def _wait(self, connection: psycopg.Connection[Any]) -> list[tuple[int, str]] | None:
        # The generator holds the connection's lock: it must have ended before anything is asked.
        heard = list(connection.notifies(timeout=_LOOK_AGAIN_S, stop_after=1))
        return (self._take(connection) or None) if heard else None

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
