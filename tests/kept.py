"""The embedded database with all migrations run: made once a day for each state of the sources, then copied.

Making it takes some twenty seconds of processor time, copying it a tenth of one. What is kept lies in the
machine's cache folder under a digest of all that it was made of; the two made last are kept.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from config import postgres
from config.postgres import engine
from config.postgres.addresses import EMBEDDED, address_file

ROOT = Path(__file__).resolve().parent.parent
# Migrations import what they write: functions, rights, initial rows.
_SOURCES = ("config", "campaigns", "orders", "tasks_app")
_OF_TESTS = ("database.py", "owning.py", "kept.py")
_MOST_KEPT = 2
_DRAFT = "new-"
# Which database a process uses, not what is in it.
_ADDRESSES = {"FLIGHTDECK_DB_LOGIN", EMBEDDED}


def _sources_digest() -> str:
    told = hashlib.sha256()
    for path in _sources():
        told.update(f"{path.relative_to(ROOT)}\0".encode())
        told.update(hashlib.sha256(path.read_bytes()).digest())
    return told.hexdigest()


def _sources() -> list[Path]:
    found = [
        path
        for name in _SOURCES
        for path in (ROOT / name).rglob("*")
        if path.suffix in (".py", ".sql", ".json")
    ]
    return sorted([ROOT / "requirements.txt", *(ROOT / "tests" / name for name in _OF_TESTS), *found])


def _decides(name: str) -> bool:
    return name.startswith("FLIGHTDECK_") and name not in _ADDRESSES


# Taken before the tests import them: what somebody edits from then on is not what is migrated.
_IMPORTED = _sources_digest()
# What the session was started with: what a test sets for its processes decides nothing of a migration.
_ENVIRONMENT = tuple(f"{name}={value}" for name, value in sorted(os.environ.items()) if _decides(name))


def lay_down(
    base: Path, settings: Mapping[str, str], migrate: Callable[[postgres.DatabaseUrls], None]
) -> None:
    """Put the migrated embedded database, stopped, into ``base``, an empty project directory.

    Where none is kept, a server is started there with ``settings`` and ``migrate`` called; who comes
    meanwhile waits. Where the cache folder cannot be written, each session makes its own.
    """
    with _locked() as folder:
        if folder is None:
            _make(base, settings, migrate)
            return
        kept = folder / _digest()
        if kept.is_dir():
            home = postgres.data_dir(base).parent
            home.mkdir(parents=True, exist_ok=True)
            home.chmod(0o755)  # run as root, the service account must get through
            _copy([*kept.iterdir()], home)
        else:
            _make(base, settings, migrate)
            if _sources_digest() == _IMPORTED:
                with suppress(OSError, subprocess.SubprocessError):  # no room: the next session makes its own
                    _keep(postgres.data_dir(base), kept)


def forget() -> Path | None:
    """Keep no longer what this session was given: it does not start. Answers where that was, None where
    nothing can be kept."""
    with _locked() as folder:
        if folder is None:
            return None
        kept = folder / _digest()
        shutil.rmtree(kept, ignore_errors=True)
        return kept


def _make(base: Path, settings: Mapping[str, str], migrate: Callable[[postgres.DatabaseUrls], None]) -> None:
    with postgres.start(base, settings=settings) as running:
        migrate(running.urls)


def _keep(data: Path, kept: Path) -> None:
    """The data and the passwords of its roles, whole or not at all; of the older ones the last stays."""
    made, drafts = [], []
    for each in kept.parent.iterdir():
        if each.is_dir():
            (drafts if each.name.startswith(_DRAFT) else made).append(each)
    for left in drafts:  # by sessions that were killed: this one holds the lock
        shutil.rmtree(left, ignore_errors=True)
    for old in sorted(made, key=lambda each: each.stat().st_mtime)[: -(_MOST_KEPT - 1)]:
        shutil.rmtree(old.rename(old.with_name(f"{_DRAFT}old-{old.name}")), ignore_errors=True)
    draft = Path(tempfile.mkdtemp(dir=kept.parent, prefix=_DRAFT))
    try:
        _copy([data, address_file(data)], draft)
        os.sync()  # the database itself syncs nothing here: a machine that stops would leave the name alone
        draft.rename(kept)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _copy(found: list[Path], into: Path) -> None:
    subprocess.run(["cp", "-a", *found, into], check=True)


@contextmanager
def _locked() -> Iterator[Path | None]:
    """The folder of what is kept, for one process at a time; None where there can be none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "flightdeck-tests"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield None
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(handle)


def _digest() -> str:
    """Of the day too: what migrations make of the present moment, such as a month's partition, grows old."""
    told = hashlib.sha256()
    for word in (
        datetime.now(UTC).date().isoformat(),
        importlib.metadata.version(engine.WHEEL),
        importlib.metadata.version("django"),
        str(os.geteuid()),
        *_ENVIRONMENT,
    ):
        told.update(f"{word}\0".encode())
    told.update(_IMPORTED.encode())
    return told.hexdigest()[:24]
