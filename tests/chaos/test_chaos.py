"""A short chaos run in `make test`, a larger one in `make test-deep`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django.plugin import DjangoDbBlocker

from config.supervisor import BASE_DIR
from tests import scratch
from tests.chaos.product import erase
from tests.database import Database, migrated_project, point_django_at
from tests.rounds import rounds

OPERATIONS = min(rounds(20, 120), 1_000)
IS_SHORT = not rounds(0, 1)


@pytest.fixture
def home(django_db_setup: Database, django_db_blocker: DjangoDbBlocker) -> Iterator[Path]:
    """Return the directory of the run. A short run starts with a copy of the migrated database."""
    directory = scratch.directory()  # the next session removes what a killed session leaves there
    try:
        if IS_SHORT:
            with django_db_blocker.unblock():
                migrated_project(directory)
            point_django_at(django_db_setup.urls.app)
        yield directory
    finally:
        erase(directory)


@pytest.mark.executed
def test_each_purchase_is_made_once_and_settled_or_with_a_person(home: Path) -> None:
    settings = {"OPERATIONS": str(OPERATIONS), "SEED": "1", "CHAOS_HOME": str(home)}
    run = subprocess.run(
        [sys.executable, "-m", "tests.chaos"],
        check=False,
        cwd=BASE_DIR,
        env={**os.environ, **settings, "CHAOS_MIGRATED": "1" if IS_SHORT else ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert run.returncode == 0, run.stdout
    summary = json.loads(run.stdout.splitlines()[-1])
    assert summary["operations"] == summary["settled"] + summary["waiting_on_person"] == OPERATIONS
    assert (summary["bought_twice"], summary["lost"], summary["differences"]) == (0, 0, 0)
    assert summary["kills"] >= 3
