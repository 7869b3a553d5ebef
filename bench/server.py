"""A private embedded PostgreSQL for one bench: as it is delivered, with fsync and synchronous_commit on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from config import postgres
from config.supervisor import BASE_DIR, child_environment, migrate


@dataclass(frozen=True)
class Server:
    """The running server, and the environment of processes that work on it."""

    running: postgres.RunningPostgres
    env: dict[str, str]

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
    base = BASE_DIR / "var" / name
    _erase(base)
    base.mkdir(parents=True)
    base.chmod(0o755)  # run as root, the service account must get through
    try:
        with postgres.start(base) as running:
            whole = {
                **os.environ,
                **child_environment(running.urls),
                "FLIGHTDECK_VAR": str(base / "var"),
                "FLIGHTDECK_LOG_LEVEL": "WARNING",
                **env,
            }
            print("== migrating", flush=True)
            migrate(whole)
            yield Server(running, whole)
    finally:
        _erase(base)


def _erase(base: Path) -> None:
    if not base.exists():
        return
    data = postgres.data_dir(base)
    postgres.erase(base)
    shutil.rmtree(data.parent, ignore_errors=True)
    shutil.rmtree(base, ignore_errors=True)
