"""`.ci/run` on small projects: every stage, failed tests once more and alone, and what it says at the end."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.suite.ci import (
    DIES_LATE,
    ENDS_BADLY,
    ENVIRONMENT,
    FAILS,
    LOOKS_AT_THE_END,
    PASSES,
    RAISED_BESIDE,
    ROOT,
    STAGES,
    TESTED,
    UNSTEADY,
    Project,
    end_of,
)


def test_all_stages_pass(project: Project) -> None:
    code, printed = project.run()

    assert code == 0, printed
    assert end_of(printed) == [(name, "passed") for name in STAGES]
    assert not (project.folder / "var/unsteady").exists()


def test_a_test_of_endurance_is_played_in_its_own_stage(project: Project) -> None:
    marked = f"import pytest\npytestmark = pytest.mark.endurance\n{FAILS}"
    project.write("test", PASSES, marked)
    project.write("test-endurance", marked)

    code, printed = project.run()

    assert code == 1
    failed = ("FAILED", "checks/test-endurance/test_0_test_endurance.py::test_fails")
    assert end_of(printed)[len(STAGES) :] == [failed]


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


def test_our_make_notes_the_exit_code_of_each_stage(tmp_path: Path) -> None:
    for target in TESTED:
        asked = ["make", "-n", target, f"EXIT={tmp_path}/noted"]
        ran = subprocess.run(asked, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True)
        assert ran.stdout.rstrip().endswith(f"; code=$?; echo $code >{tmp_path}/noted; exit $code")


@pytest.mark.parametrize("asked", ["0", "-1", "many"])
def test_all_rounds_are_played_once_or_more(asked: str) -> None:
    line = ["make", "test-endurance", f"ROUNDS={asked}", "ARGS=--collect-only"]
    ran = subprocess.run(line, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=False)
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


def test_what_a_thread_raises_meanwhile_is_nobodys_to_pass_alone(project: Project) -> None:
    project.write("test", RAISED_BESIDE)
    project.targets["test"] += " -W error::pytest.PytestUnhandledThreadExceptionWarning"

    code, printed = project.run()

    assert code == 1
    assert dict(end_of(printed))["tests"] == "FAILED"
    assert "unsteady" not in printed
