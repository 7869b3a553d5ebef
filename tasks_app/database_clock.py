"""The clock of leases: the database's own, wherever they are written and read. Hosts' clocks differ, and a
lease that one host renews is judged by another. In tests it is the clock that stands in the place of ours.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import DateTimeField, Func, Value
from django.db.models.expressions import Combinable

from tasks_app import clock

# In a statement of our own, with clock.frozen() as the parameter `frozen`.
DATABASE_NOW = "coalesce(%(frozen)s::timestamptz, statement_timestamp())"


def database_now() -> Combinable:
    """The present moment, as an expression."""
    frozen = clock.frozen()
    if frozen is not None:
        return Value(frozen, output_field=DateTimeField())
    return Func(function="statement_timestamp", output_field=DateTimeField())


def database_in(seconds: float) -> Any:
    """The moment so many seconds from now, as an expression."""
    return database_now() + Value(timedelta(seconds=seconds))


def database_moment() -> datetime:
    """The present moment, read."""
    with connection.cursor() as cursor:
        cursor.execute(f"select {DATABASE_NOW}", {"frozen": clock.frozen()})
        moment: datetime = cursor.fetchone()[0]
    return moment
