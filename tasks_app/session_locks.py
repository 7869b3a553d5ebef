"""Locks that the database holds for a connection: a killed holder's connection gives them back."""

from __future__ import annotations

from django.db import InterfaceError, OperationalError, connection

_HOLDER = """
select l.pid from pg_locks l join pg_database d on d.oid = l.database
 where l.locktype = 'advisory' and l.objsubid = 1 and d.datname = current_database()
   and l.classid::bigint = %s and l.objid::bigint = %s and l.granted
"""


def session_lock(key: int) -> bool:
    """Take the lock for this thread's connection; False while another connection holds it."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_try_advisory_lock(%s)", [key])
        return bool(cursor.fetchone()[0])


def session_lock_holder(key: int) -> int | None:
    """The process of the database's whose connection holds the lock, if any does."""
    with connection.cursor() as cursor:
        cursor.execute(_HOLDER, [key >> 32, key & 0xFFFF_FFFF])
        found = cursor.fetchone()
    return None if found is None else int(found[0])


def session_end(pid: int) -> None:
    """Have the database give up a connection that we know to be lost, and what it holds: by itself it would
    learn of that late. `pid`: the database's process of it."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_terminate_backend(%s)", [pid])


def session_locked(key: int) -> bool:
    """Whether some connection to this database holds the lock."""
    return session_lock_holder(key) is not None


def session_unlock(key: int) -> None:
    """Give the lock back, whatever has become of the connection."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("select pg_advisory_unlock(%s)", [key])
    except (OperationalError, InterfaceError):
        connection.close()  # which gives it back too
