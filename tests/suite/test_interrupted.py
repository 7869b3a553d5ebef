"""A session that is asked to end leaves nothing of what it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from tests.ending import ending
from tests.support import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[2]
WAITS = """
import subprocess
import sys
import time
from pathlib import Path
from tests.ending import ending

def test_waits():
    # In a session of its own, as PostgreSQL is.
    sleeps = [sys.executable, "-c", "import time; time.sleep(3600)"]
    with ending(subprocess.Popen(sleeps, start_new_session=True)) as begun:
        try:
            Path("begun").write_text(str(begun.pid))
            time.sleep(3600)
        finally:
            Path("ending").touch()
            time.sleep(2)
            while not Path("may").exists():
                time.sleep(0.05)
            Path("ended").touch()
"""
# Longer than xdist waits for a tester to end, which by itself is ten seconds.
HASTY = """
from xdist.workermanage import NodeManager
NodeManager.EXIT_TIMEOUT = 0.5
"""


# What is raised while something is thrown away nobody hears of.
DEAF = """
import time
from pathlib import Path

class Slow:
    def __del__(self):
        Path("begun").write_text("here")
        time.sleep(3600)

def test_throws_it_away(): Slow()
def test_comes_later(): Path("late").touch()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("testers", [[], ["-p", "xdist", "-n", "1"]])
def test_what_it_started_ends_with_it(tmp_path: Path, testers: list[str], number: int) -> None:
    (tmp_path / "may").touch()
    with session(tmp_path, WAITS, *testers) as asked:
        begun = psutil.Process(int((tmp_path / "begun").read_text()))
        asked.send_signal(number)
        printed, _ = asked.communicate(timeout=PATIENCE_S)
    until(lambda: not begun.is_running() or begun.status() == psutil.STATUS_ZOMBIE, "it has ended")
    assert asked.returncode == pytest.ExitCode.INTERRUPTED, printed


def test_where_nobody_hears_of_it_the_session_ends_after_the_test(tmp_path: Path) -> None:
    with session(tmp_path, DEAF) as asked:
        asked.send_signal(signal.SIGTERM)
        printed, _ = asked.communicate(timeout=PATIENCE_S)
    assert asked.returncode == pytest.ExitCode.INTERRUPTED, printed
    assert not (tmp_path / "late").exists()


def test_a_tester_is_interrupted_once(tmp_path: Path) -> None:
    with session(tmp_path, WAITS, "-p", "xdist", "-n", "1") as asked:
        (tester,) = psutil.Process(asked.pid).children()
        tester.send_signal(signal.SIGINT)
        until(lambda: (tmp_path / "ending").exists(), "it ends what it started")
        tester.send_signal(signal.SIGINT)
        tester.send_signal(signal.SIGTERM)
        (tmp_path / "may").touch()
        asked.communicate(timeout=PATIENCE_S)
    assert (tmp_path / "ended").exists()


@contextmanager
def _heard(number: int) -> Iterator[None]:
    """What is started meanwhile hears a signal that we may be deaf to, as what a shell begins in the
    background is."""
    before = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def session(folder: Path, tests: str, *testers: str) -> Iterator[subprocess.Popen[str]]:
    """A session of its own, once a test has begun what it waits for."""
    (folder / "test_it.py").write_text(tests)
    (folder / "none.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(HASTY)
    command = [sys.executable, "-m", "pytest", "-p", "tests.interrupted", "-c", "none.ini", "--rootdir", "."]
    with ExitStack() as both:
        with _heard(signal.SIGINT):
            begun = ending(
                subprocess.Popen(
                    [*command, *testers],
                    cwd=folder,
                    env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            asked = both.enter_context(begun)
        until(lambda: (folder / "begun").exists() and (folder / "begun").read_text(), "it waits")
        yield asked


def test_our_own_sessions_are_asked_so(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.hasplugin("tests.interrupted")
