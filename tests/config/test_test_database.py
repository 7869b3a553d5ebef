"""The fixtures that every other test stands on: who is connected, and what a test leaves behind."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import psycopg
import pytest
from django.db import connection
from hypothesis import HealthCheck, settings
from psycopg import errors

from config.processes import ProcessGroup
from tasks_app.people.models import Team
from tests.database import Database, TestServer
from tests.support import until

pytestmark = pytest.mark.deep

SAY_NAME = """
import os, psycopg
with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
    connection.execute("insert into tasks_app_team (id, name) values (gen_random_uuid(), 'child')")
"""


_LIMITS = ("lock_timeout", "transaction_timeout", "idle_in_transaction_session_timeout")
_OF_THE_ROLE = (
    "select rolconfig @> array['lock_timeout=5s', 'transaction_timeout=120s',"
    " 'idle_in_transaction_session_timeout=60s'] from pg_roles where rolname = 'flightdeck_app'"
)


def current() -> tuple[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("select current_user, current_database()")
        return cursor.fetchone()


def labels() -> set[str]:
    return set(Team.objects.values_list("name", flat=True))


@pytest.mark.parametrize("time", ["first", "again"])
def test_db_is_the_application_role_and_rolls_back(db: None, time: str) -> None:
    user, name = current()
    assert user == "flightdeck_app"
    assert psycopg.conninfo.conninfo_to_dict(os.environ["DATABASE_URL"])["dbname"] == name
    assert "rolled back" not in labels()
    Team.objects.create(name="rolled back")


@pytest.mark.parametrize("time", ["first", "again"])
def test_a_committed_database_is_fresh_each_time(committed_db: Database, time: str) -> None:
    assert current() == ("flightdeck_app", committed_db.name)
    assert "committed" not in labels()
    Team.objects.create(name="committed")
    with psycopg.connect(committed_db.urls.app) as other:
        found = other.execute("select name from tasks_app_team where name = 'committed'").fetchall()
    assert found == [("committed",)]


def test_whatever_database_a_test_works_on_nothing_hurries_it(
    django_db_setup: Database, database_server: TestServer, template_database: Database
) -> None:
    """A lock is waited for as everything is; a test that is one transaction takes as long as it does."""
    one_more = database_server.create(template=template_database)
    for database in (django_db_setup, one_more):
        with psycopg.connect(database.urls.app) as app:
            told = [app.execute(f"show {name}").fetchone() for name in _LIMITS]  # type: ignore[arg-type]
        assert told == [("1min",), ("0",), ("0",)]
    with psycopg.connect(one_more.urls.owner) as owner:
        assert owner.execute(_OF_THE_ROLE).fetchone() == (True,), "the product's are as ever"
    database_server.drop(one_more.name)


def test_child_processes_work_on_the_committed_database(
    committed_db: Database, processes: ProcessGroup
) -> None:
    processes.start("child", [sys.executable, "-c", SAY_NAME])
    until(lambda: "child" in processes.ended())
    assert processes.ended() == {"child": 0}
    assert "child" in labels()


def test_tests_own_no_table(db: None) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"]) as app, pytest.raises(errors.InsufficientPrivilege):
        app.execute("truncate tasks_app_team")
    with psycopg.connect(os.environ["MIGRATE_DATABASE_URL"]) as owner:
        assert owner.execute("select current_user").fetchone() == ("flightdeck_owner",)


@pytest.mark.rule
def test_no_drawn_example_is_timed() -> None:
    """A machine that is busy fails no test that draws its examples."""
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
    for path in sorted(Path(__file__).parents[1].rglob("test_*.py")):
        for named in re.findall(r"suppress_health_check=\[([^\]]*)\]", path.read_text()):
            assert "too_slow" in named, path
