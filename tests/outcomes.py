"""What a session came to, for a program to read: ``--outcomes FILE`` writes it there, a line of JSON for each
thing that is told.

``{"id": of a test or file that failed, "printed": what it said, "again": what has to run to see whether it
fails alone, null where nothing can tell}``, at once; of one id the last line counts. At the session's end
``{"exit": pytest's exit code, "passed": how many tests passed}``: a session that was cut has no such line.

A test is run again by its id. What a module's fixture says at its end is told of the last test that ran,
whoever is to blame: there the whole module runs again. What is said at a session's end may be any module's
fault, as may what a thread, or something that is thrown away, raises meanwhile; a file that cannot be read,
or a tester that died, is not cured by a second look. There nothing can tell.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

_IS_LAST = pytest.StashKey[bool]()
# Raised beside whichever test runs when they surface.
_OF_ANOTHER = ("PytestUnhandledThreadExceptionWarning", "PytestUnraisableExceptionWarning")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", metavar="FILE", help="write which tests failed, and why, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    wanted = config.getoption("outcomes")
    if wanted and not hasattr(config, "workerinput"):  # of several testers, who shares out hears of all
        config.pluginmanager.register(Outcomes(Path(wanted)), "outcomes-of-the-session")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    item.stash[_IS_LAST] = nextitem is None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In each tester; what it notes of a report reaches whoever shares the tests out."""
    report = yield
    report.at_the_end = call.when == "teardown" and item.stash.get(_IS_LAST, False)
    return report


class Outcomes:
    """Hears of every report, and writes each failure at once: of a session that was cut it is told which
    tests had failed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._failed: dict[str, dict[str, str | None]] = {}
        self._passed = 0
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._passed += report.when == "call" and report.passed
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        """Of a tester that dies after its last test pytest only says that it has another."""
        if error is not None:
            died = {"printed": f"The tester ended in the middle: {error}", "again": None}
            self._failed.setdefault(f"tester {node.gateway.id}", died)
            self._write_at_once(f"tester {node.gateway.id}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """All anew: for a line there may have been no room."""
        draft = self._file.with_suffix(".draft")
        ends = json.dumps({"exit": int(exitstatus), "passed": self._passed})
        draft.write_text("".join([*map(self._line, self._failed), ends, "\n"]))
        draft.replace(self._file)  # whole or not at all

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            self._add(report)
            self._write_at_once(report.nodeid)

    def _write_at_once(self, name: str) -> None:
        with suppress(OSError), self._file.open("a") as file:  # no room, perhaps: at the end that is told
            file.write("\n" + self._line(name))  # the line before may have been cut

    def _line(self, name: str) -> str:
        return json.dumps({"id": name, **self._failed[name]}) + "\n"

    def _add(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        captured = [f"--- {name}\n{text}" for name, text in report.sections]
        found = {"printed": "\n".join([report.longreprtext, *captured]), "again": _again(report)}
        before = self._failed.setdefault(report.nodeid, found)
        if before is found:
            return
        before["printed"] = f"{before['printed']}\n\n{found['printed']}"
        # Where one of both is nobody's to pass alone, so is the test; of the others the end says more.
        before["again"] = before["again"] and found["again"]


def _again(report: pytest.TestReport | pytest.CollectReport) -> str | None:
    if any(words in report.longreprtext for words in _OF_ANOTHER):
        return None
    if report.when in ("setup", "call"):
        return report.nodeid
    if getattr(report, "at_the_end", False):
        return None
    return report.nodeid.split("::")[0] if report.when == "teardown" else None
