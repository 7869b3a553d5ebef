"""A module of tests leaves no process behind: what it started and did not end is ended for it, and fails it.

Whoever starts a process ends it in a ``finally`` that covers the wait for it to come up too; else what gave
up waiting works on beside all tests that follow. A process whose parent ended before it is no child of the
session any more: it is known by its environment, and found at the session's end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests import scratch
from tests.ending import kill
from tests.forked.popen import parent as forked
from tests.support import PATIENCE_S

_FORKED = "-m tests.forked.parent"
# What ends with the session: pools of racers, what keeps count of them, the browser's driver.
_ENDS_BY_ITSELF = (
    "from multiprocessing.spawn import",
    "from multiprocessing.resource_tracker import",
    "playwright/driver",
)
_DATABASE = "bin/postgres -D"
_MODEL_SERVER = "-m tests.assistant.model_server"
# What serves the whole session: the database and the model server too.
_OF_THE_SESSION = (_DATABASE, _MODEL_SERVER, *_ENDS_BY_ITSELF)
# In the environment of whatever a tester starts, and of whatever that starts: the tester's process id.
_TESTER = "STARTED_BY_TESTER"


@pytest.fixture(scope="session", autouse=True)
def _leaves_nothing_at_all() -> Iterator[None]:
    os.environ[_TESTER] = str(os.getpid())
    yield
    if told := end(begun()):
        raise AssertionError(f"left running by the session, and ended now: {'; '.join(told)}")


@pytest.fixture(scope="module", autouse=True)
def _leaves_no_process() -> Iterator[None]:
    before = set(children())
    yield
    left = [process for process in children() if process not in before]
    if told := end(left):
        raise AssertionError(f"left running, and ended now: {'; '.join(told)}")


def children() -> list[psutil.Process]:
    """Processes of this one that still run, but for those of the session."""
    found = []
    for process in psutil.Process().children():
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and not _is_one_of(_OF_THE_SESSION, process):
                found.append(process)
    return found


def begun() -> list[psutil.Process]:
    """Processes that this one, or what it started, ever began and that still run, but for those that end with
    it by themselves."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            told = process.pid != os.getpid() and (_is_told(process) or _is_database(process))
            if told and process.status() != psutil.STATUS_ZOMBIE and not _is_one_of(_ENDS_BY_ITSELF, process):
                found.append(process)
    return found


def _is_told(process: psutil.Process) -> bool:
    return process.environ().get(_TESTER) == str(os.getpid())


def _is_database(process: psutil.Process) -> bool:
    """A PostgreSQL of this session: it has an environment of its own, and works in its data directory."""
    if _DATABASE not in _line(process):
        return False
    return any(part.startswith(scratch.of_session()) for part in Path(process.cwd()).parts)


def end(left: list[psutil.Process]) -> list[str]:
    """Kill these processes with all below them; their command lines."""
    told = []
    for process in left:
        with suppress(psutil.Error):
            test = process.environ().get("PYTEST_CURRENT_TEST", "")
            told.append(f"{_line(process)[:300]} ({test})" if test else _line(process)[:300])
            kill(process)
    psutil.wait_procs(left, timeout=PATIENCE_S)
    return told


def _is_one_of(kinds: tuple[str, ...], process: psutil.Process) -> bool:
    if forked.forks(process):
        return True
    line = _line(process)
    return any(words in line for words in kinds)


def _line(process: psutil.Process) -> str:
    """Its command line; of what was forked the one it was to have, not the one it has of its parent."""
    line = " ".join(process.cmdline())
    return forked.began.get(process.pid, line) if _FORKED in line else line
