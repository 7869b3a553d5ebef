"""The database of the test session.

Migrations run as ``flightdeck_owner``, tests as ``flightdeck_app``. ``db`` rolls a test back; `committed_db`
gives a test that commits (processes, races) a database of its own. Child processes find either in os.environ.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from django.db import connections
from django.db.backends.signals import connection_created
from django.test import override_settings
from hypothesis import HealthCheck, settings
from pytest_django.plugin import DjangoDbBlocker

from config.processes import ProcessGroup
from tests.database import Database, TestServer, opened_server, point_django_at
from tests.middleware import loaded_once
from tests.owning import owning_follow
from tests.support import forget_sellers, know_no_rules, wait_for_servers

pytest_plugins = [
    "tests.clocks",
    "tests.costs",
    "tests.forked.popen",
    "tests.leftovers",
    "tests.retry",
    "tests.rounds",
]

# How long an example takes tells of the machine: none has a deadline, and slow drawing is no failure.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Let SIGTERM and a closed terminal end a session as Ctrl+C does, so that fixtures are torn down."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests of the heavy adcp package first: then one tester imports it, for all of them."""
    items.sort(key=lambda item: item.get_closest_marker("adcp_package") is None)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and not hasattr(session.config, "workerinput"):
        session.config.get_terminal_writer().line("No test matches what was asked for.")


def pytest_collection_finish() -> None:
    """Modules and collected tests stay to the end: what looks for garbage need not look through them, nor as
    often as it does."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def server_with_template(
    django_test_environment: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[tuple[TestServer, Database]]:
    with ExitStack() as stack:
        with django_db_blocker.unblock():
            found = stack.enter_context(opened_server())
        connection_created.connect(owning_follow)
        yield found


@pytest.fixture(scope="session")
def database_server(server_with_template: tuple[TestServer, Database]) -> TestServer:
    return server_with_template[0]


@pytest.fixture(scope="session")
def template_database(server_with_template: tuple[TestServer, Database]) -> Database:
    """The migrated schema with what migrations put in. Nothing may stay connected to it: it is copied."""
    return server_with_template[1]


@pytest.fixture(scope="session")
def django_db_setup(
    database_server: TestServer, template_database: Database, django_db_blocker: DjangoDbBlocker
) -> Iterator[Database]:
    """Instead of pytest-django's: ``db`` works on a copy of the template, as the application's role."""
    database = database_server.create(template=template_database)
    with pytest.MonkeyPatch.context() as patch:
        _use(database, patch)
        yield database
    with django_db_blocker.unblock():
        connections.close_all()


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    """Each test has its own sellers, and no rules but those it attaches."""
    forget_sellers()
    know_no_rules()


@pytest.fixture(scope="session", autouse=True)
def _no_second_factor() -> Iterator[None]:
    """Sign-ins of tests are whole; what asks for the second factor says who needs it."""
    with override_settings(SECOND_FACTOR_ROLES=[]):
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_second_click() -> Iterator[None]:
    """One click decides; the test of the second one says so."""
    with override_settings(APPROVAL_CONFIRM_ABOVE=10**9):
        yield


@pytest.fixture(scope="session", autouse=True)
def _patient(django_test_environment: None) -> None:
    """Here as in what is forked from `tests.forked.parent`."""
    wait_for_servers()


@pytest.fixture(scope="session", autouse=True)
def _middleware_once(_no_second_factor: None, _no_second_click: None) -> Iterator[None]:
    with loaded_once():
        yield


@pytest.fixture
def committed_db(
    request: pytest.FixtureRequest,
    database_server: TestServer,
    template_database: Database,
    django_db_setup: Database,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[Database]:
    """A fresh copy of the migrated database, dropped after the test; whatever it commits disturbs nobody.

    Not together with ``db``: that one holds a transaction open in another database.
    """
    if "db" in request.fixturenames or request.node.get_closest_marker("django_db"):
        raise pytest.UsageError("committed_db takes the place of db: use one of them")
    database = database_server.create(template=template_database)
    try:
        with pytest.MonkeyPatch.context() as patch, django_db_blocker.unblock():
            _use(database, patch)
            yield database
            connections.close_all()
    finally:
        point_django_at(django_db_setup.urls.app)
        database_server.drop(database.name)


@pytest.fixture
def processes() -> Iterator[ProcessGroup]:
    """Processes that a test starts; stopped, children and all, when it ends."""
    with ProcessGroup() as group:
        yield group


def _use(database: Database, patch: pytest.MonkeyPatch) -> None:
    for name, value in database.env.items():
        patch.setenv(name, value)
    patch.delenv("FLIGHTDECK_DB_LOGIN", raising=False)
    point_django_at(database.urls.app)
