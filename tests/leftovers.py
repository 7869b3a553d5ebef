"""A module of tests leaves no process behind: what it started and did not end is ended for it, and fails it.

Whoever starts a process ends it in a ``finally`` that covers the wait for it to come up too; else what gave
up waiting works on beside all tests that follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from tests.ending import kill
from tests.forked.popen import parent as forked
from tests.support import PATIENCE_S

_FORKED = "-m tests.forked.parent"
# What serves the whole session: database, pools of racers, what keeps count of them, the browser's driver.
_OF_THE_SESSION = (
    "bin/postgres -D",
    "from multiprocessing.spawn import",
    "from multiprocessing.resource_tracker import",
    "playwright/driver",
    _FORKED,
)


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
            if process.status() != psutil.STATUS_ZOMBIE and not _of_the_session(process):
                found.append(process)
    return found


def end(left: list[psutil.Process]) -> list[str]:
    """Kill these processes with all below them; their command lines."""
    told = []
    for process in left:
        with suppress(psutil.Error):
            told.append(_line(process)[:300])
            kill(process)
    psutil.wait_procs(left, timeout=PATIENCE_S)
    return told


def _of_the_session(process: psutil.Process) -> bool:
    line = _line(process)
    return any(words in line for words in _OF_THE_SESSION)


def _line(process: psutil.Process) -> str:
    """Its command line; of what was forked the one it was to have, not the one it has of its parent."""
    line = " ".join(process.cmdline())
    return forked.began.get(process.pid, line) if _FORKED in line else line
