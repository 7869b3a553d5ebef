"""What the bench runs on: a private PostgreSQL with a database for each party.

A migrated database and one with jobs that wait are kept (`bench.server.kept`); a run works on copies of them.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO
from urllib.parse import urlsplit

from psycopg import sql

from bench import server
from bench.jobs import QUICK, marks
from config import postgres
from config.postgres import roles
from config.supervisor import BASE_DIR

NAME = "bench-jobs"
_WAITING_DATABASE = "bench_waiting"
# Copy of a run: what it is made from.
_COPIES = {"run": postgres.DATABASE, "run_waiting": _WAITING_DATABASE}


@dataclass(frozen=True)
class Stage:
    """`env`: of Flightdeck's processes; `waiting_env`: of those on the database where jobs wait; `peer_env`:
    of each peer's. `log` takes what all of them say."""

    words: str
    env: Mapping[str, str]
    waiting_env: Mapping[str, str]
    peer_env: Mapping[str, Mapping[str, str]]
    marks: marks.Marks
    log: TextIO


@contextmanager
def opened(peers: Iterable[str], *, waiting: int) -> Iterator[Stage]:
    """Start and fill everything; each of `peers` has a database of its own."""
    log_path = BASE_DIR / "var" / f"{NAME}.log"
    log_path.parent.mkdir(exist_ok=True)
    with ExitStack() as closing:
        log = closing.enter_context(log_path.open("w", encoding="utf-8"))
        on = closing.enter_context(_kept(waiting))
        home = BASE_DIR / "var" / NAME
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        closing.callback(shutil.rmtree, home, ignore_errors=True)
        _erase(on.running, [*_COPIES, *map(_database, peers)])
        env, waiting_env = (
            {**on.env, **_copy(on.running, name).environment(), marks.VARIABLE: str(home / "marks")}
            for name in _COPIES
        )
        closing.callback(_erase, on.running, [*_COPIES, *map(_database, peers)])
        shared = {marks.VARIABLE: env[marks.VARIABLE], "PEER_SECRET_KEY": secrets.token_urlsafe(48)}
        yield Stage(
            words=on.words(),
            env=env,
            waiting_env=waiting_env,
            peer_env={name: {**shared, **_peer_database(on.running, name)} for name in peers},
            marks=marks.Marks(Path(env[marks.VARIABLE])),
            log=log,
        )


def _kept(waiting: int) -> AbstractContextManager[server.Server]:
    def fill(on: server.Server) -> None:
        # Its database is made from the migrated one, so that neither has anything before the other.
        urls = _copy(on.running, _WAITING_DATABASE, of=postgres.DATABASE)
        print(f"== making {waiting:,} jobs that wait", flush=True)
        command = [sys.executable, "-m", "bench.jobs.waiting", str(waiting)]
        subprocess.run(command, check=True, cwd=BASE_DIR, env={**on.env, **urls.environment()})

    folder = Path(__file__).parent
    fillers = [folder / "waiting.py", folder / "recipes.py"]
    env = {"DJANGO_SETTINGS_MODULE": "bench.jobs.settings"}
    return server.kept("jobs-quick" if QUICK else "jobs", fill=fill, fillers=fillers, size=waiting, env=env)


def _copy(running: postgres.RunningPostgres, name: str, *, of: str = "") -> postgres.DatabaseUrls:
    with running.connect_admin() as admin:
        roles.ensure_database(admin, name, template=of or _COPIES[name])
    return running.address.urls(name)


def _database(peer: str) -> str:
    return f"bench_{peer}"


def _erase(running: postgres.RunningPostgres, names: Iterable[str]) -> None:
    with running.connect_admin() as admin:
        for name in names:
            admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def _peer_database(running: postgres.RunningPostgres, name: str) -> dict[str, str]:
    with running.connect_admin() as admin:
        roles.ensure_database(admin, _database(name))
    with running.connect_admin(_database(name)) as admin:
        roles.grant_inside(admin)
    owner = urlsplit(running.urls.owner)
    return {"PEER_DATABASE_URL": owner._replace(path=f"/{_database(name)}").geturl()}
