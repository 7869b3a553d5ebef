"""Where the time of a session went: its last lines are seconds and tests per folder, and what was dearest."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

_DEAREST = 15
_FEW = 50  # a session of fewer tests is somebody's look at some: it needs no table
_FIXTURES = "seconds_of_fixtures"


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs(config), "costs-of-the-session")


class Costs:
    """Hears of every test and, in each tester, of every fixture's own set-up and end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tests: Counter[str] = Counter()
        self._fixtures: Counter[str] = Counter()
        self._within: list[float] = []  # of fixtures being set up: what others took meanwhile

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        name, ending = f"{fixturedef.baseid or 'tests'}: {fixturedef.argname}", [0.0]

        def end_begins() -> None:
            ending[0] = time.perf_counter()

        def has_ended() -> None:
            self._fixtures[name] += time.perf_counter() - ending[0] if ending[0] else 0.0

        # The last one added is done first: what was built on it has ended by then.
        fixturedef.addfinalizer(has_ended)
        began = time.perf_counter()
        self._within.append(0.0)
        try:
            return (yield)
        finally:
            whole, others = time.perf_counter() - began, self._within.pop()
            self._fixtures[name] += whole - others
            if self._within:
                self._within[-1] += whole
            fixturedef.addfinalizer(end_begins)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tests[report.nodeid] += report.duration

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._fixtures.update(getattr(node, "workeroutput", {}).get(_FIXTURES, {}))

    def pytest_sessionfinish(self) -> None:
        if (output := getattr(self._config, "workeroutput", None)) is not None:
            output[_FIXTURES] = dict(self._fixtures)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if len(self._tests) < _FEW:
            return
        seconds: Counter[str] = Counter()
        tests: Counter[str] = Counter()
        for name, took in self._tests.items():
            folder = "/".join(name.split("::")[0].split("/")[:-1])
            seconds[folder] += took
            tests[folder] += 1
        terminalreporter.section("seconds and tests per folder")
        for folder, took in seconds.most_common():
            terminalreporter.line(f"{took:8.1f} s {tests[folder]:6}  {folder}")
        terminalreporter.line(f"{seconds.total():8.1f} s {tests.total():6}  in all")
        for words, found in (("tests", self._tests), ("fixtures, each in all its uses", self._fixtures)):
            terminalreporter.section(f"the {_DEAREST} dearest {words}")
            for name, took in found.most_common(_DEAREST):
                terminalreporter.line(f"{took:8.1f} s  {name}")
