"""The fixtures that every other test stands on: who is connected, and what a test leaves behind."""

from __future__ import annotations

import os
import sys

import psycopg
import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from psycopg import errors

from config.processes import ProcessGroup
from tests.database import Database
from tests.support import wait_until

SAY_NAME = """
import os, psycopg
with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
    connection.execute("insert into django_content_type (app_label, model) values ('child', 'row')")
"""


def current() -> tuple[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("select current_user, current_database()")
        return cursor.fetchone()


def labels() -> set[str]:
    return set(ContentType.objects.values_list("app_label", flat=True))


@pytest.mark.parametrize("time", ["first", "again"])
def test_db_is_the_application_role_and_rolls_back(db: None, time: str) -> None:
    user, name = current()
    assert user == "flightdeck_app"
    assert psycopg.conninfo.conninfo_to_dict(os.environ["DATABASE_URL"])["dbname"] == name
    assert "rolled back" not in labels()
    ContentType.objects.create(app_label="rolled back", model=time)


@pytest.mark.parametrize("time", ["first", "again"])
def test_a_committed_database_is_fresh_each_time(committed_db: Database, time: str) -> None:
    assert current() == ("flightdeck_app", committed_db.name)
    assert "committed" not in labels()
    ContentType.objects.create(app_label="committed", model=time)
    with psycopg.connect(committed_db.urls.app) as other:
        found = other.execute(
            "select model from django_content_type where app_label = 'committed'"
        ).fetchall()
    assert found == [(time,)]


def test_child_processes_work_on_the_committed_database(
    committed_db: Database, processes: ProcessGroup
) -> None:
    processes.start("child", [sys.executable, "-c", SAY_NAME])
    wait_until(lambda: "child" in processes.ended())
    assert processes.ended() == {"child": 0}
    assert "child" in labels()


def test_tests_own_no_table(db: None) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"]) as app, pytest.raises(errors.InsufficientPrivilege):
        app.execute("truncate django_content_type")
    with psycopg.connect(os.environ["MIGRATE_DATABASE_URL"]) as owner:
        assert owner.execute("select current_user").fetchone() == ("flightdeck_owner",)
