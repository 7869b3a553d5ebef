"""The pytest plugin of the mutation run. It is loaded before anything of the product is imported, and so
are the modules that are to be mutated."""

from __future__ import annotations

import pytest

from tests.mutants.making import Finder
from tests.mutants.sample import Wanted

_wanted = Wanted.of_environment()
_finder = Finder(_wanted.modules)
_finder.install()


_databases = []


@pytest.fixture(scope="session", autouse=True)
def _lane_databases(_leaves_nothing_at_all, database_server, template_database) -> None:
    """One for each lane, copies of the migrated template; ended before it is asked what was left."""
    _databases.extend(database_server.create(template=template_database) for _ in range(_wanted.testers))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without those that commit: they make a database each."""
    committing = [item for item in items if "committed_db" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=committing)
    items[:] = [item for item in items if item not in committing]


def pytest_runtestloop(session: pytest.Session) -> bool:
    """In the place of pytest's own."""
    from tests.mutants.running import tried  # the product is set up by now
    from tests.mutants.telling import survivors

    reporter = session.config.pluginmanager.get_plugin("terminalreporter")

    def tell(line: str) -> None:
        reporter.write_line(line)
        reporter.flush()

    if session.testsfailed:
        raise session.Interrupted("errors during collection")
    found = []
    for one in tried(session, _finder.made, _wanted, _databases, tell):
        found.append(one)
        tell(one.line())
    for line in survivors(found):
        tell(line)
    return True
