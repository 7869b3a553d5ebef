"""The server of a test session, and databases cloned from one migrated template."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

import environ
import psycopg
from django.apps import apps
from django.core.management import call_command
from django.db import connections
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from config import postgres
from config.postgres import roles
from tests import kept, scratch
from tests.owning import as_the_product, owning_install
from tests.support import PATIENCE_S, until

_SETTLED_S = 300
# Who buys in tests, as sellers are told.
HOUSE = {"name": "Halden & Marsh", "domain": "haldenmarsh.example"}
# Options of a connection that hold whatever database it is to; connecting has a test's patience.
_OF_THE_PRODUCT = {
    *("pool", "server_side_binding"),
    *("keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"),
}
_OF_A_TRANSACTION = {"transaction_timeout", "idle_in_transaction_session_timeout"}
# The session's data are thrown away: nothing needs to survive a power cut, and they may lie in memory.
THROWAWAY = {
    **dict.fromkeys(("fsync", "synchronous_commit", "full_page_writes"), "off"),
    "max_wal_size": "256MB",
}


@dataclass(frozen=True)
class Database:
    """One database of the session; ``env`` is what child processes need to use it."""

    name: str
    urls: postgres.DatabaseUrls = field(repr=False)

    @property
    def env(self) -> dict[str, str]:
        one_step = {"FLIGHTDECK_SECOND_FACTOR_ROLES": "", "FLIGHTDECK_APPROVAL_CONFIRM_ABOVE": "1000000000"}
        return {**self.urls.environment(), **one_step}


class TestServer:
    """A PostgreSQL with both roles, whose superuser the session is."""

    __test__ = False  # not a class of tests

    def __init__(self, parameters: Mapping[str, str], passwords: Mapping[str, str]) -> None:
        """``parameters``: libpq's, for connecting as the superuser."""
        self._admin = dict(parameters)
        self._passwords = passwords
        self._names = f"test_{os.getpid()}_{secrets.token_hex(3)}"
        self._made: list[str] = []

    def connect_admin(self, database: str = "postgres") -> psycopg.Connection:
        return psycopg.connect(**{**self._admin, "dbname": database}, autocommit=True)

    def create(self, *, template: Database | None = None) -> Database:
        """A new database: bare with the roles' grants, or a copy of ``template`` (nobody connected to it)."""
        name = f"{self._names}_{len(self._made)}"
        self._made.append(name)
        source = template.name if template else None
        until(lambda: self._created(name, source), f"nobody is connected to {source}")
        if template is None:
            with self.connect_admin(name) as admin:
                roles.grant_inside(admin)
        app, owner = (self._url(role, name) for role in (postgres.APP_ROLE, postgres.OWNER_ROLE))
        return Database(name=name, urls=postgres.DatabaseUrls(app=app, owner=owner))

    def drop(self, name: str) -> None:
        """Whoever is connected is ended: PostgreSQL waits five seconds for that, this longer."""
        until(lambda: self._dropped(name), f"nobody is connected to {name}")

    def _dropped(self, name: str) -> bool:
        with self.connect_admin() as admin, suppress(psycopg.errors.ObjectInUse):
            admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
            return True
        return False

    def _created(self, name: str, template: str | None) -> bool:
        with self.connect_admin() as admin, suppress(psycopg.errors.ObjectInUse):
            roles.ensure_database(admin, name, template=template)
            _unhurry(admin, name)
            return True
        return False

    def drop_all(self) -> None:
        with ExitStack() as each:  # whatever comes of one, the others are dropped
            for name in self._made:
                each.callback(self.drop, name)

    def _url(self, role: str, database: str) -> str:
        apart = ("user", "password", "dbname", "port")
        rest = {key: value for key, value in self._admin.items() if key not in apart}
        port = self._admin.get("port", "5432")
        password = quote(self._passwords[role], safe="")
        return f"postgresql://{role}:{password}@:{port}/{database}?{urlencode(rest)}"


def _unhurry(admin: psycopg.Connection, database: str) -> None:
    """Instead of the product's seconds: a lock is waited for as everything is, and a transaction takes as
    long as it does. A test is one, or holds one, on a machine that may be busy with others."""
    limits = dict.fromkeys({*roles.app_settings(admin)} & _OF_A_TRANSACTION, "0")
    limited = sql.SQL("alter role {} in database {} set {} = {}")
    role, where = sql.Identifier(postgres.APP_ROLE), sql.Identifier(database)
    for name, value in {**limits, "lock_timeout": f"{PATIENCE_S:g}s"}.items():
        admin.execute(limited.format(role, where, sql.Identifier(name), value))


