"""Seconds per folder of tests, beside their budgets, and the slowest tests."""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

_BUDGET = Path(__file__).with_name("budget.toml")
_SLOWEST = 15
_FEW = 50  # a session with fewer tests prints no table


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Costs(has_budget=_is_make_test(config)), "costs-of-the-session")


def _is_make_test(config: pytest.Config) -> bool:
    """Return whether this is a plain `make test`, which the budgets are for."""
    by_paths = config.args_source == pytest.Config.ArgsSource.TESTPATHS
    selected = config.option.keyword or "not deep" not in config.option.markexpr
    return by_paths and not selected and not os.environ.get("ROUNDS")


class Costs:
    """Adds up the seconds of all testers' tests."""

    def __init__(self, *, has_budget: bool) -> None:
        self._has_budget = has_budget
        self._seconds: Counter[str] = Counter()  # by test

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if len(self._seconds) < _FEW:
            return
        budget: dict[str, int] = tomllib.loads(_BUDGET.read_text())["seconds"]
        seconds: Counter[str] = Counter()
        tests: Counter[str] = Counter()
        for name, duration in self._seconds.items():
            folder = "/".join(name.split("::")[0].split("/")[1:-1])
            seconds[folder] += duration
            tests[folder] += 1
        terminalreporter.section("seconds per folder of tests (budget: tests/budget.toml)")
        terminalreporter.line(f"{'seconds':>9} {'budget':>7} {'tests':>6}")
        for folder, duration in seconds.most_common():
            allowed = budget.get(folder, 0)
            over = "  OVER BUDGET" if self._has_budget and duration > allowed else ""
            terminalreporter.line(f"{duration:9.1f} {allowed:7} {tests[folder]:6}  {folder}{over}")
        terminalreporter.line(f"{seconds.total():9.1f} {sum(budget.values()):7} {tests.total():6}  in all")
        terminalreporter.section(f"the {_SLOWEST} slowest tests")
        for name, duration in self._seconds.most_common(_SLOWEST):
            terminalreporter.line(f"{duration:9.1f}  {name}")
