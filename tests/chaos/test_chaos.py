"""A short chaos run: what `make chaos` does with 2,000 purchases, with 120; a round of it with 30."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django.plugin import DjangoDbBlocker

from bench.chaos.stage import erase
from config.supervisor import BASE_DIR
from tests import scratch
from tests.database import Database, migrated_project, point_django_at
from tests.rounds import rounds

OPERATIONS = min(rounds(30, 120), 1_000)  # as many as end within its minutes


WHOLE = bool(rounds(0, 1))


@pytest.fixture
def home(django_db_setup: Database, django_db_blocker: DjangoDbBlocker) -> Iterator[Path]:
    """Among those of test servers, so that the next session removes what a killed one left. A short round
    begins with the tests' migrated database, a whole one migrates its own: nothing of the tests is in it."""
    directory = scratch.directory()
    try:
        if not WHOLE:
            with django_db_blocker.unblock():
                migrated_project(directory)
            point_django_at(django_db_setup.urls.app)
        yield directory
    finally:
        erase(directory)


def test_every_purchase_is_made_once_and_settled_or_with_a_person(home: Path) -> None:
    env = {**os.environ, "OPERATIONS": str(OPERATIONS), "SEED": "1"}
    env |= {"CHAOS_HOME": str(home), "CHAOS_MIGRATED": "" if WHOLE else "1"}

    run = subprocess.run(
        [sys.executable, "-m", "bench.chaos"],
        check=False,
        cwd=BASE_DIR,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    assert run.returncode == 0, run.stdout
    told = json.loads(run.stdout.splitlines()[-1])
    assert told["operations"] == OPERATIONS
    assert (told["bought_twice"], told["lost"], told["differences"]) == (0, 0, 0)
    assert told["settled"] + told["waiting_on_person"] == OPERATIONS
    assert told["waiting_on_person"] <= OPERATIONS / 10
    assert told["kills"] >= 3
    assert told["too_soon"] == 0
    if WHOLE:
        assert told["held"] >= 10
        assert told["crowd_at_once"] == 2
        assert told["share"] == 14
        assert all(told[name] for name in ("beside", "repeats", "told_later", "taken"))
