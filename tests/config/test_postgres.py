"""config.postgres: the embedded server, its roles, and what kills leave behind."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing
from functools import partial
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from config import postgres
from config.postgres import engine, roles
from config.postgres.addresses import address_file
from tests.ending import ending, line_of
from tests.support import PATIENCE_S, until

HOLDER = """
import sys
from pathlib import Path
from config import postgres
running = postgres.start(Path(sys.argv[1]))
print(int(running.started), flush=True)
sys.stdin.read()
running.stop()
"""


def hold(project: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    """Another supervisor: a process that opens the database and lets go when its input closes."""
    command = [sys.executable, "-c", HOLDER, str(project)]
    pipe = subprocess.PIPE
    return ending(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))


def started(holder: subprocess.Popen[str]) -> bool:
    """Did that process start the server (or attach)? Waits until it holds it."""
    return bool(int(line_of(holder.stdout)))


def release(holder: subprocess.Popen[str]) -> None:
    holder.communicate("", timeout=PATIENCE_S)
    assert holder.returncode == 0


def modes_above(path: Path) -> dict[Path, int]:
    return {part: part.stat().st_mode for part in path.resolve().parents}


def put(url: str, value: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("insert into note values (%s)", [value])


def notes(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [text for (text,) in connection.execute("select text from note").fetchall()]


def make_table(running: postgres.RunningPostgres) -> None:
    with psycopg.connect(running.urls.owner) as connection:
        connection.execute("create table note (text text)")
        connection.execute("grant insert on note to flightdeck_app")


def test_data_survive_a_stop_and_urls_stay(project: Path) -> None:
    with postgres.start(project) as running:
        make_table(running)
        put(running.urls.app, "first")
        before = running.urls
    assert engine.postmaster(running.data) is None
    with postgres.start(project) as running:
        assert running.urls == before == postgres.database_urls(project, {})
        assert notes(running.urls.app) == ["first"]


def test_who_makes_the_roles_at_the_same_time_waits(project: Path) -> None:
    """PostgreSQL refuses one of two that alter a role at once, and of two that make it."""
    with postgres.start(project) as running:
        passwords = running.address.passwords
        host = running.address.socket_dir

        def ensure(_number: int) -> None:
            with psycopg.connect(host=host, user="postgres", dbname="postgres", autocommit=True) as admin:
                for _ in range(10):
                    roles.ensure_roles(admin, passwords)

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(ensure, range(4))) == [None] * 4


def test_the_application_role_may_use_rows_and_nothing_else(project: Path) -> None:
    with postgres.start(project) as running:
        make_table(running)
        put(running.urls.app, "mine")
        for statement in (
            "truncate note",
            "drop table note",
            "alter table note disable trigger all",
            "create table other ()",
            "create schema other",
            "create role other",
            "set role flightdeck_owner",
            "alter role flightdeck_app superuser",
            "create database other",
            "copy note to program 'true'",
        ):
            connection = psycopg.connect(running.urls.app, autocommit=True)
            with closing(connection), pytest.raises(errors.InsufficientPrivilege):
                connection.execute(statement)
        assert notes(running.urls.app) == ["mine"]


def test_settings_of_the_application_role(project: Path) -> None:
    names = ("lock_timeout", "idle_in_transaction_session_timeout", "deadlock_timeout", "transaction_timeout")
    with postgres.start(project) as running, psycopg.connect(running.urls.app) as connection:
        found = [connection.execute(f"show {name}").fetchone() for name in names]
        own = connection.execute(
            "select unnest(setconfig) from pg_db_role_setting where setrole = current_user::regrole"
        ).fetchall()
    assert found == [("5s",), ("1min",), ("50ms",), ("2min",)]
    # Of a Unix socket the server itself shows 0.
    assert {one for (one,) in own} >= {
        "tcp_keepalives_idle=10s",
        "tcp_keepalives_interval=5s",
        "tcp_keepalives_count=4",
        "tcp_user_timeout=30s",
    }


def test_nobody_enters_without_a_password_or_over_the_network(project: Path) -> None:
    with postgres.start(project) as running:
        for role in (postgres.APP_ROLE, postgres.OWNER_ROLE):
            for password in ("", "password=wrong"):
                login = f"host={running.address.socket_dir} dbname=flightdeck user={role} {password}"
                with pytest.raises(psycopg.OperationalError):
                    psycopg.connect(login)
        with running.connect_admin() as admin:
            assert admin.execute("show listen_addresses").fetchone() == ("",)


def test_passwords_are_nowhere_but_in_the_private_address(project: Path) -> None:
    with postgres.start(project) as running:
        secrets = list(running.address.passwords.values())
        logs = "".join(path.read_text() for path in (running.data / "log").iterdir())
    assert not [secret for secret in secrets if secret in logs + repr(running)]
    assert address_file(running.data).stat().st_mode & 0o777 == 0o600
    assert running.data.stat().st_mode & 0o077 == 0


def test_values_of_a_failed_statement_are_not_logged(project: Path) -> None:
    with postgres.start(project) as running:
        make_table(running)
        with psycopg.connect(running.urls.owner) as connection:
            connection.execute("create unique index on note (text)")
        put(running.urls.app, "confidential")
        with psycopg.connect(running.urls.app) as connection, pytest.raises(errors.UniqueViolation):
            connection.execute("insert into note values ('confidential')")
    logs = "".join(path.read_text() for path in (running.data / "log").iterdir())
    assert "duplicate key" in logs
    assert "confidential" not in logs


def test_parallel_starts_give_one_server_and_the_last_one_out_stops_it(project: Path) -> None:
    with ExitStack() as begun:
        holders = [begun.enter_context(hold(project)) for _ in range(4)]
        assert sum(started(holder) for holder in holders) == 1
        data = postgres.data_dir(project)
        for holder in holders[:-1]:
            release(holder)
            assert engine.postmaster(data) is not None
        release(holders[-1])
        assert engine.postmaster(data) is None


def test_a_killed_supervisor_leaves_nothing_that_the_next_one_does_not_end(project: Path) -> None:
    with hold(project) as holder:
        assert started(holder)
        holder.kill()  # the server, which is below it, is not
        holder.wait()
    data = postgres.data_dir(project)
    assert engine.postmaster(data) is not None, "the server is detached"
    with postgres.start(project) as running:
        assert not running.started
    assert engine.postmaster(data) is None


def test_a_killed_server_is_started_again(project: Path) -> None:
    with postgres.start(project) as running:
        make_table(running)
        put(running.urls.app, "committed")
        connection = psycopg.connect(running.urls.app)
        process = engine.postmaster(running.data)
        assert process is not None
        process.kill()
        with postgres.start(project) as again:
            assert again.started
            assert notes(again.urls.app) == ["committed"]
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")


def test_a_pid_file_that_names_a_foreign_process_is_stale(project: Path) -> None:
    with postgres.start(project) as running:
        make_table(running)
        data, socket_dir = running.data, Path(running.address.socket_dir)
        stale = {
            path: path.read_text() for path in (data / "postmaster.pid", socket_dir / ".s.PGSQL.5432.lock")
        }
        process = engine.postmaster(data)
        assert process is not None
        process.kill()
        until(lambda: not engine._survivors(data), "the killed server's processes end")
    with ending(subprocess.Popen(["sleep", "3600"])) as foreign:
        for path, content in stale.items():
            path.write_text("\n".join([str(foreign.pid), *content.splitlines()[1:], ""]))
        with postgres.start(project) as running:
            assert running.started
            assert notes(running.urls.app) == []
        assert foreign.poll() is None, "the foreign process is not ours to end"


def test_a_server_of_another_container_is_left_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processes are not among ours; the files, and locks on them, are the same."""
    with postgres.start(project) as running:
        make_table(running)
        pid_file = running.data / "postmaster.pid"
        told = pid_file.read_text()
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(engine, "_serves", lambda process, data: False)
            elsewhere.setattr(engine, "GOING_S", 0.5)
            for act in (postgres.start, postgres.erase, partial(postgres.revive, environ={})):
                with pytest.raises(engine.PostgresError, match=r"container|in use"):
                    act(project)
        assert pid_file.read_text() == told
        assert notes(running.urls.app) == []
    with postgres.start(project) as again:
        assert again.started, "once it is stopped there, it is ours"


