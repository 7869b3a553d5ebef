"""What a test starts is over when its block is, with all that it started itself."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests import ending as module
from tests.ending import end, ending, line_of
from tests.support import until

# Keeps two children, and has a new one as soon as one dies.
CROWD = """
import os, sys, time
def begin():
    if not (pid := os.fork()):
        with open(sys.argv[1], "a") as file:
            print(os.getpid(), file=file)
        time.sleep(600)
begin(), begin()
while True:
    os.wait()
    begin()
"""
STOPS = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
print("here", flush=True)
signal.pause()
"""


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_who_gives_up_leaves_nobody(tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = [sys.executable, "-c", CROWD, str(told)]
    begun = []

    def give_up() -> None:
        with ending(subprocess.Popen(command)) as crowd:
            begun.append(crowd)
            until(lambda: told.exists() and told.read_text().count("\n") == 2, "both are there")
            raise AssertionError("it did not come")

    with pytest.raises(AssertionError, match="it did not come"):
        give_up()
    assert begun[0].returncode == -signal.SIGKILL
    pids = [int(pid) for pid in told.read_text().split()]
    assert len(pids) == 2, "none was begun meanwhile"
    assert not any(map(runs, pids))


def test_one_that_is_over_is_nobodys_trouble() -> None:
    with ending(subprocess.Popen(["true"], stdout=subprocess.PIPE)) as process:
        process.wait()
    assert process.returncode == 0
    assert process.stdout is not None
    assert process.stdout.closed
    end(process, signal.SIGTERM)


def test_it_may_end_by_itself() -> None:
    command = [sys.executable, "-c", STOPS]
    with ending(subprocess.Popen(command, stdout=subprocess.PIPE), signal.SIGTERM) as process:
        assert line_of(process.stdout) == b"here\n"
    assert process.returncode == 3


def test_where_it_does_not_it_is_killed_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.2)
    process = subprocess.Popen(["sleep", "600"])
    try:
        stopped = psutil.Process(process.pid)
        stopped.suspend()
        until(lambda: stopped.status() == psutil.STATUS_STOPPED, "it hears no signal but one")
    finally:
        with pytest.raises(subprocess.TimeoutExpired):
            end(process, signal.SIGTERM)
    assert process.returncode == -signal.SIGKILL
