"""An agency with a few days of work behind it, and one browser session for each role.

The days are lived once a session, in a database of their own; a test works on them in a transaction that is
rolled back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections, transaction
from django.db.models import Model
from django.test import Client
from psycopg import sql
from pytest_django.plugin import DjangoDbBlocker

from config.processes import ProcessGroup
from demo.run import SECOND_FACTOR_ROLE
from tests.database import Database, TestServer, point_django_at
from tests.ui.seed import Agency, seed


@pytest.fixture(scope="session")
def lived(
    database_server: TestServer,
    template_database: Database,
    django_db_setup: Database,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[tuple[Database, Agency]]:
    """The seeded database and what was made in it; nothing but `agency` works on it."""
    database = database_server.create(template=template_database)
    try:
        with django_db_blocker.unblock():
            point_django_at(database.urls.app)
            try:
                made = seed()
            finally:
                connections.close_all()
                point_django_at(django_db_setup.urls.app)
        yield database, made
    finally:
        database_server.drop(database.name)


@pytest.fixture
def agency(
    request: pytest.FixtureRequest,
    lived: tuple[Database, Agency],
    django_db_setup: Database,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[Agency]:
    """The agency, as it was left; what a test changes is undone. Not together with `db`."""
    if "db" in request.fixturenames or request.node.get_closest_marker("django_db"):
        raise pytest.UsageError("agency takes the place of db: use one of them")
    database, made = lived
    with django_db_blocker.unblock():
        point_django_at(database.urls.app)
        try:
            with transaction.atomic():
                yield copy.deepcopy(made)
                transaction.set_rollback(True)
        finally:
            connections.close_all()
            point_django_at(django_db_setup.urls.app)


@pytest.fixture
def tamper(
    agency: Agency, lived: tuple[Database, Agency], database_server: TestServer
) -> Iterator[Callable[..., None]]:
    """Writes columns of a row as a superuser may who has switched all triggers off; put back afterwards."""
    undo: list[tuple[sql.Composed, list[Any]]] = []
    with database_server.connect_admin(lived[0].name) as admin:
        admin.execute("set session_replication_role = replica")

        def written(row: Model, **columns: Any) -> None:
            table, names = sql.Identifier(row._meta.db_table), list(map(sql.Identifier, columns))
            texts = sql.SQL(", ").join(sql.SQL("{}::text").format(name) for name in names)
            kept = sql.SQL("select {} from {} where id = %s").format(texts, table)
            before = admin.execute(kept, [row.pk]).fetchone()
            assert before is not None
            sets = sql.SQL(", ").join(sql.SQL("{} = %s").format(name) for name in names)
            update = sql.SQL("update {} set {} where id = %s").format(table, sets)
            undo.append((update, [*before, row.pk]))
            admin.execute(update, [*columns.values(), row.pk])

        try:
            yield written
        finally:
            for update, values in reversed(undo):
                admin.execute(update, values)


@pytest.fixture
def client_of(agency: Agency) -> Callable[..., Client]:
    """Logs the role's person in."""

    def logged_in(role: str, **options: bool) -> Client:
        client = Client(**options)  # type: ignore[arg-type]
        client.force_login(agency.people[role], backend="tasks_app.people.holders.RoleBackend")
        return client

    return logged_in


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """playwright's Browser, one for all modules; each test has a context of its own in it."""
    from tests.ui.browser import browsing

    with pytest.MonkeyPatch.context() as patch, browsing() as browser:
        # Playwright's own event loop runs in this thread, where Django suspects async code.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        yield browser


@pytest.fixture(scope="module")
def desk(
    chromium: Any,
    lived: tuple[Database, Agency],
    database_server: TestServer,
    django_db_setup: Database,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[Any]:
    """tests.ui.browser.Desk: a browser, and a web process on a copy of the agency. A module's tests commit to
    it and use no other database."""
    with _served(chromium, lived, database_server, django_db_setup, django_db_blocker, {}) as desk:
        yield desk


@pytest.fixture(scope="module")
def strict_desk(
    chromium: Any,
    lived: tuple[Database, Agency],
    database_server: TestServer,
    django_db_setup: Database,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[Any]:
    """As `desk`, where one role must have a second factor, as in the demo."""
    strict = {"FLIGHTDECK_SECOND_FACTOR_ROLES": SECOND_FACTOR_ROLE}
    with _served(chromium, lived, database_server, django_db_setup, django_db_blocker, strict) as desk:
        yield desk


@contextmanager
def _served(
    chromium: Any,
    lived: tuple[Database, Agency],
    database_server: TestServer,
    django_db_setup: Database,
    django_db_blocker: DjangoDbBlocker,
    env: dict[str, str],
) -> Iterator[Any]:
    from tests.ui.browser import Desk, serving

    database = database_server.create(template=lived[0])
    people = lived[1].people

    def login(role: str) -> Client:
        client = Client()
        client.force_login(people[role], backend="tasks_app.people.holders.RoleBackend")
        return client

    try:
        with ProcessGroup() as group, django_db_blocker.unblock():
            url = serving(group, {**database.env, **env})
            point_django_at(database.urls.app)
            yield Desk(url=url, browser=chromium, login=login)
    finally:
        connections.close_all()
        point_django_at(django_db_setup.urls.app)
        database_server.drop(database.name)
