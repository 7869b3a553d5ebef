"""A program that a test starts behaves the same whether it is forked or executed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psutil
import pytest

from tests.database import Database
from tests.ending import ending, line_of
from tests.forked.popen import parent
from tests.forked.programs import ROOT

both = pytest.mark.parametrize(
    "way", ["forked", pytest.param("executed", marks=pytest.mark.executed)], ids=["forked", "executed"]
)


@pytest.fixture
def start(committed_db: Database) -> Iterator[Any]:
    """Return a function that starts the teller; what still runs is killed after the test."""
    with ExitStack() as stack:

        def started(*arguments: str, **options: Any) -> subprocess.Popen[str]:
            command = [sys.executable, "-m", "tests.suite.teller", *arguments]
            pipe = subprocess.PIPE
            process = subprocess.Popen(
                command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe, stderr=pipe, **options
            )
            return stack.enter_context(ending(process))

        yield started


@both
def test_it_has_its_own_arguments_environment_input_and_database(
    way: str, start: Any, committed_db: Database
) -> None:
    process = start("reads", "two words", env={**os.environ, "TELLER_WORD": "é"})
    out, err = process.communicate("on its input")
    facts = json.loads(out)
    assert (process.returncode, err) == (0, "")
    assert (process.pid in parent.began) == (way == "forked")
    assert facts == facts | {
        "argv": ["reads", "two words"],
        "cwd": str(ROOT),
        "pid": process.pid,
        "parent": os.getpid(),
        "session": os.getsid(0),
        "input": "on its input",
        "word": "é",
        "database": committed_db.name,
        "user": "flightdeck_app",
    }


@both
def test_it_ends_by_itself_or_by_a_signal(way: str, start: Any) -> None:
    assert start("ends").wait() == 7
    process = start("waits", start_new_session=True)
    assert json.loads(line_of(process.stdout))["session"] == process.pid
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not psutil.pid_exists(process.pid)


@both
def test_its_settings_are_those_of_its_environment(way: str, start: Any) -> None:
    for lease in ("11", "12"):
        out, _ = start("prints", env={**os.environ, "FLIGHTDECK_STEP_LEASE_S": lease}).communicate()
        assert json.loads(out)["lease_s"] == float(lease)
    refused = start("prints", env={**os.environ, "FLIGHTDECK_STEP_LEASE_S": "soon"})
    assert "FLIGHTDECK_STEP_LEASE_S" in refused.communicate()[1]
    assert refused.returncode == 1
