"""`manage.py database_roles` on a PostgreSQL of one’s own: from nothing to two roles, and what differs."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from config.postgres.own_roles import RIGHTS_ABOVE
from tests.commands.running import Ran, run, started
from tests.database import Database, TestServer


@dataclass(frozen=True)
class Own:
    """A server with nothing of ours, and the names of what is to be made on it."""

    server: TestServer
    app: str
    owner: str
    database: str
    host: str

    def url(self, role: str) -> str:
        return f"postgresql://{role}:p%40ss@:5432/{self.database}?host={self.host}"

    def connect(self, role: str) -> psycopg.Connection:
        return psycopg.connect(self.url(role), autocommit=True)


@pytest.fixture
def own(
    committed_db: Database, database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Own]:
    host = str(conninfo_to_dict(committed_db.urls.owner)["host"])
    tail = secrets.token_hex(3)
    made = Own(database_server, f"own_app_{tail}", f"own_owner_{tail}", f"own_{tail}", host)
    for name, value in {
        "DATABASE_URL": made.url(made.app),
        "MIGRATE_DATABASE_URL": made.url(made.owner),
        "ADMIN_DATABASE_URL": f"postgresql://postgres@:5432/postgres?host={host}",
        "FLIGHTDECK_DB_ROLE": made.app,
        "FLIGHTDECK_EMBEDDED": "0",
    }.items():
        monkeypatch.setenv(name, value)
    yield made
    database_server.drop(made.database)
    with database_server.connect_admin() as admin:
        for role in (
            made.app,
            made.owner,
            *(f"{made.app}_{one}" for one in ("admin", "near", "far", "idle")),
        ):
            admin.execute(sql.SQL("drop role if exists {}").format(sql.Identifier(role)))


def migrate() -> None:
    """All migrations from the first: on a busy machine that takes its time."""
    with started("migrate", "-v", "0") as process:
        _, err = process.communicate(timeout=500)
    assert process.returncode == 0, err.decode()


def mended(ran: Ran) -> list[str]:
    assert ran.code == 0, ran.err
    found = ran.json["mended"]
    assert isinstance(found, list)
    return found


@pytest.mark.deep
def test_from_nothing_to_an_installation_that_starts_and_what_somebody_changed_in_it(
    own: Own, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One installation for both: all migrations from the first take most of their time."""
    from_nothing_it_starts(own)
    what_somebody_changed_is_told_and_mended(own, monkeypatch)


def from_nothing_it_starts(own: Own) -> None:
    looked = run("database_roles", "--check", "--json")
    assert looked.code == 1
    assert f"There is no role {own.app}" in looked.json["differs"]
    assert f"There is no database {own.database}" in looked.json["differs"]
    refused = run("migrate", "-v", "0")
    assert refused.code != 0

    said = mended(run("database_roles", "--json"))
    assert {f"There is no role {own.app}", f"There is no role {own.owner}"} <= set(said)
    migrate()
    assert run("database_roles", "--check").code == 0
    assert mended(run("database_roles", "--json")) == [], "again: nothing to do"

    assert run("sweep").code == 0, "a process of the product starts"
    with own.connect(own.app) as app, pytest.raises(psycopg.errors.InsufficientPrivilege):
        app.execute("update tasks_app_auditentry set reason = 'x'")
    with own.connect(own.app) as app, pytest.raises(psycopg.errors.InsufficientPrivilege):
        app.execute("create temporary table tasks_app_auditentry (id int)")
    with own.connect(own.app) as app:
        assert app.execute("show lock_timeout").fetchone() == ("5s",)
    with own.connect(own.app) as app:
        # All other databases of tests have a function in its place whose clock tests can turn.
        app.execute("set flightdeck.test_clock = '2001-01-01'")
        right = app.execute("select n between statement_timestamp() and clock_timestamp() from fd_now() n")
        assert right.fetchone() == (True,)


