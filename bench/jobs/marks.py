"""The trivial step that every party runs, and what shows that it ran: the moment, appended to one file.

Appending costs a few microseconds, the same for everybody, and asks no party's database anything.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

VARIABLE = "BENCH_MARKS"
_MOMENT = struct.Struct("d")
_LOOK_AGAIN_S = 0.01
_STILL_S = 60.0
_WOKEN_LOOK_S = 0.0005
_PAUSE_S = 0.02
_handle: int | None = None


class StandstillError(Exception):
    """Nothing was done for a minute."""


def mark() -> None:
    """Note that a step runs now; whole, whoever else writes."""
    global _handle
    if _handle is None:
        _handle = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    os.write(_handle, _MOMENT.pack(time.time()))


class Marks:
    """The file, as those see it who wait for steps."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()

    def clear(self) -> None:
        """Begin anew; nobody may be at work."""
        os.truncate(self._path, 0)

    def count(self) -> int:
        return self._path.stat().st_size // _MOMENT.size

    def moments(self) -> list[float]:
        """When each step ran, Unix seconds, in order."""
        return sorted(moment for (moment,) in _MOMENT.iter_unpack(self._path.read_bytes()))

    def wait(self, steps: int, *, look_again_s: float = _LOOK_AGAIN_S) -> list[float]:
        """The moments of so many steps, as soon as they ran. Raises StandstillError."""
        seen, since = -1, time.monotonic()
        while (count := self.count()) < steps:
            if count != seen:
                seen, since = count, time.monotonic()
            elif time.monotonic() - since > _STILL_S:
                raise StandstillError(f"{count:,} of {steps:,} steps ran, then none for {_STILL_S:.0f} s")
            time.sleep(look_again_s)
        return self.moments()


def rate(moments: list[float]) -> float:
    """Steps per second between the first and the last."""
    return (len(moments) - 1) / (moments[-1] - moments[0])


def wakeups(times: int, start: Callable[[], float], ended: Callable[[], object]) -> dict[str, list[float]]:
    """Milliseconds to a step's first line, of single jobs, each begun when nothing else goes on: from the
    commit and from the call. `start` makes one and answers the moment just before its commit, `ended` waits
    for its end."""
    seen = Marks(Path(os.environ[VARIABLE]))
    seen.clear()
    told: dict[str, list[float]] = {"from_commit_ms": [], "from_call_ms": []}
    for number in range(1, times + 1):
        called = time.time()
        committing = start()
        begun = seen.wait(number, look_again_s=_WOKEN_LOOK_S)[-1]
        told["from_commit_ms"].append(1000 * (begun - committing))
        told["from_call_ms"].append(1000 * (begun - called))
        ended()
        time.sleep(_PAUSE_S)
    return told