def test_a_server_that_is_just_gone_is_waited_for(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel lets go of an ended process's files after it has left its directory."""
    with postgres.start(project) as running:
        make_table(running)
    going = os.open(running.data.with_name("postgres.server"), os.O_RDWR)
    fcntl.flock(going, fcntl.LOCK_EX)
    locked, refused = engine.locked, threading.Event()

    def tried(handle: int) -> bool:
        got = locked(handle)
        if not got:
            refused.set()
        return got

    monkeypatch.setattr(engine, "locked", tried)
    monkeypatch.setattr(engine, "GOING_S", PATIENCE_S)
    with ThreadPoolExecutor() as beside:
        begun = beside.submit(postgres.start, project)
        assert refused.wait(PATIENCE_S), "the start has come to the lock"
        os.close(going)
        with begun.result() as again:
            assert notes(again.urls.app) == []


def test_nor_is_one_whose_holders_are_all_gone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed supervisors hold nothing any more; the server that they left still works."""
    with postgres.start(project) as running:
        fcntl.flock(running._hold, fcntl.LOCK_UN)
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(engine, "_serves", lambda process, data: False)
            elsewhere.setattr(engine, "GOING_S", 0.5)
            with pytest.raises(engine.PostgresError, match="another container"):
                postgres.erase(project)
        assert running.data.exists()


@pytest.mark.parametrize("content", ["", "not a number\n", "1"])
def test_a_pid_file_cut_short_is_stale(project: Path, content: str) -> None:
    postgres.start(project).stop()
    (postgres.data_dir(project) / "postmaster.pid").write_text(content)
    with postgres.start(project) as running:
        assert running.started


# Says why it does not start, and does not end when it is asked to.
STUCK = """#!/bin/sh
trap "" QUIT
echo "no room on the device"
exec sleep 3600
"""


def test_why_it_does_not_start_is_told_where_it_does_not_end_either(
    empty_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, program = empty_project / "data", empty_project / "postgres"
    data.mkdir()
    program.write_text(STUCK)
    program.chmod(0o755)
    monkeypatch.setattr(engine, "IMMEDIATE_STOP_S", 0.1)
    monkeypatch.setattr(engine, "START_S", 0.1)

    def answers() -> bool:
        return not until(lambda: "no room" in (data / "start.log").read_text(), "it tells why")

    with pytest.raises(engine.PostgresError, match="no room on the device"):
        engine.start(data, engine.account_for(data), empty_project, answers=answers)


def test_a_killed_initialisation_is_begun_anew(empty_project: Path) -> None:
    draft = postgres.data_dir(empty_project).with_name("postgres.new")
    draft.mkdir(parents=True)
    (draft / "PG_VERSION").write_text("18\n")
    with postgres.start(empty_project) as running, psycopg.connect(running.urls.app) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    assert not draft.exists()


@pytest.mark.parametrize("name", ["with space, comma and 'quote'", "long" * 30, 'double"quote'])
def test_any_path_will_do(empty_project: Path, name: str) -> None:
    base = empty_project / name
    base.mkdir()
    with postgres.start(base) as running, psycopg.connect(running.urls.app) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    assert postgres.erase(base)
    assert not Path(running.address.socket_dir).exists()


def test_no_directory_changes_its_permissions(empty_project: Path, private_project: Path) -> None:
    package = engine.binaries(engine.account_for(empty_project / "none"))
    for base in (empty_project, private_project):
        before = modes_above(base / "x") | modes_above(package)
        postgres.start(base).stop()
        assert modes_above(base / "x") | modes_above(package) == before


def test_erase_refuses_while_somebody_uses_the_database(project: Path) -> None:
    with postgres.start(project) as running:
        with pytest.raises(postgres.PostgresError, match="in use"):
            postgres.erase(project)
        assert running.data.exists()
    assert postgres.erase(project)
    assert not running.data.exists()
    assert not postgres.erase(project)


def test_opened_leaves_a_given_database_alone(empty_project: Path) -> None:
    with postgres.opened(empty_project, {"DATABASE_URL": "postgresql://app@db/x"}) as urls:
        assert urls.app == "postgresql://app@db/x"
    assert list(empty_project.iterdir()) == []


def test_a_failed_connection_gets_a_hint(project: Path) -> None:
    assert "make run" in postgres.connection_hint(project, {})
    assert postgres.connection_hint(project, {"DATABASE_URL": "postgresql://app@db/x"}) == ""
    with postgres.start(project):
        assert postgres.connection_hint(project, {}) == ""


if os.geteuid() == 0:  # what only root can meet: the server runs as another account

    def test_root_keeps_data_outside_private_directories(empty_project: Path, private_project: Path) -> None:
        assert postgres.data_dir(empty_project) == empty_project / "var" / "postgres"
        assert postgres.data_dir(private_project).is_relative_to("/var/lib/flightdeck")
        with postgres.start(private_project) as running:
            assert running.data.stat().st_uid not in (0, os.geteuid())
            assert not (private_project / "var").exists()

    def test_root_does_not_lose_data_below_a_directory_closed_later(empty_project: Path) -> None:
        postgres.start(empty_project).stop()
        empty_project.chmod(0o700)
        try:
            with pytest.raises(postgres.PostgresError, match="closed"):
                postgres.start(empty_project)
        finally:
            empty_project.chmod(0o755)
        postgres.start(empty_project).stop()

    def test_root_copies_binaries_that_the_account_cannot_reach(
        empty_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        account = engine.account_for(empty_project / "none")
        package = engine.binaries(account).parents[1]
        libraries = package.with_name(f"{package.name}.libs")
        shutil.copytree(libraries, tmp_path / libraries.name)
        shutil.copytree(package / "pginstall18", tmp_path / package.name / "pginstall18", symlinks=True)
        (tmp_path / package.name / "__init__.py").touch()
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setattr(engine, "ROOT_HOME", empty_project / "engines")
        before = modes_above(tmp_path / package.name / "x")
        assert engine.binaries(account).is_relative_to(empty_project / "engines")
        with postgres.start(empty_project) as running, psycopg.connect(running.urls.app) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
        assert modes_above(tmp_path / package.name / "x") == before

    def test_starts_side_by_side_make_the_service_account_one_after_another(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made, calls = tmp_path / "accounts", tmp_path / "calls"
        useradd = tmp_path / "useradd"
        useradd.write_text(
            f"#!/bin/sh\nmkdir {tmp_path}/making && sleep 0.2 && echo made >> {made}\n"
            f"echo called >> {calls}\nrmdir {tmp_path}/making\n"
        )
        useradd.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        own = engine.pwd.getpwuid(os.geteuid())
        monkeypatch.setattr(engine, "_lookup_name", lambda name: own if made.exists() else None)
        with ThreadPoolExecutor(4) as starts:
            accounts = list(starts.map(lambda _: engine.account_for(tmp_path / "none"), range(4)))
        assert {account.uid for account in accounts} == {os.geteuid()}
        assert calls.read_text().split() == ["called"]
