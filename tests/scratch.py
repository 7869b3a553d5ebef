"""Where a session's data lie that are thrown away with it: in memory where there is plenty of it.

A database copied in memory takes a tenth of the processor time that it takes on a disk, whose file system
is asked for a thousand small files each time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

PREFIX = "flightdeck-test-"  # then the session's process id
_MEMORY = Path("/dev/shm")
_GIB = 1 << 30
# What a tester's server grows to, its log included (`tests.database.THROWAWAY`), and what others need.
_EACH, _OTHERS = 1 * _GIB, 3 * _GIB
_LIMITS = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))


def directory(what: str = "") -> Path:
    """A new directory that a service account gets through too, where the tests are run as root."""
    name = f"{of_session()}{what}"
    made = _in_memory(name) or Path(tempfile.mkdtemp(prefix=name))
    made.chmod(0o755)
    return made.resolve()


def _in_memory(name: str) -> Path | None:
    """Made before it is known whether there is room: of two that begin together each sees the other."""
    try:
        made = Path(tempfile.mkdtemp(prefix=name, dir=_MEMORY))
    except OSError:
        return None
    plenty = False
    try:
        plenty = _is_plenty()
    finally:
        if not plenty:
            made.rmdir()
    return made if plenty else None


def of_session() -> str:
    """How the names of this session's directories begin."""
    return f"{PREFIX}{os.getpid()}-"


def directories() -> Iterator[Path]:
    """Those of sessions that are over, wherever they were made: what a living one keeps there may be in use
    though no server runs on it."""
    for place in {_MEMORY, Path(tempfile.gettempdir())}:
        yield from (each for each in place.glob(f"{PREFIX}*") if not psutil.pid_exists(_session(each)))


def _session(made: Path) -> int:
    number = made.name.removeprefix(PREFIX).split("-")[0]
    return int(number) if number.isdecimal() else -1


def _is_plenty() -> bool:
    """Room for this session's testers, and for those of others that have only begun: what they will take is
    free yet."""
    testers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT") or 1)
    return _free() >= (testers + len(_testers_of_others())) * _EACH + _OTHERS


def _testers_of_others() -> set[int]:
    """The processes of other sessions that keep data there. Testers of one have one parent; a session
    without testers is one process, and what its parent began besides is another."""
    found, ours = set(), os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else None
    for made in _MEMORY.glob(f"{PREFIX}*"):
        with suppress(psutil.Error, ValueError):
            tester = psutil.Process(_session(made))
            if tester.ppid() != ours and tester.status() != psutil.STATUS_ZOMBIE:
                found.add(tester.pid)
    return found - {os.getpid()}


def _free(groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that may be taken there: of the file system, of the machine and of the container, the least."""
    try:
        least = min(shutil.disk_usage(_MEMORY).free, psutil.virtual_memory().available)
    except OSError:
        return 0
    for most, taken in _LIMITS:
        with suppress(OSError, ValueError):  # no such limit: no file, or the word `max`
            least = min(least, int((groups / most).read_text()) - int((groups / taken).read_text()))
    return least