@contextmanager
def opened_server() -> Iterator[tuple[TestServer, Database]]:
    """A private embedded server, or the one at ``TEST_DATABASE_URL``; and on it the migrated database, with
    what migrations put in. Nothing may stay connected to that one: it is copied.

    The URL must be a superuser's, of a server that is there for tests alone: both roles are made on it. A
    plain ``DATABASE_URL`` is never used, so that no test touches a database that somebody works on.
    """
    given = os.environ.get("TEST_DATABASE_URL", "").strip()
    with _external(given) if given else _embedded() as opened:
        yield opened


@contextmanager
def _embedded() -> Iterator[tuple[TestServer, Database]]:
    _erase_killed_sessions()
    base = scratch.directory()
    try:
        migrated_project(base)
        with started(base) as running:
            parameters = {"host": running.address.socket_dir, "port": "5432", "user": "postgres"}
            server = TestServer(parameters, running.address.passwords)
            yield server, Database(name=postgres.DATABASE, urls=running.urls)
    finally:
        erase_project(base)


@contextmanager
def started(base: Path) -> Iterator[postgres.RunningPostgres]:
    """The server on a project's database as it was laid down. One that does not start is kept no longer: the
    next session makes it anew."""
    with ExitStack() as stack:
        try:
            running = stack.enter_context(postgres.start(base, settings=THROWAWAY))
        except postgres.PostgresError as error:
            if copied := kept.forget():
                error.add_note(f"It was copied from {copied}, which is removed: run this once more.")
            raise
        yield running


def migrated_project(base: Path) -> None:
    """In this empty project directory, the embedded database with all migrations run, stopped."""
    kept.lay_down(base, THROWAWAY, lambda urls: migrate_as_owner(Database(name=postgres.DATABASE, urls=urls)))


@contextmanager
def _external(url: str) -> Iterator[tuple[TestServer, Database]]:
    parameters = {key: str(value) for key, value in conninfo_to_dict(url).items()}
    # The same for every session on that server, so that they do not change the password under each other.
    passwords = {role: hashlib.sha256(f"{role}:{url}".encode()).hexdigest() for role in _ROLES}
    server = TestServer(parameters, passwords)
    with server.connect_admin(parameters.get("dbname", "postgres")) as admin:
        roles.ensure_roles(admin, passwords)
    try:
        migrated = server.create()
        migrate_as_owner(migrated)
        yield server, migrated
    finally:
        server.drop_all()


_ROLES = (postgres.OWNER_ROLE, postgres.APP_ROLE)


def erase_project(base: Path) -> bool:
    """Remove a project directory and its embedded database; False (and nothing removed) if it has none."""
    data = postgres.data_dir(base)
    if not postgres.erase(base):
        return False
    shutil.rmtree(data.parent)
    shutil.rmtree(base, ignore_errors=True)
    return True


def _erase_killed_sessions() -> None:
    for base in scratch.directories():
        with suppress(OSError, postgres.PostgresError):  # somebody else's, or in use
            made = base.stat()
            # A young one may be a session's that is about to start, or to end.
            settled = made.st_uid == os.geteuid() and time.time() - made.st_mtime > _SETTLED_S
            if settled and not erase_project(base):
                shutil.rmtree(base)


def point_django_at(url: str) -> None:
    """Make Django's default connection use another database from now on."""
    wanted = environ.Env.db_url_config(url)
    connections["default"].close()
    connections["default"].close_pool()
    settings = connections.settings["default"]
    for key in ("NAME", "USER", "PASSWORD", "HOST", "PORT"):
        settings[key] = wanted.get(key, "")
    kept = {key: value for key, value in settings["OPTIONS"].items() if key in _OF_THE_PRODUCT}
    settings["OPTIONS"] = {**kept, **wanted.get("OPTIONS", {})}


def migrate_as_owner(database: Database) -> None:
    """Run all migrations in this process, connected as the role that owns the schema."""
    point_django_at(database.urls.owner)
    with as_the_product():
        call_command("migrate", verbosity=0, interactive=False)
        apps.get_model("tasks_app", "house").objects.update_or_create(pk=1, defaults=HOUSE)
    owning_install(database.urls.owner)
    connections["default"].close()
