"""A session's data lie in memory if there is room for all testers, and on the disk otherwise."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests import database, scratch


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an empty folder in the place of the file system in memory."""
    monkeypatch.setattr(scratch, "_MEMORY", tmp_path)
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "3")
    return tmp_path


@pytest.mark.parametrize(("gib", "where"), [(6, "memory"), (5.9, "disk")])
def test_it_is_in_memory_if_there_is_room(
    memory: Path, monkeypatch: pytest.MonkeyPatch, gib: float, where: str
) -> None:
    monkeypatch.setattr(scratch, "_free", lambda: int(gib * (1 << 30)))
    made = scratch.directory()
    made.rmdir()
    assert made.parent == (memory if where == "memory" else Path(tempfile.gettempdir()).resolve())


def test_data_of_killed_sessions_are_erased_and_no_others(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_free", lambda: 1 << 40)
    monkeypatch.setattr(tempfile, "tempdir", str(memory))
    ended = subprocess.run(["sh", "-c", "echo $$"], stdout=subprocess.PIPE, check=True)
    with monkeypatch.context() as killed:
        killed.setattr(os, "getpid", lambda: int(ended.stdout))
        left = scratch.directory()
    ours = scratch.directory()
    for made in (left, ours):
        os.utime(made, (0, 0))

    database._erase_killed_sessions()

    assert set(memory.iterdir()) == {ours}
