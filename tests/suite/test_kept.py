"""The migrated database is made once for a state of the sources; what is copied of it is that database."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from config import postgres
from tests import kept, scratch
from tests.database import THROWAWAY, erase_project, started


@pytest.fixture
def bases() -> Iterator[list[Path]]:
    made = [scratch.directory("kept-") for _ in range(4)]
    yield made
    for base in made:
        if not erase_project(base):
            shutil.rmtree(base)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "flightdeck-tests"


def migrate(urls: postgres.DatabaseUrls) -> None:
    """In the place of all migrations."""
    with psycopg.connect(urls.owner, autocommit=True) as owner:
        owner.execute("create table made (at timestamptz default clock_timestamp())")
        owner.execute("insert into made default values")


def made_at(base: Path) -> object:
    with postgres.start(base, settings=THROWAWAY) as running, psycopg.connect(running.urls.owner) as owner:
        return owner.execute("select at from made").fetchall()


def kept_in(cache: Path) -> list[str]:
    return sorted(each.name for each in cache.iterdir() if each.is_dir())


def test_another_state_is_made_anew_and_the_oldest_goes(
    bases: list[Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = []
    for number, base in enumerate(bases[:3]):
        monkeypatch.setattr(kept, "_ENVIRONMENT", (str(number + 1),))
        kept.lay_down(base, THROWAWAY, migrate)
        states.append(set(kept_in(cache)))
    assert [len(state) for state in states] == [1, 2, 2]
    assert states[0] < states[1]
    assert not states[0] & states[2]
    assert len({str(made_at(base)) for base in bases[:3]}) == 3


@pytest.mark.rule
def test_one_that_does_not_start_is_forgotten(bases: list[Path], cache: Path) -> None:
    kept.lay_down(bases[0], THROWAWAY, migrate)
    (entry,) = kept_in(cache)
    (control,) = (cache / entry).rglob("global/pg_control")
    control.write_bytes(b"")
    kept.lay_down(bases[1], THROWAWAY, migrate)
    with pytest.raises(postgres.PostgresError) as raised, started(bases[1]):
        pass
    assert any(str(cache / entry) in note for note in raised.value.__notes__)
    assert kept_in(cache) == []


def test_whatever_migrations_may_read_is_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = {str(path.relative_to(kept.ROOT)) for path in kept._sources()}
    wanted = {"requirements.txt", "tests/owning.py", "orders/migrations/0001_initial.py"}
    assert wanted <= found
    for name in ("orders", "tests", "requirements.txt"):
        whole = kept.ROOT / name
        (shutil.copytree if whole.is_dir() else shutil.copy)(whole, tmp_path / name)
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    digests = [kept._sources_digest()]
    for name in sorted(wanted):
        with (tmp_path / name).open("a") as file:
            file.write("# otherwise\n")
        digests.append(kept._sources_digest())
    (tmp_path / "orders/migrations/9999_new.sql").write_text("select 1")
    digests.append(kept._sources_digest())
    assert len(set(digests)) == len(digests)


def test_what_was_edited_since_the_tests_imported_it_is_not_kept(
    bases: list[Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is of the modules as they were: under the digest of the files it would be taken for theirs."""
    monkeypatch.setattr(kept, "_IMPORTED", "as the files were")
    kept.lay_down(bases[0], THROWAWAY, migrate)
    assert made_at(bases[0])
    assert kept_in(cache) == []
