"""Locks that the database holds for a connection: a killed holder's connection gives them back."""

from __future__ import annotations

from django.db import InterfaceError, OperationalError, connection


def session_lock(key: int) -> bool:
    """Take the lock for this thread's connection; False while another connection holds it."""
    with connection.cursor() as cursor:
        cursor.execute("select pg_try_advisory_lock(%s)", [key])
        return bool(cursor.fetchone()[0])


def session_unlock(key: int) -> None:
    """Give the lock back, whatever has become of the connection."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("select pg_advisory_unlock(%s)", [key])
    except (OperationalError, InterfaceError):
        connection.close()  # which gives it back too
