"""Outside debug an installation without care stops at its start, with one sentence that says what to set."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import OperationalError
from psycopg import sql

from config import edge, postgres
from tasks_app.field_keys import FieldKey
from tests.commands.running import ROOT, Ran, run
from tests.config.test_strangers import Site, asker
from tests.database import Database
from tests.support import PATIENCE_S

pytestmark = pytest.mark.executed  # it is about what loads, and from what

WAYS_TO_SERVE = {
    "config.web": ["-m", "config.web", "--port", "1"],
    "uvicorn": ["-m", "uvicorn", "config.asgi:application", "--no-proxy-headers", "--port", "1"],
    "runserver": ["manage.py", "runserver", "--noreload", "127.0.0.1:1"],
}


def web(way: str = "config.web") -> Ran:
    """The web process, which is not to come as far as serving."""
    command = [sys.executable, *WAYS_TO_SERVE[way]]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return Ran(code=ended.returncode, out=ended.stdout, err=ended.stderr)


def changed(database: Database, name: str) -> dict[str, str]:
    """What somebody set without care."""
    urls, app = database.urls, postgres.APP_ROLE
    return {
        "only DATABASE_URL": {"DATABASE_URL": urls.owner, "MIGRATE_DATABASE_URL": ""},
        "the same role twice": {"DATABASE_URL": urls.owner, "FLIGHTDECK_DB_ROLE": postgres.OWNER_ROLE},
        "two addresses of one role": {
            "DATABASE_URL": f"{urls.owner}&application_name=app",
            "FLIGHTDECK_DB_ROLE": postgres.OWNER_ROLE,
        },
        "another name": {"FLIGHTDECK_DB_ROLE": "somebody"},
        "other keys": {"FLIGHTDECK_FIELD_KEYS": f"not-the-one-that-is-kept-there-of-{app}"},
    }[name]


SAYS = {
    "only DATABASE_URL": "MIGRATE_DATABASE_URL",
    "the same role twice": "MIGRATE_DATABASE_URL",
    "two addresses of one role": "both connect as",
    "another name": "FLIGHTDECK_DB_ROLE says somebody",
    "other keys": "FLIGHTDECK_FIELD_KEYS",
}


# One of the database and one of the keys.
_EVERYWHERE = ("only DATABASE_URL", "other keys")


@pytest.mark.parametrize("name", SAYS)
def test_no_worker_starts(committed_db: Database, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if name == "other keys":
        assert run("sweep").code == 0, "as it should be: it starts, and its key is kept"
    for variable, value in changed(committed_db, name).items():
        monkeypatch.setenv(variable, value)
    _stopped_by(name, run("worker"))
    if name == "only DATABASE_URL":
        monkeypatch.setenv("FLIGHTDECK_DEBUG", "1")
        assert run("sweep").code == 0, "developers may"


@pytest.mark.parametrize("name", _EVERYWHERE)
def test_web_and_the_check_before_a_deployment_say_the_same(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """All three ask the same function what is lacking."""
    if name == "other keys":
        assert run("sweep").code == 0
    for variable, value in changed(committed_db, name).items():
        monkeypatch.setenv(variable, value)

    _stopped_by(name, web())
    checked = run("check", "--deploy")
    assert checked.code == 1
    assert "installation.E001" in checked.err
    assert SAYS[name] in checked.err
    if name != "other keys":
        migrated = run("migrate")
        assert migrated.code == 1
        assert SAYS[name] in migrated.err


def test_no_process_works_on_a_database_of_other_migration_files(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(committed_db.urls.owner, autocommit=True) as owner:
        owner.execute("comment on table django_migrations is 'of other files'")
    monkeypatch.setenv("FLIGHTDECK_DEBUG", "1")
    for ended in (run("sweep"), run("migrate"), web()):
        assert ended.code not in (0, -9)
        assert "make demo-reset" in ended.err
        assert "Traceback" not in ended.err


def _stopped_by(name: str, ended: Ran) -> None:
    assert ended.code not in (0, -9)
    assert SAYS[name] in ended.err
    assert "Traceback" not in ended.err
    assert len(ended.err.strip().splitlines()) == 1


@pytest.mark.deep
@pytest.mark.parametrize("command", ["changepassword", "shell", "loaddata", "flush", "qinfo"])
def test_no_command_of_a_library_works_where_something_is_lacking(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for variable, value in changed(committed_db, "only DATABASE_URL").items():
        monkeypatch.setenv(variable, value)
    _stopped_by("only DATABASE_URL", run(command))
    assert run(command, "--help").code == 0


@pytest.mark.deep
@pytest.mark.parametrize("way", ["uvicorn", "runserver"])
def test_whatever_serves_it_stops_where_something_is_lacking(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    for variable, value in changed(committed_db, "only DATABASE_URL").items():
        monkeypatch.setenv(variable, value)
    served = web(way)
    assert served.code not in (0, -9)
    assert SAYS["only DATABASE_URL"] in served.err


@pytest.mark.deep
def test_no_process_but_the_owners_commands_works_as_the_owner(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLIGHTDECK_DB_LOGIN", "owner")
    for ended in (*map(run, ("worker", "sweep", "reconcile")), web()):
        assert ended.code not in (0, -9)
        assert "FLIGHTDECK_DB_LOGIN is owner" in ended.err
    assert run("migrate", "-v", "0").code == 0


@pytest.mark.deep
def test_what_is_lacking_is_looked_for_again_where_the_database_was_away(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = [OperationalError("away"), OperationalError("away"), []]
    ended: list[int] = []

    def lacks() -> list[str]:
        answer = told.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    monkeypatch.setattr(edge, "start_lacks", lacks)
    monkeypatch.setattr(edge, "_LOOKED_EVERY_S", 0)
    monkeypatch.setattr(edge.os, "kill", lambda _pid, number: ended.append(number))

    async def asked(times: int) -> list[int]:
        ask = asker(edge.WholeInstallation(Site()))
        return [(await ask("/admin/"))[0] for _ in range(times)]

    assert asyncio.run(asked(4)) == [503, 503, 200, 200]
    assert ended == []
    told[:] = [OperationalError("away"), ["It lacks something."], ["It lacks something."]]
    assert asyncio.run(asked(2)) == [503, 503]
    assert ended == [signal.SIGTERM]


def test_a_role_that_is_not_there_stops_the_migration(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = committed_db.urls.app.replace(postgres.APP_ROLE, "nobody_made_it", 1)
    monkeypatch.setenv("DATABASE_URL", app)
    monkeypatch.setenv("FLIGHTDECK_DB_ROLE", "nobody_made_it")
    ran = run("migrate")
    assert ran.code == 1
    assert "The database has no role nobody_made_it" in ran.err


def test_a_member_of_the_owner_is_as_good_as_the_owner(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(committed_db.urls.owner) as owner:
        owner.execute(
            sql.SQL("grant create on schema public to {}").format(sql.Identifier(postgres.APP_ROLE))
        )
    ran = run("sweep")
    assert ran.code == 2
    assert "may make some" in ran.err


@pytest.mark.deep
def test_a_second_machine_with_keys_of_its_own_says_so(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each machine keeps in its var/ what the environment does not give."""
    for machine in ("one", "two"):
        (tmp_path / machine).mkdir()
    monkeypatch.setenv("FLIGHTDECK_VAR", str(tmp_path / "one"))
    assert run("sweep").code == 0
    assert FieldKey.objects.count() == 1
    monkeypatch.setenv("FLIGHTDECK_VAR", str(tmp_path / "two"))
    ran = run("worker")
    assert ran.code == 2
    assert "FLIGHTDECK_SECRET_KEY and FLIGHTDECK_FIELD_KEYS" in ran.err
    assert FieldKey.objects.count() == 1
    for name in ("secret_key", "field_key"):
        kept = (tmp_path / "one" / name).read_text()
        assert kept not in ran.out + ran.err
        monkeypatch.setenv({"secret_key": "FLIGHTDECK_SECRET_KEY"}.get(name, "FLIGHTDECK_FIELD_KEYS"), kept)
    assert run("sweep").code == 0, os.environ["FLIGHTDECK_VAR"]
