"""`.ci/run` on small projects: every stage, failed tests once more and alone, and what it says at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
TESTED = ("test", "test-endurance", "test-redis", "test-browser")
FAILS = "def test_fails(): assert False, 'always'"


# Without what a make around these tests, or a session of theirs, left for its own.
_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "PYTHONPATH": str(ROOT),
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


class Project:
    """A folder with our `.ci`, a Makefile whose targets say their names, and tests of its own."""

    def __init__(self, folder: Path) -> None:
        self.limit_s = 3600.0
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
        return f"{command} -c none.ini --rootdir . $(if $(findstring @,$(ARGS)),,checks/{name}) $(ARGS)"

    def write(self, stage: str, *tests: str) -> None:
        for number, text in enumerate(tests):
            file = self.folder / "checks" / stage / f"test_{number}_{stage.replace('-', '_')}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)

    def run(self) -> tuple[int, str]:
        """Its exit code, and what it printed."""
        makefile = [f"{name}:\n\t{does}\n" for name, does in self.targets.items()]
        (self.folder / "Makefile").write_text("\n".join([f".PHONY: {' '.join(self.targets)}", *makefile]))
        (self.folder / "none.ini").write_text("[pytest]\n")
        done = subprocess.run(
            # As begun in the background by a shell without job control.
            ["bash", "-c", "trap '' INT; exec bash .ci/run"],
            cwd=self.folder,
            env={**_ENVIRONMENT, "CI_LIMIT_S": str(self.limit_s)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


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


STAGES = ["lint", "types", "migrations and settings", "tests"]
STAGES += ["tests of endurance", "tests of the queue on Redis", "tests in a browser"]


def test_all_stages_pass(project: Project) -> None:
    code, printed = project.run()

    assert code == 0, printed
    assert end_of(printed) == [(name, "passed") for name in STAGES]
    assert not list((project.folder / "var/unsteady").iterdir())


def test_every_stage_runs_where_each_fails(project: Project) -> None:
    for name in ("lint", "types", "settings"):
        project.targets[name] = "@false"
    for name in TESTED:
        project.write(name, FAILS)

    code, printed = project.run()

    failed = [f"checks/{name}/test_0_{name.replace('-', '_')}.py::test_fails"
              for name in TESTED]  # fmt: skip
    assert code == 1
    assert end_of(printed) == [(name, "FAILED") for name in STAGES] + [("FAILED", test) for test in failed]


def test_what_passes_alone_is_unsteady_and_fails_nothing(project: Project) -> None:
    project.write("test", UNSTEADY, PASSES)

    code, printed = project.run()

    assert code == 0, printed
    assert dict(end_of(printed))["tests"] == "unsteady"
    assert "== unsteady" in printed
    (kept,) = (project.folder / "var/unsteady").iterdir()
    assert "only the first time" in kept.read_text()
    assert "what it said" in kept.read_text()


def test_one_that_fails_alone_too_fails_the_run(project: Project) -> None:
    project.write("test", UNSTEADY, FAILS)

    code, printed = project.run()

    assert code == 1
    assert end_of(printed)[-1] == ("FAILED", "checks/test/test_1_test.py::test_fails")
    assert printed.count("== once more, alone") == 2
    assert "checks/test/test_0_test.py::test_unsteady" in printed[printed.index("== unsteady") :]


def test_more_than_five_are_not_run_again(project: Project) -> None:
    project.write("test", *[UNSTEADY.replace('"ran"', f'"ran{number}"') for number in range(4)])
    project.write("test-redis", *[UNSTEADY.replace('"ran"', f'"redis{number}"') for number in range(2)])

    code, printed = project.run()

    assert code == 1
    assert "once more" not in printed
    assert len([told for told in end_of(printed) if told[0] == "FAILED"]) == 6


@pytest.mark.parametrize(
    "broken",
    ["this is no Python", "import sys\ndef test_ends(): import os; os._exit(3)", "raise SystemExit(1)"],
    ids=["a file that cannot be read", "a session that is cut", "a file that ends it"],
)
def test_what_is_no_failed_test_fails_the_run(project: Project, broken: str) -> None:
    project.write("test", broken, PASSES)

    code, printed = project.run()

    assert code == 1
    assert dict(end_of(printed))["tests"] == "FAILED"


def test_a_stage_that_cannot_be_set_up_fails_and_the_others_run(project: Project) -> None:
    project.targets["test"] = "@exit 1"

    code, printed = project.run()

    assert code == 1
    assert dict(end_of(printed))["tests"] == "FAILED"
    assert dict(end_of(printed))["tests in a browser"] == "passed"


def test_a_strange_id_runs_again_as_it_is(project: Project) -> None:
    """An id holds whatever a parameter does: the shell and make see none of it."""
    imports, test = UNSTEADY.lstrip().split("\n", 1)
    strange = "@pytest.mark.parametrize('x', ['$(x) \\'a\\' \"b\" %d `c` é $$'])"
    test = test.replace("test_unsteady()", "test_unsteady(x)")
    project.write("test", "\n".join([imports, "import pytest", strange, test]))

    code, printed = project.run()

    assert code == 0, printed
    assert dict(end_of(printed))["tests"] == "unsteady"


def test_a_stage_that_takes_too_long_is_ended_and_said(project: Project) -> None:
    project.limit_s = 3.0
    project.write("test", "import time\ndef test_hangs(): time.sleep(3600)")

    code, printed = project.run()

    assert code == 1
    assert dict(end_of(printed))["tests"] == "OUT OF TIME"
    assert "KeyboardInterrupt" in printed, "it was asked to end, not killed"
