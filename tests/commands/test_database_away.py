"""With the embedded database away, a command says how to start it instead of showing its insides."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError

import manage
from tests.commands.running import call
from tests.database import Database, point_django_at

HINT = "The embedded database is not running: start it with make run"


@pytest.fixture
def nowhere(committed_db: Database, settings: Any) -> Iterator[Any]:
    """Django's connection leads to a socket that nobody listens on."""
    point_django_at("postgresql://flightdeck_app@:5432/flightdeck?host=/nowhere")
    settings.CONNECTION_HINT = lambda: HINT
    yield settings
    point_django_at(committed_db.urls.app)


def test_a_command_of_ours_tells_it_with_its_refusal(nowhere: Any) -> None:
    ran = call("sweep")
    assert ran.code == 2
    assert ran.err.startswith("The database did not answer: ")
    assert ran.err.endswith(HINT)


def test_a_command_of_djangos_ends_with_it(nowhere: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["manage.py", "showmigrations"])
    with pytest.raises(SystemExit, match=HINT):
        manage.main()


def test_without_a_better_idea_the_error_stays_as_it_is(
    nowhere: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere.CONNECTION_HINT = lambda: ""
    monkeypatch.setattr(sys, "argv", ["manage.py", "showmigrations"])
    with pytest.raises(OperationalError):
        manage.main()
