"""What a test itself writes through the ORM, it writes as whoever owns the database: most of it is refused to
the application's role, as which the product writes. And the server's clock, where the owner's functions ask
for it, is the one that a test put in the place of ours.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from django.db import connection

from tasks_app import clock
from tasks_app.lifecycle.verify import entity_models

_ROOT = Path(__file__).resolve().parent.parent
_TESTS, _ORM = str(_ROOT / "tests"), "/django/db/models/"
_USERS = str(_ROOT / "tasks_app/people/models.py")  # User.save() writes what a test saves
_VERBS = ("UPDATE ", "DELETE ", "INSERT ")
# Asked for by triggers and functions that compare with the present moment.
_TIMED = (
    "webhookdelivery",
    "securityevent",
    "tasks_app_reconciliation",
    "tasks_app_conflict",
    "_forget",
    "_escalate(",
)
_CLOCK = "select set_config('flightdeck.test_clock', %s, false)"
_INSTALL = """
create schema testing;
grant usage on schema testing to flightdeck_app;
create function testing.as_owner(p_statement text) returns setof bigint
language plpgsql security definer set search_path = public as $$
declare v_rows bigint;
begin
  if p_statement like '% RETURNING %' then  -- a key that the database makes
    return query execute 'with made as (' || p_statement || ')'
      ' select value::bigint from made, lateral jsonb_each_text(to_jsonb(made))';
  else
    execute p_statement;
    get diagnostics v_rows = row_count;
    return query select generate_series(1, v_rows);  -- as many as the statement wrote
  end if;
end $$;
grant execute on function testing.as_owner to flightdeck_app;
create or replace function public.fd_now() returns timestamptz language sql volatile as $$
  select coalesce(nullif(current_setting('flightdeck.test_clock', true), '')::timestamptz, clock_timestamp())
$$;
"""


_mode = threading.local()


@contextmanager
def as_the_product() -> Iterator[None]:
    """What the test writes in this block, it writes as the application's role."""
    with _as("product"):
        yield


@contextmanager
def as_the_owner() -> Iterator[None]:
    """What the product writes in this block, it writes as the owner."""
    with _as("owner"):
        yield


@contextmanager
def _as(who: str) -> Iterator[None]:
    before = getattr(_mode, "who", "")
    _mode.who = who
    try:
        yield
    finally:
        _mode.who = before


def any_column(entity: str) -> None:
    """Let moves of `entity` change any column until the test's transaction ends, for tests of how values of
    all kinds are written: the product changes fewer."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select testing.as_owner(format('create or replace function public.fd_moved_%%s() returns text[]"
            " language sql immutable as %%L', %s, format('select %%L::text[]', (select array_agg(attname)"
            " from pg_attribute where attrelid = %s::regclass and attnum > 0))))",
            [entity, entity_models()[entity]._meta.db_table],
        )


def owning_install(url: str) -> None:
    """In a migrated database, as its owner."""
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(_INSTALL)


def owning_follow(connection: Any, **_: Any) -> None:
    """Receiver of `connection_created`."""
    if _run not in connection.execute_wrappers:
        connection.execute_wrappers.append(_run)


def _run(execute: Callable[..., Any], statement: Any, params: Any, many: bool, context: Any) -> Any:
    if not isinstance(statement, str) or many:
        return execute(statement, params, many, context)
    if any(word in statement for word in _TIMED):
        moment = clock.frozen()
        execute(_CLOCK, [moment.isoformat() if moment else ""], False, context)
    if statement.startswith(_VERBS) and _owns(made=" RETURNING " in statement):
        whole = context["cursor"].cursor.mogrify(statement, params or ())
        return execute("select testing.as_owner(%s)", [whole], False, context)
    return execute(statement, params, many, context)


def _owns(*, made: bool) -> bool:
    """Whether the owner does it; what a test adds under a key that the database makes, it may itself."""
    who = getattr(_mode, "who", "")
    return who == "owner" or (who != "product" and not made and _of_a_test())


def _of_a_test() -> bool:
    """Whether a test's own line asked the ORM for it: the innermost line of ours is a test's."""
    frame, through_orm = sys._getframe(3), False
    while frame is not None:
        name = frame.f_code.co_filename
        through_orm = through_orm or _ORM in name
        ours = name.startswith(str(_ROOT)) and "/.venv/" not in name and "site-packages" not in name
        if ours and name != _USERS:
            return through_orm and name.startswith(_TESTS)
        frame = frame.f_back  # type: ignore[assignment]
    return False
