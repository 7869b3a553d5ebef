"""`.ci/run` on small projects: every stage, failed tests once more and alone, and what it says at the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.ending import end
from tests.support import PATIENCE_S, until

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
            env={**_ENVIRONMENT, **self.environment, "CI_LIMIT_S": str(self.limit_s)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield run
        finally:
            end(run)


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
    assert not (project.folder / "var/unsteady").exists()


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
    assert "in runs before" not in printed
    code, printed = project.run()
    assert (code, "in runs before this one" in printed, kept.name in printed) == (0, True, True)


def test_one_that_fails_alone_too_fails_the_run(project: Project) -> None:
    project.write("test", UNSTEADY, FAILS)

    code, printed = project.run()

    assert code == 1
    assert end_of(printed)[-1] == ("FAILED", "checks/test/test_1_test.py::test_fails")
    assert printed.count("== once more, alone") == 2
    assert "checks/test/test_0_test.py::test_unsteady" in printed[printed.index("== unsteady") :]


def test_where_a_fixture_ends_badly_its_whole_module_runs_again(project: Project) -> None:
    project.write("test", ENDS_BADLY.format(when="first"), PASSES)

    code, printed = project.run()

    assert code == 0, printed
    assert "== once more, alone: checks/test/test_0_test.py\n" in printed
    assert dict(end_of(printed))["tests"] == "unsteady"


def test_what_a_test_leaves_each_time_fails_the_run_though_another_is_blamed(project: Project) -> None:
    project.write("test", ENDS_BADLY.format(when="True"), PASSES)

    code, printed = project.run()

    assert code == 1
    assert end_of(printed)[-1] == ("FAILED", "checks/test/test_0_test.py::test_is_blamed")


@pytest.mark.parametrize("testers", ["", " -p xdist -n 2"])
def test_what_is_said_at_a_sessions_end_is_nobodys_to_pass_alone(project: Project, testers: str) -> None:
    """The module that is blamed left nothing, and passes alone each time."""
    project.targets["test"] += f" $(if $(TESTERS),,{testers})"
    project.write("test", "from pathlib import Path\ndef test_leaves(): Path('left').touch()", PASSES)
    (project.folder / "checks/test/conftest.py").write_text(LOOKS_AT_THE_END)

    code, printed = project.run()

    assert code == 1
    assert "once more" not in printed
    assert dict(end_of(printed))["tests"] == "FAILED"


def test_make_is_not_believed_that_tests_passed(project: Project) -> None:
    project.environment = {"MAKEFLAGS": "i", "GNUMAKEFLAGS": "i"}
    project.targets |= {"lint": "@false", "test-redis": "@true", "test": "-" + project.targets["test"]}
    project.write("test", FAILS)

    code, printed = project.run()

    assert code == 1
    told = dict(end_of(printed))
    assert [told[name] for name in STAGES if told[name] != "passed"] == ["FAILED"] * 3


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


def test_a_tester_that_died_fails_the_run(project: Project) -> None:
    """Whoever shares out tells it as a failed test; alone, the same test would pass."""
    dies = "import os\ndef test_dies():\n    if 'PYTEST_XDIST_WORKER' in os.environ: os._exit(3)"
    project.targets["test"] += " $(if $(TESTERS),,-p xdist -n 2)"
    project.write("test", dies, PASSES)

    code, printed = project.run()

    assert code == 1
    assert "once more" not in printed
    assert dict(end_of(printed))["tests"] == "FAILED"


def test_one_that_died_after_its_last_test_fails_it_too(project: Project) -> None:
    project.targets["test"] += " $(if $(TESTERS),,-p xdist -n 2)"
    project.write("test", PASSES, PASSES)
    (project.folder / "checks/test/conftest.py").write_text(DIES_LATE)

    code, printed = project.run()

    assert code == 1, printed
    assert "once more" not in printed
    assert dict(end_of(printed))["tests"] == "FAILED"


def test_a_stage_that_cannot_be_set_up_fails_and_the_others_run(project: Project) -> None:
    project.targets["test"] = "@exit 1"

    code, printed = project.run()

    assert code == 1
    assert dict(end_of(printed))["tests"] == "FAILED"
    assert dict(end_of(printed))["tests in a browser"] == "passed"


def test_as_many_as_are_forgiven_run_once_more_and_one_more_does_not(project: Project) -> None:
    project.write("test", *[UNSTEADY.replace('"ran"', f'"ran-{number}"') for number in range(5)])
    project.write("test-redis", PASSES)
    code, printed = project.run()
    assert (code, dict(end_of(printed))["tests"]) == (0, "unsteady"), printed

    for left in project.folder.glob("ran-*"):
        left.unlink()
    project.write("test-redis", UNSTEADY.replace('"ran"', '"ran-6"'))
    code, printed = project.run()
    assert code == 1
    assert "once more, alone" not in printed


def test_what_is_skipped_alone_is_not_unsteady(project: Project) -> None:
    again = UNSTEADY.replace("assert not first", "first or pytest.skip('not here')\n    assert not first")
    project.write("test", f"import pytest\n{again}")
    code, printed = project.run()
    assert (code, dict(end_of(printed))["tests"]) == (1, "FAILED"), printed


def test_a_crash_after_its_last_word_is_no_failed_test(project: Project) -> None:
    project.write("test", UNSTEADY)
    crash = "import os\ndef pytest_unconfigure(): os.abort()\n"
    (project.folder / "checks/test/conftest.py").write_text(crash)
    code, printed = project.run()
    assert (code, dict(end_of(printed))["tests"]) == (1, "FAILED"), printed


def test_what_cannot_be_kept_is_printed_and_the_run_goes_on(project: Project) -> None:
    project.write("test", UNSTEADY)
    (project.folder / "var").mkdir()
    (project.folder / "var/unsteady").write_text("in its place")
    code, printed = project.run()
    assert (code, dict(end_of(printed))["tests"]) == (0, "unsteady"), printed
    assert "what it said" in printed


def test_a_long_name_is_kept_under_a_shorter_one(project: Project) -> None:
    name = "é" * 110
    project.write("test", UNSTEADY.replace("test_unsteady", f"test_{name}"))
    code, printed = project.run()
    assert code == 0, printed
    (file,) = (project.folder / "var/unsteady").iterdir()
    assert name in file.read_text()


def test_what_outlives_its_terminal_goes_on(project: Project) -> None:
    project.ignores = "INT HUP"
    project.write("test", HANGS.replace("time.sleep(3600)", "until_gone(Path('hangs'))").replace(
        "def test_hangs", "def until_gone(path):\n    while path.exists(): time.sleep(0.05)\ndef test_hangs"
    ))  # fmt: skip
    with project.begun() as ci:
        until((project.folder / "hangs").exists, "a stage is under way")
        ci.send_signal(signal.SIGHUP)
        (project.folder / "hangs").unlink()
        printed, _ = ci.communicate()
    assert (ci.returncode, dict(end_of(printed))["tests"]) == (0, "passed"), printed


def test_our_make_notes_the_exit_code_of_each_stage(tmp_path: Path) -> None:
    for target in TESTED:
        asked = ["make", "-n", target, f"EXIT={tmp_path}/noted"]
        ran = subprocess.run(asked, cwd=ROOT, env=_ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True)
        assert ran.stdout.rstrip().endswith(f"; code=$?; echo $code >{tmp_path}/noted; exit $code")


@pytest.mark.parametrize("asked", ["0", "-1", "many"])
def test_all_rounds_are_played_once_or_more(asked: str) -> None:
    line = ["make", "test-endurance", f"ROUNDS={asked}", "ARGS=--collect-only"]
    ran = subprocess.run(line, cwd=ROOT, env=_ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 2
    assert "1 or more" in ran.stdout


def test_what_a_shell_asks_of_its_own_runs_is_not_asked_here(project: Project) -> None:
    project.environment = {
        "PYTEST_ADDOPTS": "--collect-only",
        "ROUNDS": "0",
        "TEST_DATABASE_URL": "postgresql://somebody@elsewhere/postgres",
        "PYTEST_PLUGINS": "no_such_plugin",
        "PYTHONOPTIMIZE": "1",
        "DATABASE_URL": "postgresql://somebody@elsewhere/postgres",
        "DJANGO_SETTINGS_MODULE": "no_such_settings",
        "FLIGHTDECK_PAGES": "0",
    }
    ours = ("ROUNDS", "PYTHONOPTIMIZE", *(name for name in project.environment if "PYTEST" not in name))
    unset = f'@test -z "{"".join(f"$${name}" for name in ours)}"'
    project.targets["test-endurance"] = f"{unset}\n\t{project.targets['test-endurance']}"
    project.write("test", FAILS)

    code, printed = project.run()

    assert code == 1
    assert dict(end_of(printed))["tests of endurance"] == "passed"


def test_what_a_thread_raised_stays_nobodys_where_the_modules_end_fails_too(project: Project) -> None:
    project.targets["test"] += " -W error::pytest.PytestUnhandledThreadExceptionWarning"
    project.write("test", ENDS_BADLY.format(when="first") + RAISED_BESIDE, PASSES)

    code, printed = project.run()

    assert code == 1
    assert "once more" not in printed
    assert dict(end_of(printed))["tests"] == "FAILED"


def test_a_strange_id_runs_again_as_it_is(project: Project) -> None:
    """An id holds whatever a parameter does: the shell and make see none of it."""
    imports, test = UNSTEADY.lstrip().split("\n", 1)
    strange = "@pytest.mark.parametrize('x', ['$(x) \\'a\\' \"b\" %d `c` é $$'])"
    test = test.replace("test_unsteady()", "test_unsteady(x)")
    project.write("test", "\n".join([imports, "import pytest", strange, test]))

    code, printed = project.run()

    assert code == 0, printed
    assert dict(end_of(printed))["tests"] == "unsteady"


def test_a_stage_that_takes_too_long_is_ended_and_said_and_those_after_it_have_their_time(
    project: Project,
) -> None:
    project.write("test", HANGS)

    for limit_s in (3.0, 15.0, 75.0, 375.0):  # a busy machine may be out of time before the test has begun
        project.limit_s = limit_s
        code, printed = project.run()
        assert code == 1
        assert dict(end_of(printed))["tests"] == "OUT OF TIME"
        outcomes = [outcome for _, outcome in end_of(printed)[4:]]
        if (project.folder / "hangs").exists() and outcomes == ["passed"] * 3:
            break

    assert "KeyboardInterrupt" in printed, "it was asked to end, not killed"
    assert outcomes == ["passed"] * 3


def test_what_a_thread_raises_meanwhile_is_nobodys_to_pass_alone(project: Project) -> None:
    project.write("test", RAISED_BESIDE)
    project.targets["test"] += " -W error::pytest.PytestUnhandledThreadExceptionWarning"

    code, printed = project.run()

    assert code == 1
    assert dict(end_of(printed))["tests"] == "FAILED"
    assert "unsteady" not in printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_ends_its_stage_and_says_what_came_of_it(project: Project, number: int) -> None:
    project.write("test", HANGS)

    with project.begun() as ci:
        until((project.folder / "hangs").exists, "the test hangs")
        ci.send_signal(number)
        printed, _ = ci.communicate(timeout=PATIENCE_S)

    assert ci.returncode == 130
    assert end_of(printed)[2:5] == [(STAGES[2], "passed"), ("tests", "INTERRUPTED"), (STAGES[4], "not run")]
    assert "KeyboardInterrupt" in printed, "it was asked to end, not killed"


def test_two_runs_in_one_folder_do_not_write_over_each_others_results(project: Project) -> None:
    project.write("test", HANGS)

    with project.begun() as ci:
        until((project.folder / "hangs").exists, "the test hangs")
        project.limit_s = 20.0  # or it would hang as the other does
        code, printed = project.run()
        ci.send_signal(signal.SIGINT)
        told, _ = ci.communicate(timeout=PATIENCE_S)

    assert (code, "under way" in printed, "== lint" in printed) == (75, True, False)
    assert dict(end_of(told))["types"] == "passed"
    project.limit_s = 3600.0
    project.write("test", PASSES)
    code, printed = project.run()
    assert code == 0, printed


def test_what_a_killed_run_began_is_under_way_until_it_ends(project: Project) -> None:
    project.write("test", HANGS)

    with project.begun() as ci:
        until((project.folder / "hangs").exists, "the test hangs")
        stage = psutil.Process(ci.pid).children(recursive=True)
        ci.kill()
        ci.wait(PATIENCE_S)
        project.limit_s = 20.0  # or it would hang as the other does
        try:
            code, printed = project.run()
        finally:
            for process in stage:
                process.kill()
            assert psutil.wait_procs(stage, timeout=PATIENCE_S)[1] == []

    assert (code, "== lint" in printed) == (75, False)
    project.limit_s = 3600.0
    project.write("test", PASSES)
    code, printed = project.run()
    assert code == 0, printed


def test_who_ends_all_of_a_run_at_once_is_told_what_came_of_it(project: Project) -> None:
    """As where a container stops; and they may ask twice."""
    project.write("test", HANGS)

    with project.begun() as ci:
        until((project.folder / "hangs").exists, "the test hangs")
        for process in [*psutil.Process(ci.pid).children(recursive=True), psutil.Process(ci.pid)]:
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        ci.send_signal(signal.SIGTERM)
        printed, _ = ci.communicate(timeout=PATIENCE_S)

    assert ci.returncode in (1, 130)
    assert end_of(printed)[2] == (STAGES[2], "passed")
