"""The step that every engine runs: it appends the time to one file, which costs each of them the same."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

VARIABLE = "BENCH_MARKS"
CHAIN = 10  # steps of a chain
_TIME = struct.Struct("d")
_PATIENCE_S = 60.0


def mark() -> None:
    """Append the present time."""
    handle = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    os.write(handle, _TIME.pack(time.time()))
    os.close(handle)


def clear(path: Path) -> None:
    """Empty the file. Nobody may be running steps."""
    path.write_bytes(b"")


def rate(path: Path, steps: int) -> float:
    """Wait until so many steps ran; return how many ran a second.

    Raises:
        SystemExit: None ran for a minute.
    """
    seen, since = -1, time.monotonic()
    while (count := path.stat().st_size // _TIME.size) < steps:
        if count != seen:
            seen, since = count, time.monotonic()
        elif time.monotonic() - since > _PATIENCE_S:
            raise SystemExit(f"{count} of {steps} steps ran, then none for a minute")
        time.sleep(0.01)
    if count != steps:
        raise SystemExit(f"{count} steps ran instead of {steps}")
    times = sorted(moment for (moment,) in _TIME.iter_unpack(path.read_bytes()))
    return (steps - 1) / (times[-1] - times[0])
