"""A small project with our `.ci/run`, and what that says at its end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ending import end

ROOT = Path(__file__).resolve().parents[2]
PASSES = "def test_passes(): pass"
# Fails the first time it runs, wherever that is.
UNSTEADY = """
from pathlib import Path
def test_unsteady():
    ran = Path("ran")
    first = not ran.exists()
    ran.touch()
    print("what it said")
    assert not first, "only the first time"
"""
# A fixture's end is told of the last test that ran, and is another's fault.
ENDS_BADLY = """
from pathlib import Path
import pytest
@pytest.fixture(scope="module", autouse=True)
def ends():
    yield
    first = not Path("ended").exists()
    Path("ended").touch()
    assert not {when}, "what a test left"
def test_leaves_it(): pass
def test_is_blamed(): pass
"""
LOOKS_AT_THE_END = """
from pathlib import Path
import pytest
@pytest.fixture(scope="session", autouse=True)
def looks():
    yield
    left = Path("left").exists()
    if left:  # else a test beside, of another tester, may just leave it
        Path("left").unlink(missing_ok=True)
    assert not left, "what a test left"
"""
DIES_LATE = """
import os
def pytest_sessionfinish(session):
    if "PYTEST_XDIST_WORKER" in os.environ:
        os._exit(3)
"""
HANGS = """
import time
from pathlib import Path
def test_hangs():
    Path("hangs").touch()
    time.sleep(3600)
"""
STAGES = ["lint", "types", "migrations and settings", "tests"]
STAGES += ["tests of endurance", "tests of the queue on Redis", "tests in a browser"]
TESTED = ("test", "test-endurance", "test-redis", "test-browser")
FAILS = "def test_fails(): assert False, 'always'"
RAISED_BESIDE = """
import threading
from pathlib import Path
def test_is_blamed():
    if not Path("blamed").exists():
        Path("blamed").touch()
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
"""

# As our Makefile has it.
NOTED = "; code=$$?; echo $$code >$(EXIT); exit $$code"
# Without what a make around these tests, or a session of theirs, left for its own.
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "PYTHONPATH": str(ROOT),
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


class Project:
    """A folder with our `.ci`, a Makefile whose targets say their names, and tests of its own."""

    def __init__(self, folder: Path) -> None:
        self.limit_s = 3600.0
        self.ignores = "INT"
        self.environment: dict[str, str] = {}
        self.folder = folder
        shutil.copytree(ROOT / ".ci", folder / ".ci")
        (folder / "checks").mkdir()
        self.targets = dict.fromkeys(("lint", "types", "settings"), "@echo ran $@")
        for name in TESTED:
            self.targets[name] = self.pytest(name)
            self.write(name, PASSES)

    def pytest(self, name: str) -> str:
        command = f"@{sys.executable} -m pytest -q -p tests.outcomes -p no:cacheprovider"
        # An empty ini: the project above this folder, if there is one, has its own.
        asked = f"-c none.ini --rootdir . $(if $(findstring @,$(ARGS)),,checks/{name}) $(ARGS)"
        return f"{command} {asked}"

    def write(self, stage: str, *tests: str) -> None:
        for number, text in enumerate(tests):
            file = self.folder / "checks" / stage / f"test_{number}_{stage.replace('-', '_')}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)

    def run(self) -> tuple[int, str]:
        """Its exit code, and what it printed."""
        with self.begun() as ci:
            printed, _ = ci.communicate()
        return ci.returncode, printed

    @contextmanager
    def begun(self) -> Iterator[subprocess.Popen[str]]:
        """A run under way."""
        told = {name: f"{does}{NOTED if name in TESTED else ''}" for name, does in self.targets.items()}
        makefile = [f"{name}:\n\t{does}\n" for name, does in told.items()]
        (self.folder / "Makefile").write_text("\n".join([f".PHONY: {' '.join(self.targets)}", *makefile]))
        (self.folder / "none.ini").write_text("[pytest]\n")
        run = subprocess.Popen(
            # As begun in the background by a shell without job control.
            ["bash", "-c", f"trap '' {self.ignores}; exec bash .ci/run"],
            cwd=self.folder,
            env={**ENVIRONMENT, **self.environment, "CI_LIMIT_S": str(self.limit_s)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield run
        finally:
            end(run)


def end_of(printed: str) -> list[tuple[str, str]]:
    """The stages and their outcomes as the last lines tell them, then the failed tests."""
    lines = printed[printed.index("== stages") :].splitlines()[1:]
    told = []
    for line in lines:
        if line.startswith("FAILED "):
            told.append(("FAILED", line.removeprefix("FAILED ")))
        else:
            name, outcome = line.split(" s  ")
            told.append((name.rsplit(maxsplit=1)[0], outcome))
    return told
