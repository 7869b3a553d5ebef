"""`ending` kills a process and all below it when its block is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests import ending as module
from tests.ending import end, ending
from tests.support import until

# Keeps two children, and starts a new one as soon as one dies.
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


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_block_that_raises_leaves_no_process(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    crowd = subprocess.Popen([sys.executable, "-c", CROWD, str(pids)])

    def give_up() -> None:
        with ending(crowd):
            until(lambda: pids.exists() and pids.read_text().count("\n") == 2, "both children run")
            raise AssertionError("gave up")

    with pytest.raises(AssertionError, match="gave up"):
        give_up()
    assert crowd.returncode == -signal.SIGKILL
    assert not any(map(runs, map(int, pids.read_text().split())))


def test_a_process_that_ignores_its_signal_is_killed_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.2)
    with ending(subprocess.Popen(["sleep", "600"])) as process:
        process.send_signal(signal.SIGSTOP)
        until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, "it is stopped")
        with pytest.raises(subprocess.TimeoutExpired):
            end(process, signal.SIGTERM)
    assert process.returncode == -signal.SIGKILL
