"""Data that are thrown away lie in memory where there is plenty of it, and on the disk elsewhere."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests import database, scratch
from tests.ending import ending, line_of


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the place of a file system in memory."""
    monkeypatch.setattr(scratch, "_MEMORY", tmp_path)
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "3")
    return tmp_path


def limited(groups: Path, most: str, taken: int) -> Path:
    (groups / "memory.max").write_text(f"{most}\n")
    (groups / "memory.current").write_text(f"{taken}\n")
    return groups


@pytest.mark.parametrize(("gib", "where"), [(6, "memory"), (5.9, "disk"), (0, "disk")])
def test_in_memory_where_there_is_plenty(
    memory: Path, monkeypatch: pytest.MonkeyPatch, gib: float, where: str
) -> None:
    monkeypatch.setattr(scratch, "_free", lambda: int(gib * (1 << 30)))
    made = scratch.directory()
    try:
        assert made.parent == (memory if where == "memory" else Path(tempfile.gettempdir()).resolve())
        assert made.stat().st_mode & 0o777 == 0o755
        assert made not in {each.resolve() for each in scratch.directories()}, "it is a living session's"
    finally:
        made.rmdir()


def test_testers_of_another_session_have_their_part_though_they_took_nothing_yet(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_free", lambda: 7 * (1 << 30))
    with ending(subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE)) as other:
        theirs = int(line_of(other.stdout))
        for name in (
            f"{scratch.PREFIX}{theirs}-a",
            f"{scratch.PREFIX}{theirs}-b",
            f"{scratch.PREFIX}99999999-c",
        ):
            (memory / name).mkdir()
        assert scratch._testers_of_others() == {theirs}
        assert scratch._is_plenty(), "three of ours, one of theirs, and what others need"
        monkeypatch.setattr(scratch, "_free", lambda: 7 * (1 << 30) - 1)
        assert not scratch._is_plenty()
    assert scratch._is_plenty(), "it is over"


@pytest.mark.parametrize("tester", [True, False])
def test_whoever_has_the_same_parent_is_of_one_session_only_among_its_testers(
    memory: Path, monkeypatch: pytest.MonkeyPatch, tester: bool
) -> None:
    if tester:
        monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw1")
    else:
        monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    with ending(
        subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE)
    ) as parent:
        beside = int(line_of(parent.stdout))
        (memory / f"{scratch.PREFIX}{beside}-a").mkdir()
        monkeypatch.setattr(os, "getppid", lambda: parent.pid)
        assert scratch._testers_of_others() == (set() if tester else {beside})


def test_what_killed_sessions_left_is_erased_and_nothing_of_a_living_one(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_free", lambda: 1 << 40)
    monkeypatch.setattr(tempfile, "tempdir", str(memory))
    told = subprocess.run(["sh", "-c", "echo $$"], stdout=subprocess.PIPE, check=True)
    with monkeypatch.context() as killed:
        killed.setattr(os, "getpid", lambda: int(told.stdout))
        left = {scratch.directory(), scratch.directory("project-")}
    ours = {scratch.directory(), scratch.directory("project-")}
    assert set(scratch.directories()) == left

    database._erase_killed_sessions()
    assert set(memory.iterdir()) == left | ours, "they are young: somebody may be about to use them"
    for made in left | ours:
        os.utime(made, (0, 0))
    database._erase_killed_sessions()
    assert set(memory.iterdir()) == ours


def test_what_the_container_may_take_counts(memory: Path) -> None:
    assert scratch._free(memory) > 0
    assert scratch._free(limited(memory, "max", 5)) > 0
    assert scratch._free(limited(memory, "1000", 400)) == 600
    assert scratch._free(limited(memory, "1000", 1400)) < 0


def test_there_is_none_without_such_a_file_system(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_MEMORY", memory / "none")
    assert scratch._free() == 0
