"""Data that benches keep from run to run, on an embedded PostgreSQL of their own."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bench import server


@pytest.fixture
def fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Kept data go under a folder of the test; nothing is migrated. How often something was filled."""
    monkeypatch.setattr(server, "VAR", tmp_path / "var")
    monkeypatch.setattr(server, "_migrated", lambda on: None)
    return []


def _open(fills: list[int], size: int = 1, name: str = "some") -> Any:
    """What a run is told, and how many rows it finds."""

    def fill(on: server.Server) -> int:
        fills.append(size)
        with on.running.connect_admin() as admin:
            admin.execute("create table kept as select generate_series(1, 3) as n")
        return size

    with server.kept(name, fill=fill, fillers=[Path(__file__)], size=size, env={}) as on:
        with on.running.connect_admin() as admin:
            found = admin.execute("select count(*) from kept").fetchone()
        return on.told, found and found[0]


def _folders(name: str) -> list[Path]:
    return sorted(server.VAR.glob(f"bench-kept-{name}-*"))


def test_what_was_filled_once_is_there_in_the_next_run(fills: list[int]) -> None:
    assert _open(fills) == _open(fills) == (1, 3)
    assert fills == [1]


def test_another_size_is_filled_anew_and_the_old_data_go(fills: list[int]) -> None:
    _open(fills)
    _open(fills, name="other")
    assert _open(fills, size=2) == (2, 3)
    assert fills == [1, 1, 2]
    assert len(_folders("some")) == len(_folders("other")) == 1


def test_a_fill_that_was_interrupted_and_old_data_do_not_count(fills: list[int]) -> None:
    _open(fills)
    [base] = _folders("some")
    (base / "filled.json").unlink()
    _open(fills)
    old = (datetime.now(UTC) - timedelta(days=8)).isoformat()
    (base / "filled.json").write_text(json.dumps({"at": old, "told": 1}))
    _open(fills)
    assert fills == [1, 1, 1]


def test_the_digest_names_migrations_what_they_install_and_the_filler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BASE_DIR", tmp_path)
    files = [
        "app/migrations/0001.py",
        "app/migrations/sql/a.sql",
        "app/lifecycle/data/a.json",
        "bench/fill.py",
    ]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one")
    filler = tmp_path / "bench" / "fill.py"
    seen = {server.made_of([filler])}
    for name in files:
        (tmp_path / name).write_text("another")
        seen.add(server.made_of([filler]))
    seen.add(server.made_of([filler], 2))
    (tmp_path / "app" / "models.py").write_text("changes nothing")
    assert server.made_of([filler], 2) in seen
    assert len(seen) == len(files) + 2