def what_somebody_changed_is_told_and_mended(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    near, far, idle = (f"{own.app}_{one}" for one in ("near", "far", "idle"))
    roles = {"app": own.app, "database": own.database, "near": near, "far": far, "idle": idle}
    names = {name: sql.Identifier(role) for name, role in roles.items()}
    with own.server.connect_admin(own.database) as admin:
        for statement in (
            "create role {far}; create role {near} in role {far}; create role {idle}",
            "grant delete on tasks_app_decision to {far}",
            "grant {near}, {idle}, pg_write_all_data to {app}",
            "alter role {app} createrole",
            "alter role {app} set lock_timeout = '1h'",
            "alter table tasks_app_team owner to postgres",
            "grant update on tasks_app_auditentry to {app}",
            "grant temporary on database {database} to {app}",
            "grant create on schema public to {app}",
        ):
            admin.execute(sql.SQL(statement).format(**names))

    told = run("database_roles", "--check", "--json")
    assert told.code == 1
    for words in (
        f"{own.app} is createrole",
        f"{own.app} has not lock_timeout = 5s",
        "tasks_app_team belongs to postgres",
        f"tasks_app_auditentry: {own.app} may update",
        f"{own.app} may make temporary tables or schemas in {own.database}",
        f"{own.app} may make tables in the schema public",
        f"{own.app} has the rights of {far} through {near}",
        f"{own.app} has the rights of pg_write_all_data",
    ):
        assert words in told.json["differs"]
    with own.server.connect_admin(own.database) as admin:
        admin.execute(sql.SQL("revoke create on schema public from {app}").format(**names))
    assert f"has the rights of {far}, pg_write_all_data too" in run("sweep").err, (
        "no process starts with them"
    )

    mended(run("database_roles", "--json"))
    assert run("database_roles", "--check", "--json").json == {"differs": []}, "nor does an idle group matter"
    assert run("sweep").code == 0

    for right in RIGHTS_ABOVE:
        with own.server.connect_admin() as admin:
            admin.execute(sql.SQL("alter role {} " + right).format(names["app"]))  # type: ignore[arg-type]
        refused = run("sweep")
        # A superuser is as good as the owner of every table.
        says = "who owns tables" if right == "superuser" else f"connects as {own.app}, who is {right}"
        assert (refused.code != 0, refused.err.count(says)) == (True, 1), "no process starts with it"
        checked = run("check", "--deploy")
        assert (checked.code != 0, checked.err.count(says)) == (True, 1)
        assert mended(run("database_roles", "--json")) == [f"{own.app} is {right}"]

    # Without an administrator what is inside the database is mended, and the rest is refused.
    monkeypatch.delenv("ADMIN_DATABASE_URL")
    with own.connect(own.owner) as owner:
        grant = sql.SQL("grant delete on tasks_app_decision to {}")
        owner.execute(grant.format(sql.Identifier(own.app)))
    assert mended(run("database_roles", "--json")) == [f"tasks_app_decision: {own.app} may delete"]

    with own.server.connect_admin() as admin:
        admin.execute(sql.SQL("alter role {} createdb").format(sql.Identifier(own.app)))
    refused = run("database_roles", "--json")
    assert refused.code == 2
    assert f"{own.app} is createdb" in refused.json["error"]
    assert "ADMIN_DATABASE_URL" in refused.json["error"]


def test_an_administrator_who_is_no_superuser_will_do(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    """As managed services give them: everything but what only a superuser sets."""
    name = f"{own.app}_admin"
    with own.server.connect_admin() as admin:
        made = sql.SQL("create role {} login createdb createrole password 'managed'")
        admin.execute(made.format(sql.Identifier(name)))
    administrator = f"postgresql://{name}:managed@:5432/postgres?host={own.host}"
    monkeypatch.setenv("ADMIN_DATABASE_URL", administrator)
    try:
        mended(run("database_roles", "--json"))
        assert run("database_roles", "--check", "--json").json["differs"] == [
            f"{own.app} has not deadlock_timeout = 50ms"
        ]
    finally:
        own.server.drop(own.database)
        with own.server.connect_admin() as admin:
            for role in (own.app, own.owner, name):
                admin.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


@pytest.mark.deep
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"MIGRATE_DATABASE_URL": ""}, "MIGRATE_DATABASE_URL is not set"),
        ({"FLIGHTDECK_DB_ROLE": "somebody"}, "FLIGHTDECK_DB_ROLE says somebody"),
        ({"MIGRATE_DATABASE_URL": "postgresql://o:s3cret@db/another"}, "name two databases"),
        ({"MIGRATE_DATABASE_URL": "postgresql://:s3cret@db/x"}, "must be postgresql://role:password@host"),
    ],
)
def test_what_it_is_not_told_it_does_not_guess(
    own: Own, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], words: str
) -> None:
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
    ran = run("database_roles", "--json")
    assert ran.code == 2
    assert words in ran.json["error"]
    assert "s3cret" not in ran.out + ran.err
