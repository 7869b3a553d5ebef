"""Reading WorkflowEvents by id without missing one: ids are given before commits, so a lower one may become
visible after a higher one.

A writer holds its lock on the table from before it takes an id until its commit is visible. So whoever is
seen to hold none, after a head of ids was read, has made visible every id up to that head that it ever will.
Nobody waits for a reader, and only transactions that write events hold readers back (decision 0020).
"""

from __future__ import annotations

import threading
import time
import uuid

from django.db import connection

_TRIES, _PAUSE_S = 5, 0.01
_MOST_PENDING = 60
# One statement: its snapshot is older than its look at the locks. Our own rows are visible to ourselves.
_LOOK = """
select (select coalesce(max(id), 0) from tasks_app_workflowevent),
       array(select l.virtualtransaction || '.' || l.pid from pg_locks l
              where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.pid <> pg_backend_pid()
                and l.relation = 'tasks_app_workflowevent'::regclass
                and l.database = (select oid from pg_database where datname = current_database()))
"""
# What was written before the oldest writer began; ten seconds for clocks that differ.
_OLDER = """
select coalesce(max(e.id), 0) from tasks_app_workflowevent e
 where e.job_id = %s and e.at < (
   select min(a.xact_start) - interval '10 seconds' from pg_stat_activity a join pg_locks l using (pid)
    where l.locktype = 'relation' and l.mode = 'RowExclusiveLock'
      and l.relation = 'tasks_app_workflowevent'::regclass and a.datname = current_database())
"""


class Horizon:
    """How far events may be read by id. Looking again later moves it on; one may be shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[tuple[int, set[str]]] = []
        self._settled = 0

    def look(self) -> tuple[int, int]:
        """(every id up to this one is settled: visible from now on, or never; the highest id seen)."""
        head, writers = _look()
        with self._lock:
            if len(self._pending) < _MOST_PENDING:
                self._pending.append((head, writers))
            left = [(upto, still & writers) for upto, still in self._pending]
            self._settled = max([self._settled, *(upto for upto, still in left if not still)])
            self._pending = [(upto, still) for upto, still in left if still]
            return self._settled, head


def events_settled(job_id: uuid.UUID) -> tuple[int, bool]:
    """(up to which id the job's events may be read; whether that is everything committed before the call).

    Waits for writers some 50 ms; where one takes longer, it is up to what was written before that one began.
    """
    horizon = Horizon()
    settled, wanted = horizon.look()
    for _ in range(_TRIES):
        if settled >= wanted:
            return settled, True
        time.sleep(_PAUSE_S)
        settled, _head = horizon.look()
    if settled >= wanted:
        return settled, True
    with connection.cursor() as cursor:
        cursor.execute(_OLDER, [job_id])
        return max(settled, int(cursor.fetchone()[0])), False


def _look() -> tuple[int, set[str]]:
    with connection.cursor() as cursor:
        cursor.execute(_LOOK)
        head, writers = cursor.fetchone()
    return int(head), set(writers)
