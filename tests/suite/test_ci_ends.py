"""`.ci/run` that is cut: by its limit, by who interrupts or kills it, by a disk that is full."""

from __future__ import annotations

import signal
from contextlib import suppress

import psutil
import pytest

from tests.suite.ci import FAILS, HANGS, PASSES, STAGES, UNSTEADY, Project, end_of
from tests.support import PATIENCE_S, until

ENDS_WHEN_IT_MAY = """
import time
from pathlib import Path
def test_hangs():
    try:
        time.sleep(3600)
    finally:
        Path("ending").touch()
        while not Path("may").exists():
            time.sleep(0.05)
"""
DOES_NOT_END = """
import signal, time
from pathlib import Path
def test_hangs():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Path("hangs").touch()
    time.sleep(3600)
"""
FAILED_BEFORE = [("FAILED", "checks/test/test_0_test.py::test_fails")]


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


def test_a_stage_that_takes_too_long_is_ended_and_said_and_those_after_it_have_their_time(
    project: Project,
) -> None:
    project.write("test", FAILS, HANGS)

    for limit_s in (3.0, 15.0, 75.0, 375.0):  # a busy machine may be out of time before the test has begun
        project.limit_s = limit_s
        code, printed = project.run()
        assert code == 1
        assert dict(end_of(printed))["tests"] == "OUT OF TIME"
        outcomes = [outcome for _, outcome in end_of(printed)[4:7]]
        if (project.folder / "hangs").exists() and outcomes == ["passed"] * 3:
            break

    assert "KeyboardInterrupt" in printed, "it was asked to end, not killed"
    assert outcomes == ["passed"] * 3
    assert end_of(printed)[7:] == FAILED_BEFORE


def test_a_stage_that_does_not_end_when_it_is_asked_to_is_killed(project: Project) -> None:
    project.environment = {"CI_GRACE_S": "1"}
    project.write("test", DOES_NOT_END)

    for limit_s in (5.0, 25.0, 125.0):  # a busy machine may be out of time before the test has begun
        project.limit_s = limit_s
        code, printed = project.run()
        if (project.folder / "hangs").exists() and end_of(printed)[-1][1] == "passed":
            break

    assert (code, dict(end_of(printed))["tests"], end_of(printed)[-1][1]) == (1, "OUT OF TIME", "passed")
    assert "KeyboardInterrupt" not in printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_ends_its_stage_and_says_what_came_of_it(project: Project, number: int) -> None:
    project.write("test", FAILS, HANGS)

    with project.begun() as ci:
        until((project.folder / "hangs").exists, "the test hangs")
        ci.send_signal(number)
        printed, _ = ci.communicate(timeout=PATIENCE_S)

    assert ci.returncode == 130
    assert end_of(printed)[2:5] == [(STAGES[2], "passed"), ("tests", "INTERRUPTED"), (STAGES[4], "not run")]
    assert end_of(printed)[7:] == FAILED_BEFORE
    assert "KeyboardInterrupt" in printed, "it was asked to end, not killed"


def test_a_run_that_is_asked_to_end_while_it_ends_a_stage_ends_after_it(project: Project) -> None:
    project.write("test", ENDS_WHEN_IT_MAY)
    ending, may = project.folder / "ending", project.folder / "may"

    for limit_s in (3.0, 15.0, 45.0):  # a busy machine may be out of time before the test has begun
        project.limit_s = limit_s
        may.unlink(missing_ok=True)
        with project.begun() as ci:
            until(lambda ci=ci: ending.exists() or ci.poll() is not None, "its stage is being ended")
            ci.send_signal(signal.SIGTERM)
            may.touch()
            printed, _ = ci.communicate(timeout=PATIENCE_S)
        if ending.exists():
            break

    assert ci.returncode == 130
    assert end_of(printed)[3:5] == [("tests", "INTERRUPTED"), (STAGES[4], "not run")]


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


def test_what_failed_before_a_stage_was_killed_is_told(project: Project) -> None:
    """As where the machine has no memory left."""
    dies = "import os, signal\ndef test_dies(): os.kill(os.getpid(), signal.SIGKILL)"
    project.write("test", FAILS, dies)

    code, printed = project.run()

    assert code == 1
    assert ("tests", "FAILED") in end_of(printed)
    assert end_of(printed)[7:] == FAILED_BEFORE


def test_where_there_is_no_room_to_run_one_alone_it_has_failed(project: Project) -> None:
    project.write("test", f"{UNSTEADY}\n    Path('var/ci/alone').mkdir(exist_ok=True)\n")

    code, printed = project.run()

    assert (code, dict(end_of(printed))["tests"]) == (1, "FAILED"), printed
    assert ("FAILED", "checks/test/test_0_test.py::test_unsteady") in end_of(printed)


def test_a_stage_whose_tests_are_all_skipped_shows_nothing(project: Project) -> None:
    project.write("test", "import pytest\ndef test_it(): pytest.skip('not here')")

    code, printed = project.run()

    assert (code, dict(end_of(printed))["tests"]) == (1, "NO TEST PASSED"), printed


def test_each_failure_is_written_once(project: Project) -> None:
    """And not all of them at each: of thousands that would take longer than the tests."""
    many = (
        "import pytest\n@pytest.mark.parametrize('n', range(40))\ndef test_fails(n): assert False, 'x' * 2000"
    )
    project.write("test", many, "import os\ndef test_dies(): os._exit(3)")

    code, printed = project.run()

    assert (code, len(end_of(printed)[7:])) == (1, 40), printed
    told = next((project.folder / "var/ci").glob("test-[0-9]*.jsonl"))
    assert len([line for line in told.read_text().splitlines() if line]) == 40
