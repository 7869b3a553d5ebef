"""A session that is asked to end leaves nothing of what it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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
        Path("begun").write_text(str(begun.pid))
        time.sleep(3600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("testers", [[], ["-p", "xdist", "-n", "1"]])
def test_what_it_started_ends_with_it(tmp_path: Path, testers: list[str], number: int) -> None:
    (tmp_path / "test_it.py").write_text(WAITS)
    (tmp_path / "none.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.interrupted", "-c", "none.ini", "--rootdir", "."]
    with ending(
        subprocess.Popen(
            [*command, *testers],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
    ) as session:
        until(lambda: (tmp_path / "begun").exists() and (tmp_path / "begun").read_text(), "it waits")
        begun = psutil.Process(int((tmp_path / "begun").read_text()))
        session.send_signal(number)
        printed, _ = session.communicate(timeout=PATIENCE_S)
    until(lambda: not begun.is_running() or begun.status() == psutil.STATUS_ZOMBIE, "it has ended")
    assert session.returncode == pytest.ExitCode.INTERRUPTED, printed
