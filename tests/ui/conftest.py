"""An agency with a few days of work behind it, and one browser session for each role.

The days are lived once a session, in a database of their own; a test works on them in a transaction that is
rolled back.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import pytest
from django.db import connections, transaction
from django.test import Client
from pytest_django.plugin import DjangoDbBlocker

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
    with django_db_blocker.unblock():
        point_django_at(database.urls.app)
        made = seed()
        connections.close_all()
        point_django_at(django_db_setup.urls.app)
    yield database, made
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
def client_of(agency: Agency) -> Callable[..., Client]:
    """Logs the role's person in."""

    def logged_in(role: str, **options: bool) -> Client:
        client = Client(**options)  # type: ignore[arg-type]
        client.force_login(agency.people[role], backend="django.contrib.auth.backends.ModelBackend")
        return client

    return logged_in
