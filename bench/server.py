"""A private embedded PostgreSQL for one bench, as it is delivered: fsync and synchronous_commit are on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import requests

from config import postgres
from config.postgres import roles
from config.processes import ProcessGroup
from config.supervisor import BASE_DIR, procfile

VAR = BASE_DIR / "var"
_START_S = 120
_HOUSE = {
    "FLIGHTDECK_ORGANISATION": "Halden & Marsh",
    "FLIGHTDECK_ORGANISATION_DOMAIN": "haldenmarsh.example",
    "FLIGHTDECK_SECOND_FACTOR_ROLES": "",
    "FLIGHTDECK_LOG_LEVEL": "WARNING",
    "DJANGO_SETTINGS_MODULE": "config.settings",
}


@dataclass(frozen=True)
class Server:
    """The running database server, and the environment of processes that work on it."""

    running: postgres.RunningPostgres
    env: dict[str, str]

    def database(self, name: str) -> str:
        """Create an empty database and return its URL, as the owner's role."""
        with self.running.connect_admin() as admin:
            roles.ensure_database(admin, name)
        with self.running.connect_admin(name) as admin:
            roles.grant_inside(admin)
        return urlsplit(self.running.urls.owner)._replace(path=f"/{name}").geturl()

    def run(self, *command: str, cwd: Path = BASE_DIR) -> str:
        """Run a Python command on the database and return its output. Raises CalledProcessError."""
        done = subprocess.run(
            [python_of(cwd), *command], check=True, cwd=cwd, env=self.env, stdout=subprocess.PIPE, text=True
        )
        return done.stdout


@contextmanager
def opened(name: str, *, project: Path = BASE_DIR, **env: str) -> Iterator[Server]:
    """Start a server under var/`name` and migrate it with the project's migrations; delete it afterwards."""
    base = VAR / name
    erase(base)
    base.mkdir(parents=True)
    base.chmod(0o755)  # as root, the server runs as another account
    try:
        with postgres.start(base) as running:
            whole = {
                **os.environ,
                **running.urls.environment(),
                **_HOUSE,
                "FLIGHTDECK_VAR": str(base / "var"),
                "PATH": f"{Path(python_of(project)).parent}{os.pathsep}{os.environ['PATH']}",
                **env,
            }
            on = Server(running, whole)
            subprocess.run(
                [python_of(project), "manage.py", "migrate", "--verbosity", "0"],
                check=True,
                cwd=project,
                env={**whole, "FLIGHTDECK_DB_LOGIN": "owner"},
            )
            yield on
    finally:
        erase(base)


@contextmanager
def processes(
    on: Server, commands: Mapping[str, list[str]], *, answers: str = "", project: Path = BASE_DIR, **env: str
) -> Iterator[dict[str, int]]:
    """Run processes while the block runs, and yield their process ids by name.

    Args:
        on: The server they work on.
        commands: By name.
        answers: A URL that has to answer before the block starts.
        project: Their working directory.
        env: Added to their environment.
    """
    log = VAR / "bench.log"
    with log.open("a") as output, ProcessGroup(output=output) as group:
        pids = {
            name: group.start(name, command, env={**on.env, **env}, cwd=project)
            for name, command in commands.items()
        }
        if answers and not group.wait(lambda: _answers(answers), timeout_s=_START_S):
            raise SystemExit(f"{answers} does not answer; see {log}")
        yield pids


def product(on: Server, port: int, *, project: Path = BASE_DIR) -> AbstractContextManager[dict[str, int]]:
    """Run web and workers as the project's Procfile starts them."""
    url = f"http://127.0.0.1:{port}/health/"
    return processes(on, procfile(project), answers=url, project=project, PORT=str(port))


def python_of(project: Path) -> str:
    """Return the Python of a checkout: this one's own, or that of its virtual environment."""
    return sys.executable if project == BASE_DIR else str(project / ".venv" / "bin" / "python")


def django_setup() -> None:
    """Set up Django with the settings that the environment names."""
    import django

    django.setup()


def erase(base: Path) -> None:
    """Stop the server under `base` and delete it, if there is one."""
    if base.exists():
        data = postgres.data_dir(base)
        postgres.erase(base)
        shutil.rmtree(data.parent, ignore_errors=True)
        shutil.rmtree(base, ignore_errors=True)


def _answers(url: str) -> bool:
    try:
        requests.get(url, timeout=5)
    except requests.RequestException:
        return False
    return True
