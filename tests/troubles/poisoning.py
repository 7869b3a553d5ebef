"""A row that cannot be written: a trigger refuses every change of it, as a full counter would; and what a
case is, of one such row and one that can be written."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import connection

from tasks_app.sellers.models import Seller
from tests.factories import make_seller

PAST = timedelta(seconds=1)
# A poisoned row's id, and whether the other one was handled.
Case = tuple[uuid.UUID, Callable[[], Any]]
# A kind of work, a module that does it, and how it is tried.
Tried = tuple[str, str, Callable[..., Case]]
_REFUSE = """
create function testing.refuse() returns trigger language plpgsql as $$
begin
  if to_jsonb(old) ->> tg_argv[0] = tg_argv[1] then
    raise exception 'poisoned' using errcode = 'numeric_value_out_of_range';
  end if;
  return new;
end $$
"""


def poison(table: str, row: uuid.UUID, column: str = "id") -> None:
    """From now on, until the test's end, whatever changes that row raises DataError."""
    with connection.cursor() as cursor:
        for statement in (
            _REFUSE,
            "grant execute on function testing.refuse to flightdeck_app",
            f"create trigger a_poison before update on {table} for each row"
            f" execute function testing.refuse('{column}', '{row}')",
        ):
            cursor.execute("select testing.as_owner(%s)", [statement])


def heal(table: str) -> None:
    """What changes the poisoned row goes well again."""
    with connection.cursor() as cursor:
        cursor.execute("select testing.as_owner(%s)", [f"drop trigger a_poison on {table}"])


def sellers() -> tuple[Seller, Seller]:
    return make_seller("Bad", slots=5), make_seller("Well", slots=5)
