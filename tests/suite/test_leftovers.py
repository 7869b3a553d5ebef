"""A test that leaves a process running fails, and the process is killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]

OF_A_MODULE = """
import subprocess, sys
def test_it():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    open("{pid}", "w").write(str(process.pid))
"""
ORPHAN = """
import subprocess, sys
starts = "import subprocess, sys; command = [sys.executable, '-c', 'import time; time.sleep(3600)'];"
starts += " print(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"
def test_it():
    done = subprocess.run([sys.executable, "-c", starts], capture_output=True, text=True)
    open("{pid}", "w").write(done.stdout)
"""


def session(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run a file of tests under the plugin."""
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.leftovers", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "--rootdir", str(folder), str(folder / "test_it.py")],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.rule
@pytest.mark.parametrize("text", [OF_A_MODULE, ORPHAN], ids=["child", "orphan"])
def test_a_process_left_running_fails_the_session(tmp_path: Path, text: str) -> None:
    pid = tmp_path / "pid"

    done = session(tmp_path, text.format(pid=pid))

    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "left running" in done.stdout
    assert not psutil.pid_exists(int(pid.read_text()))


@pytest.mark.rule
def test_modules_that_need_the_adcp_package_are_marked_and_import_it_late() -> None:
    """The import takes 10 s and 560 MB: marked tests run first, on one tester."""
    modules = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    needs = re.compile(r'^ +from adcp\b|"demo\.sellers"|^from tests\.sellers\.conftest import', re.MULTILINE)
    early = re.compile(r"^(from|import) adcp\b", re.MULTILINE)
    needing = {path for path, text in modules.items() if needs.search(text) and path.match("test_*.py")}
    marked = {path for path, text in modules.items() if "\npytestmark = pytest.mark.adcp_package\n" in text}
    assert marked == needing
    assert [path for path, text in modules.items() if early.search(text)] == []
