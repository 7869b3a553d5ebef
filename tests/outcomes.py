"""What a session came to, for a program to read: ``--outcomes FILE`` writes it there as JSON.

``{"exit": pytest's exit code, "failed": {id of a test or file: what it printed when it failed first}}``
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", metavar="FILE", help="write which tests failed, and why, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    wanted = config.getoption("outcomes")
    if wanted and not hasattr(config, "workerinput"):  # of several testers, who shares out hears of all
        config.pluginmanager.register(Outcomes(Path(wanted)), "outcomes-of-the-session")


class Outcomes:
    """Hears of every report, and writes at the end; a session that was cut leaves no file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._failed: dict[str, str] = {}
        file.unlink(missing_ok=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps({"exit": int(exitstatus), "failed": self._failed}, indent=1))

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            captured = [f"--- {name}\n{text}" for name, text in report.sections]
            self._failed.setdefault(report.nodeid, "\n".join([report.longreprtext, *captured]))
