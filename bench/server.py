"""A private embedded PostgreSQL for one bench: as it is delivered, with fsync and synchronous_commit on.

What takes long to fill is kept from run to run under var/, in a folder named after the digest of all that
decides what is in it: migrations, the SQL they install, lifecycles, and the bench's own filler. Where one of
these changes, the old folder goes and the next run fills anew. `python -m bench.server forget` erases all.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from config import postgres
from config.supervisor import BASE_DIR, child_environment, migrate

VAR = BASE_DIR / "var"
# Everything in them decides what a migrated database is.
_SCHEMA = ("*/migrations/*.py", "*/migrations/sql/*.sql", "*/lifecycle/data/*.json")
_FILLED = "filled.json"
_KEPT, _DIGITS = "bench-kept-", 12
# Older data are no work of today any more: deadlines pass, and what was asked last week is no longer shown.
_FRESH = timedelta(days=7)


@dataclass(frozen=True)
class Server:
    """The running server, and the environment of processes that work on it. `told`: what filling it told."""

    running: postgres.RunningPostgres
    env: dict[str, str]
    told: Any = None

    def words(self) -> str:
        """What it runs and how durable a commit is, for the table's head."""
        names = ("server_version", "fsync", "synchronous_commit", "full_page_writes")
        with psycopg.connect(self.running.urls.app) as app:
            told = {name: app.execute(f"show {name}").fetchone() for name in names}
        return ", ".join(f"{name} {row[0]}" for name, row in told.items() if row)


@contextmanager
def opened(name: str, **env: str) -> Iterator[Server]:
    """The server under var/`name`, migrated; `env` is added to its processes' environment. Erased afterwards,
    and before if a killed run left one."""
    base = VAR / name
    erase(base)
    try:
        with _running(base, env) as on:
            _migrated(on)
            yield on
    finally:
        erase(base)


@contextmanager
def kept(
    name: str,
    *,
    fill: Callable[[Server], Any],
    fillers: Iterable[Path],
    size: object = "",
    env: Mapping[str, str],
) -> Iterator[Server]:
    """As `opened`, with data that stay: made once by `fill`, which answers what later runs are told (JSON).

    `fillers`: the files (or folders) that the data depend on, `size` how much is made; where these or the
    schema changed, or the data are older than a week, the data of that name are filled anew. A fill that was
    interrupted does not count.
    """
    base = VAR / f"{_KEPT}{name}-{made_of(fillers, size)}"
    filled = base / _FILLED
    if not _stands(filled):
        for old in VAR.glob(f"{_KEPT}{name}-{'[0-9a-f]' * _DIGITS}"):
            erase(old)
    with _running(base, env) as on:
        if not filled.exists():
            _migrated(on)
            told = json.dumps({"at": datetime.now(UTC).isoformat(), "told": fill(on)})
            with on.running.connect_admin() as admin:
                admin.execute("checkpoint")
            filled.write_text(told, encoding="utf-8")
        yield Server(on.running, on.env, json.loads(filled.read_text(encoding="utf-8"))["told"])


def made_of(fillers: Iterable[Path], size: object = "") -> str:
    """Twelve hexadecimal digits that differ wherever the schema, a filler or the size does."""
    digest = hashlib.sha256(str(size).encode())
    schema = (path for pattern in _SCHEMA for path in BASE_DIR.glob(pattern))
    ours = (path for filler in fillers for path in ([filler] if filler.is_file() else filler.rglob("*.py")))
    for path in sorted({*schema, *ours}):
        digest.update(f"{path.relative_to(BASE_DIR)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:_DIGITS]


def erase(base: Path) -> None:
    """Stop the server under `base` and delete it, where there is one."""
    if not base.exists():
        return
    data = postgres.data_dir(base)
    postgres.erase(base)
    shutil.rmtree(data.parent, ignore_errors=True)
    shutil.rmtree(base, ignore_errors=True)


def _stands(filled: Path) -> bool:
    try:
        at = datetime.fromisoformat(json.loads(filled.read_text(encoding="utf-8"))["at"])
    except (OSError, ValueError, KeyError):
        return False
    return datetime.now(UTC) - at < _FRESH


@contextmanager
def _running(base: Path, env: Mapping[str, str]) -> Iterator[Server]:
    base.mkdir(parents=True, exist_ok=True)
    base.chmod(0o755)  # run as root, the service account must get through
    with postgres.start(base) as running:
        whole = {
            **os.environ,
            **child_environment(running.urls),
            "FLIGHTDECK_VAR": str(base / "var"),
            "FLIGHTDECK_LOG_LEVEL": "WARNING",
            "FLIGHTDECK_ORGANISATION": "Halden & Marsh",
            "FLIGHTDECK_ORGANISATION_DOMAIN": "haldenmarsh.example",
            **env,
        }
        yield Server(running, whole)


def _migrated(on: Server) -> None:
    print("== migrating", flush=True)
    migrate(on.env)


def main() -> int:
    parser = argparse.ArgumentParser(description="The data that benches keep from run to run.")
    parser.add_argument("what", choices=("forget",), help="erase them all")
    parser.parse_args()
    for base in sorted(VAR.glob(f"{_KEPT}*")):
        erase(base)
        print(f"{base.relative_to(BASE_DIR)} is erased")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
