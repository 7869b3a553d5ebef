"""The processes of a run: the product under its own supervisor, a second worker cluster, the sellers.

Everything is private to the run and lies below `home`: database, secrets, the sellers' books, the log.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import requests

from bench.chaos.plan import BATCH, SELLERS
from bench.chaos.seller.__main__ import HOST, TOKEN_VARIABLE
from config import postgres
from config.processes import ProcessGroup
from config.supervisor import BASE_DIR, child_environment
from demo.ports import free_port

START_S = 300
# The documents' times, shortened: leases and limits, so that kills are healed within seconds; polls. A lease
# is longer than the call that it is for may take: no stall of a worker gives away a slot whose call is out.
PACES = {
    "FLIGHTDECK_POLL_SCALE": "0.05",
    "FLIGHTDECK_EVENT_TICK_S": "1",
    "FLIGHTDECK_STEP_LEASE_S": "4",
    "FLIGHTDECK_OPERATION_LEASE_S": "10",
    "FLIGHTDECK_CALL_TIMEOUT_S": "4",
    "FLIGHTDECK_WORKING_TIMEOUT_S": "4",
    "FLIGHTDECK_WORKERS": "1",
    # Few, so that one seller's purchases can fill it.
    "FLIGHTDECK_SWEEP_BATCH": str(BATCH),
    "FLIGHTDECK_LOG_LEVEL": "WARNING",
    "FLIGHTDECK_ORGANISATION": "Halden & Marsh",
    "FLIGHTDECK_ORGANISATION_DOMAIN": "haldenmarsh.example",
}


class StageError(Exception):
    """The run cannot be set up; the text says why, the log more."""


class Stage:
    """Use as a context manager: leaving it ends every process and drops the database. `migrated`: the
    database is there, with all migrations run and nothing in it; else the product makes it."""

    def __init__(self, home: Path, *, seed: int, operations: int, migrated: bool = False) -> None:
        self.home = home
        self._migrated = migrated
        self.port = free_port()
        self.token = secrets.token_urlsafe(24)
        self._arguments = ["--seed", str(seed), "--operations", str(operations)]
        self._seller_ports = {name: free_port() for name in SELLERS}
        self._env = {
            **PACES,
            "FLIGHTDECK_VAR": str(home / "var"),
            "FLIGHTDECK_PUBLIC_URL": f"http://{HOST}:{self.port}",
            "FLIGHTDECK_HOSTS": HOST,
            # What a user set for real use must not leak into the run.
            "DATABASE_URL": "",
            "MIGRATE_DATABASE_URL": "",
        }

    def __enter__(self) -> Stage:
        if not self._migrated:
            erase(self.home)
            self.home.mkdir(parents=True)
        self.home.chmod(0o755)  # run as root, the database's account must get through
        self._log = (self.home / "log").open("w", encoding="utf-8")
        self.group = ProcessGroup(output=self._log).__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.group.stop()
        finally:
            self._log.close()
            postgres.erase(self.home)

    def start(self) -> None:
        """Start everything; back when the web server answers. Raises StageError."""
        for name in SELLERS:
            self._start_seller(name)
        product = [sys.executable, "-m", "config.supervisor", "run", "--port", str(self.port)]
        self.group.start(
            "product", [*product, "--home", str(self.home)], env=self._env, cwd=BASE_DIR, restart=True
        )
        self._await(lambda: _answers(f"http://{HOST}:{self.port}/health/"), "the web server")
        env = {**self._env, **child_environment(postgres.database_urls(self.home, {}))}
        worker = [sys.executable, "manage.py", "worker"]
        self.group.start("more", worker, env=env, cwd=BASE_DIR, restart=True)
        # This process reads the sellers at the end, and is in no hurry then.
        os.environ.update({**env, "FLIGHTDECK_CALL_TIMEOUT_S": str(START_S)})

    def seller_url(self, name: str) -> str:
        """Where the product reaches it."""
        address = f"http://{HOST}:{self._seller_ports[name]}"
        return f"{address}/mcp" if SELLERS[name][0] == "mcp" else address

    def jwks_url(self, name: str) -> str:
        return f"http://{HOST}:{self._seller_ports[name]}/jwks.json"

    def books(self, name: str) -> Path:
        return self.home / "sellers" / name / "books.db"

    def _start_seller(self, name: str) -> None:
        folder = self.home / "sellers" / name
        folder.mkdir(parents=True, mode=0o700)
        port = ["--port", str(self._seller_ports[name]), "--folder", str(folder)]
        command = [sys.executable, "-m", "bench.chaos.seller", "--name", name, *port, *self._arguments]
        self.group.start(name, command, env={TOKEN_VARIABLE: self.token}, cwd=BASE_DIR, restart=True)

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        if not self.group.wait(condition, timeout_s=START_S):
            raise StageError(f"{what} did not start within {START_S} s; see {self.home / 'log'}")


def erase(home: Path) -> None:
    """Remove what an earlier run left, a killed one too."""
    if not home.exists():
        return
    data = postgres.data_dir(home)
    postgres.erase(home)
    with suppress(OSError):
        shutil.rmtree(data.parent)
    shutil.rmtree(home, ignore_errors=True)


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=2).ok
    except requests.RequestException:
        return False
