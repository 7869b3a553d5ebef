"""A worker that wakes, and who wakes it, do not first ask the server whether it is there."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.db import close_old_connections, connection, connections

from tasks_app.jobs.wake import DRAIN, steps_tell
from tasks_app.jobs.worker import drain
from tasks_app.waking import wake_workers
from tests.database import Database
from tests.support import until

pytestmark = pytest.mark.deep


def put() -> int:
    return wake_workers(DRAIN, lane="recipes", lanes=["recipes"])


def tell() -> int:
    steps_tell(["recipes"])
    return 1


@pytest.fixture
def asked(committed_db: Database, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What Django was answered whenever it asked whether a connection is usable."""
    answers: list[bool] = []
    wrapper: Any = type(connections["default"])
    usable = wrapper.is_usable

    def counted(self: Any) -> bool:
        answers.append(usable(self))
        return answers[-1]

    monkeypatch.setattr(wrapper, "is_usable", counted)
    return answers


@pytest.mark.parametrize("work", [drain, put, tell])
def test_a_connection_that_stands_is_not_asked(asked: list[bool], work: Callable[[], int]) -> None:
    work()
    before = connection.connection
    close_old_connections()  # as at the start of each task
    work()
    assert (asked, connection.connection) == ([], before)


@pytest.mark.parametrize("work", [drain, put, tell])
def test_one_that_the_server_ended_is_replaced(
    asked: list[bool], committed_db: Database, work: Callable[[], int]
) -> None:
    expected = work()
    before: Any = connection.connection
    with psycopg.connect(committed_db.urls.app, autocommit=True) as own:
        own.execute("select pg_terminate_backend(%s)", [before.info.backend_pid])
    until(lambda: bool(select.select([before.fileno()], [], [], 0)[0]), "it has heard of it")
    close_old_connections()
    assert work() == expected
    assert connection.connection is not before
