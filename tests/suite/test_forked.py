"""What is forked for a test is a process as one that is executed: the same is asked of both."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from typing import Any

import psutil
import pytest

from config.processes import ProcessGroup
from tests import leftovers
from tests.database import Database
from tests.ending import ending, line_of
from tests.forked.popen import parent
from tests.forked.programs import ROOT, program
from tests.support import until

BOTH = [
    pytest.param("forked", id="forked"),
    pytest.param("executed", id="executed", marks=pytest.mark.executed),
]
both = pytest.mark.parametrize("way", BOTH)


@pytest.fixture
def begun(committed_db: Database) -> Iterator[Any]:
    """Starts the teller, and ends what a test leaves of it."""
    with ExitStack() as ends:

        def begin(*arguments: str, **options: Any) -> subprocess.Popen[str]:
            command = [sys.executable, "-m", "tests.suite.teller", *arguments]
            pipe = subprocess.PIPE
            return ends.enter_context(
                ending(
                    subprocess.Popen(
                        command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe, stderr=pipe, **options
                    )
                )
            )

        yield begin


def was_forked(pid: int) -> bool:
    return pid in parent.began


@both
def test_it_is_what_was_asked_for(way: str, begun: Any, committed_db: Database) -> None:
    process = begun("reads", "two words", env={**os.environ, "TELLER_WORD": "é"})
    out, err = process.communicate("on its input")
    told = json.loads(out)
    assert (process.returncode, err) == (0, "")
    assert was_forked(process.pid) == (way == "forked")
    assert told == told | {
        "argv": ["reads", "two words"],
        "cwd": str(ROOT),
        "pid": process.pid,
        "parent": os.getpid(),
        "session": os.getsid(0),
        "given": "on its input",
        "word": "é",
        "main": "__main__",
        "database": committed_db.name,
        "user": "flightdeck_app",
        "descriptors": [0, 1, 2, 3],  # the last is the listing's
    }


@both
@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ("ends", 7, ""),
        ("says", 1, "what went wrong\n"),
        ("raises", 1, "RuntimeError: nobody expected this\n"),
        ("interrupted", -signal.SIGINT, "KeyboardInterrupt\n"),
    ],
)
def test_it_ends_as_it_says(way: str, how: str, code: int, words: str, begun: Any) -> None:
    process = begun(how)
    _, err = process.communicate()
    assert was_forked(process.pid) == (way == "forked")
    assert process.returncode == code
    assert err.endswith(words)
    assert bool(err) == bool(words)


@both
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_end_it(way: str, number: signal.Signals, begun: Any) -> None:
    process = begun("waits", start_new_session=True)
    told = json.loads(line_of(process.stdout))
    assert told["session"] == process.pid
    os.killpg(process.pid, number)
    assert process.wait() == -number
    assert not psutil.pid_exists(process.pid)


@both
def test_settings_are_those_of_its_environment(way: str, begun: Any) -> None:
    for lease in ("11", "12", "11"):
        out, _ = begun("tells", env={**os.environ, "FLIGHTDECK_STEP_LEASE_S": lease}).communicate()
        assert json.loads(out)["lease_s"] == float(lease)


def test_a_warm_process_that_was_killed_is_replaced(begun: Any) -> None:
    own = {**os.environ, "FLIGHTDECK_STEP_LEASE_S": "113"}  # no other program of the session comes from it
    assert begun("tells", env=own).communicate()
    warm = max(psutil.Process(parent.pid).children(), key=lambda process: process.create_time())
    warm.kill()
    until(lambda: warm.status() == psutil.STATUS_ZOMBIE, "it is dead")
    for _ in range(2):
        process = begun("tells", env=own)
        out, err = process.communicate()
        assert (process.returncode, err) == (0, "")
        assert was_forked(process.pid)
        assert json.loads(out)["lease_s"] == 113


@both
def test_what_it_forks_and_leaves_is_found(way: str, begun: Any) -> None:
    before = leftovers.begun()
    begun("leaves").communicate()
    left = [process for process in leftovers.begun() if process not in before]
    assert len(left) == 1
    assert leftovers.end(left)


def test_the_process_that_forks_and_its_own_are_no_leftovers(begun: Any) -> None:
    begun("tells").communicate()
    forks = psutil.Process(parent.pid)
    parent.began[forks.children()[0].pid] = "a program of before, under the same number"
    assert forks.children()
    assert not {forks, *forks.children()} & {*leftovers.begun(), *leftovers.children()}


def test_no_two_draw_the_same(begun: Any) -> None:
    told = [json.loads(begun("tells").communicate()[0]) for _ in range(2)]
    assert told[0]["drawn"] != told[1]["drawn"]


def test_it_refuses_to_start_as_ever(begun: Any) -> None:
    process = begun("tells", env={**os.environ, "FLIGHTDECK_STEP_LEASE_S": "soon"})
    _, err = process.communicate()
    assert process.returncode == 1
    assert "FLIGHTDECK_STEP_LEASE_S" in err
    assert not was_forked(process.pid)


def test_it_dies_with_the_group_that_started_it(committed_db: Database, tmp_path: Any) -> None:
    with ProcessGroup(output=(tmp_path / "out").open("w")) as group:
        pid = group.start("teller", [sys.executable, "-m", "tests.suite.teller", "waits"], cwd=ROOT)
        assert was_forked(pid)
        until(lambda: str(pid) in (tmp_path / "out").read_text())
    assert not psutil.pid_exists(pid)


def test_commands_begin_as_manage_py_begins_them(committed_db: Database) -> None:
    process = subprocess.run(
        [sys.executable, "manage.py", "verify_audit", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
    json.loads(process.stdout)


def square(number: int) -> tuple[int, int]:
    return os.getpid(), number * number


def test_pools_are_forked(committed_db: Database) -> None:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as pool:
        told = list(pool.map(square, range(8)))
    assert [answer for _, answer in told] == [number * number for number in range(8)]
    assert all(was_forked(pid) for pid, _ in told)


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "-c", "print()"],
        [sys.executable, "-S", "-m", "tests.sellers.faulty_server"],
        [sys.executable, "manage.py", "migrate"],
        ["python", "manage.py", "worker"],
        ["sleep", "1"],
    ],
)
def test_others_are_executed(command: list[str]) -> None:
    assert program(command) is None
