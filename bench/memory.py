"""Memory of a process and all below it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil


def processes(pid: int) -> list[psutil.Process]:
    """The process and its descendants; nothing when it is gone."""
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def proportional(process: psutil.Process) -> int:
    """Bytes, shared pages counted once (PSS); where the system does not tell them, resident ones."""
    if Path("/proc/self/smaps_rollup").exists():
        return int(process.memory_full_info().pss)
    return int(process.memory_info().rss)


def resident(process: psutil.Process) -> int:
    """Bytes held (RSS)."""
    return int(process.memory_info().rss)


def tree_mb(pid: int, measure: Callable[[psutil.Process], int]) -> float:
    """Of the process and all below it together, in megabytes."""
    return sum(measure(process) for process in processes(pid)) / 2**20
