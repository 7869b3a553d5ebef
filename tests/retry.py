"""Tells `.ci/run` whether failed tests may run once more: the cache value ``flightdeck/may_retry``.

They may not if the run was cut short, or if something failed after its test: a second run would hide it.
"""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Retry(config), "may-retry")


class _Retry:
    def __init__(self, config: pytest.Config) -> None:
        self._cache = config.cache
        self._failed_after_a_test = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed_after_a_test |= report.failed and report.when == "teardown"

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        only_tests_failed = exitstatus == pytest.ExitCode.TESTS_FAILED and not self._failed_after_a_test
        if self._cache is not None:
            self._cache.set("flightdeck/may_retry", only_tests_failed)
