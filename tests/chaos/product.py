"""The processes of a run: the product under its supervisor, a second worker cluster, and the sellers."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import requests

from config import postgres
from config.processes import ProcessGroup
from config.supervisor import BASE_DIR, child_environment
from demo.ports import free_port
from tests.chaos.plan import SELLERS, Scenario
from tests.fake_seller.driver import HOST, FakeSeller

_START_S = 300
# Short leases and limits, so that the product recovers from a kill within seconds. The lease of an operation
# is longer than a call may take.
_SETTINGS = {
    "FLIGHTDECK_POLL_SCALE": "0.05",
    "FLIGHTDECK_EVENT_TICK_S": "1",
    "FLIGHTDECK_STEP_LEASE_S": "4",
    "FLIGHTDECK_OPERATION_LEASE_S": "10",
    "FLIGHTDECK_CALL_TIMEOUT_S": "4",
    "FLIGHTDECK_WORKING_TIMEOUT_S": "4",
    "FLIGHTDECK_WORKERS": "1",
    "FLIGHTDECK_LOG_LEVEL": "WARNING",
    "FLIGHTDECK_ORGANISATION": "Halden & Marsh",
    "FLIGHTDECK_ORGANISATION_DOMAIN": "haldenmarsh.example",
    # The user's own database stays out of the run.
    "DATABASE_URL": "",
    "MIGRATE_DATABASE_URL": "",
}


class StartError(Exception):
    """The run cannot be set up. The text says why, the log more."""


class Product:
    """All processes of a run, below the directory `home`. A context manager that ends them.

    `migrated`: `home` already holds an embedded database with all migrations run.
    """

    def __init__(self, home: Path, scenarios: list[Scenario], *, migrated: bool) -> None:
        self.home = home
        self._scenarios = scenarios
        self._migrated = migrated

    def __enter__(self) -> Product:
        if not self._migrated:
            erase(self.home)
            self.home.mkdir(parents=True)
        self.home.chmod(0o755)  # run as root, the database's own account reads below it
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
        """Start everything and wait for the web server. Raise StartError."""
        self.sellers = {name: self._start_seller(name) for name in SELLERS}
        port = free_port()
        url = f"http://{HOST}:{port}"
        env = {
            **_SETTINGS,
            "FLIGHTDECK_VAR": str(self.home / "var"),
            "FLIGHTDECK_PUBLIC_URL": url,
            "FLIGHTDECK_HOSTS": HOST,
        }
        product = [sys.executable, "-m", "config.supervisor", "run", "--port", str(port)]
        command = [*product, "--home", str(self.home)]
        self.group.start("product", command, env=env, cwd=BASE_DIR, restart=True)
        if not self.group.wait(lambda: _is_up(f"{url}/health/"), timeout_s=_START_S):
            raise StartError(f"the web server did not start in {_START_S} s; see {self.home / 'log'}")
        env = {**env, **child_environment(postgres.database_urls(self.home, {}))}
        worker = [sys.executable, "manage.py", "worker"]
        self.group.start("worker", worker, env=env, cwd=BASE_DIR, restart=True)
        os.environ.update({**env, "FLIGHTDECK_CALL_TIMEOUT_S": str(_START_S)})  # the judge is patient

    def _start_seller(self, name: str) -> FakeSeller:
        folder = self.home / "sellers" / name
        folder.mkdir(parents=True)
        seller = FakeSeller(folder, protocol=SELLERS[name][0])
        for scenario in self._scenarios:
            if scenario.seller == name:
                seller.script(scenario.product_id, **scenario.script)
                for fault in scenario.faults:
                    seller.fault(**fault, product_id=scenario.product_id)
        command = seller.command()
        self.group.start(name, command, env=seller.environment, cwd=BASE_DIR, restart=True)
        return seller


def erase(home: Path) -> None:
    """Remove the data of an earlier run, also of a killed one."""
    if home.exists():
        data = postgres.data_dir(home)
        postgres.erase(home)
        with suppress(OSError):
            shutil.rmtree(data.parent)
        shutil.rmtree(home, ignore_errors=True)


def _is_up(url: str) -> bool:
    try:
        return requests.get(url, timeout=2).ok
    except requests.RequestException:
        return False
