"""Rules that tests keep: nothing is made of a clock at collection, no process is left behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests import collecting

ROOT = Path(__file__).resolve().parents[2]


def session(folder: Path, plugin: str, text: str) -> subprocess.CompletedProcess[str]:
    """What pytest makes of a file of tests under one of our plugins."""
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", plugin, "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "--rootdir", str(folder), str(folder / "test_it.py")],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@dataclass
class Holder:
    kept: object


def test_a_value_made_of_the_clock_is_seen_however_deep() -> None:
    at = collecting.COLLECTED_AT
    seconds = at.timestamp()
    alone = [at, at.replace(tzinfo=None), at + timedelta(days=30), at.date(), seconds, int(seconds) - 900]
    written = [int(seconds * 1000), at.isoformat(), f'{{"at": "{at.isoformat()}"}}'.encode()]
    within = [[{"a": (1, {at})}], partial(print, at=at), Holder([at])]
    for value in (*alone, *written, *within):
        assert collecting.tells_the_clock(value), value


@pytest.mark.parametrize(
    "value",
    [datetime(2026, 11, 20, tzinfo=UTC), date(2026, 11, 20), 1985, 5.0, "1985", b"", None, [True], {"a": 3}],
)
def test_other_values_are_no_clock(value: object) -> None:
    assert not collecting.tells_the_clock(value)


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ("AT = datetime.now(UTC)\ndef test_it(): pass", "test_it.AT"),
        ("AT = {'at': [time.time() - 60]}\ndef test_it(): pass", "test_it.AT"),
        (
            "@pytest.mark.parametrize('body', [{'at': datetime.now(UTC).isoformat()}])\n"
            "def test_it(body): pass",
            "body of test_it.py::test_it[body0]",
        ),
    ],
)
def test_what_is_made_of_the_clock_at_collection_is_refused(tmp_path: Path, made: str, named: str) -> None:
    imports = "import time\nfrom datetime import UTC, datetime\nimport pytest\n"

    done = session(tmp_path, "tests.collecting", imports + made)

    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "made at collection, of a clock: " in done.stdout
    assert named in done.stdout


def test_a_test_itself_reads_the_clock(tmp_path: Path) -> None:
    text = "from datetime import UTC, datetime\ndef test_it(): assert datetime.now(UTC).year > 2020"
    assert session(tmp_path, "tests.collecting", text).returncode == pytest.ExitCode.OK


LEAVES = """
import subprocess, sys, pytest
command = [sys.executable, "-c", "import time; time.sleep(3600)"]
@pytest.fixture
def gives_up():
    with open("{pid}", "w") as file:
        file.write(str(subprocess.Popen(command).pid))
    raise RuntimeError("it did not come up")
def test_it(gives_up): pass
"""


def test_a_process_left_behind_is_ended_and_fails_its_module(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    done = session(tmp_path, "tests.leftovers", LEAVES.format(pid=pid))

    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "left running, and ended now: " in done.stdout
    assert "time.sleep(3600)" in done.stdout
    assert not psutil.pid_exists(int(pid.read_text()))


def test_a_process_that_was_ended_is_nobodys_trouble(tmp_path: Path) -> None:
    text = "import subprocess\ndef test_it(): subprocess.Popen(['sleep', '0']).wait()"
    assert session(tmp_path, "tests.leftovers", text).returncode == pytest.ExitCode.OK


def test_what_needs_the_adcp_package_says_so_and_imports_it_late() -> None:
    """Imported by what is collected, it would be imported by every tester: 15 s of processor time each."""
    modules = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    needs = re.compile(r'^ +from adcp\b|"demo\.sellers"|^from tests\.sellers\.conftest import', re.MULTILINE)
    early = re.compile(r"^(from|import) adcp\b", re.MULTILINE)
    needing = {path for path, text in modules.items() if needs.search(text) and path.match("test_*.py")}
    marked = {path for path, text in modules.items() if "\npytestmark = pytest.mark.adcp_package\n" in text}
    assert len(marked) >= 5
    assert marked == needing
    assert [path for path, text in modules.items() if early.search(text)] == []


def test_what_needs_the_adcp_package_comes_first(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "def pytest_configure(config):\n    config.addinivalue_line('markers', 'adcp_package: heavy')\n"
    )
    text = """
import pytest
def test_a(): assert heavy == [1]
@pytest.mark.adcp_package
def test_b(): heavy.append(1)
heavy = []
"""
    assert session(tmp_path, "tests.collecting", text).returncode == 0
