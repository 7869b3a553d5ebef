"""The table at the end of a session: what each folder, the dearest tests and the dearest fixtures took."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import time
import pytest
@pytest.fixture(scope="module")
def made(): return 1
@pytest.fixture(scope="module")
def kept(made):
    yield
    time.sleep(1)
@pytest.mark.parametrize("number", range({count}))
def test_it(kept, number): pass
"""


def told(folder: Path, **counts: int) -> str:
    """What a session of two testers prints at its end, of so many tests in each folder."""
    for name, count in counts.items():
        (folder / name).mkdir()
        (folder / name / f"test_{name}.py").write_text(TESTS.format(count=count))
    (folder / "pytest.ini").write_text("[pytest]\n")
    plugins = [part for name in ("xdist.plugin", "tests.costs", "no:cacheprovider") for part in ("-p", name)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", *plugins, "--rootdir", str(folder), str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    return done.stdout


def part(text: str, title: str) -> list[str]:
    """The lines below this title."""
    after = re.split(rf"^=+ {re.escape(title)} =+$", text, maxsplit=1, flags=re.MULTILINE)[1]
    return after.strip("\n").split("\n=")[0].splitlines()


def test_folders_tests_and_fixtures_of_all_testers_are_told(tmp_path: Path) -> None:
    text = told(tmp_path, first=40, second=20)

    folders = [line.split() for line in part(text, "seconds and tests per folder")]
    assert {(words[2], " ".join(words[3:])) for words in folders} >= {("40", "first"), ("20", "second")}
    assert folders[-1][2:] == ["60", "in", "all"]
    dearest = part(text, "the 15 dearest tests")
    assert len(dearest) == 15
    assert all(
        re.fullmatch(r" +[\d.]+ s  (first|second)/test_\w+\.py::test_it\[\d+\]", one) for one in dearest
    )
    title = "the 15 dearest fixtures, each in all its uses"
    lines = [line.split(" s  ") for line in part(text, title) if " s  " in line]
    took = {name: float(seconds) for seconds, name in lines}
    for where in ("first/test_first.py", "second/test_second.py"):
        assert took[f"{where}: kept"] > 0.9, "its end counts"
        assert f"{where}: made" in took


def test_of_a_look_at_some_tests_nothing_is_told(tmp_path: Path) -> None:
    assert "dearest" not in told(tmp_path, first=49)
