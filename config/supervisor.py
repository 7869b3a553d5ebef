"""``python -m config.supervisor``: opens the database and runs the product on it.

``run`` migrates and keeps the processes of the Procfile going until Ctrl-C or SIGTERM; ``exec -- COMMAND…``
runs one command while the database is open. The demo uses the functions here with its own processes.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from honcho.environ import parse_procfile

from config import postgres
from config.processes import ProcessError, ProcessGroup, interruptible

BASE_DIR = Path(__file__).resolve().parent.parent
DEFAULT_PORT = 8000
DATABASE_LOOK_S = 1.0
_REFUSED = 2  # exit code of commands, as in tasks_app.management.base
_LONGEST_LOOK_S = 60.0  # apart, where it does not come back


class MigrationError(RuntimeError):
    """``manage.py migrate`` failed; its output says why."""


@contextmanager
def database(base_dir: Path = BASE_DIR) -> Iterator[dict[str, str]]:
    """The environment of child processes, with the database open for as long as the block runs."""
    with postgres.opened(base_dir) as urls:
        yield child_environment(urls)


def child_environment(urls: postgres.DatabaseUrls) -> dict[str, str]:
    """Variables to add for children: both database URLs, and this virtual env's programs first in PATH."""
    programs = Path(sys.executable).parent
    return {**urls.environment(), "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


def migrate(env: Mapping[str, str], *, base_dir: Path = BASE_DIR) -> None:
    """Bring the schema up to date as the owner. Raises MigrationError."""
    command = [sys.executable, "manage.py", "migrate", "--noinput", "--verbosity", "1"]
    environment = {**os.environ, **env, "FLIGHTDECK_DB_LOGIN": "owner"}
    if subprocess.run(command, check=False, cwd=base_dir, env=environment).returncode != 0:
        raise MigrationError("The database could not be migrated; the lines above say why.")


def first_administrator_address(env: Mapping[str, str], *, base_dir: Path = BASE_DIR) -> str:
    """Return the address that makes the first administrator, or "" if somebody has a login."""
    command = [sys.executable, "manage.py", "first_administrator"]
    done = subprocess.run(
        command, check=False, cwd=base_dir, env={**os.environ, **env}, capture_output=True, text=True
    )
    if done.returncode not in (0, _REFUSED):
        _say(f"the address of the first administrator is not known: {done.stderr.strip()}")
    return done.stdout.strip() if done.returncode == 0 else ""


def procfile(base_dir: Path = BASE_DIR) -> dict[str, list[str]]:
    """Name and command of each process of the product; a shell fills in $PORT."""
    processes = parse_procfile((base_dir / "Procfile").read_text(encoding="utf-8")).processes
    return {name: ["/bin/sh", "-c", f"exec {command}"] for name, command in processes.items()}


def require_free_port(port: int) -> None:
    """Raises ProcessError when something listens on the port already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise ProcessError(f"Port {port} cannot be used ({why}): choose another with PORT=…") from error


def run(port: int, *, base_dir: Path = BASE_DIR, home: Path | None = None) -> None:
    """Serve until interrupted (KeyboardInterrupt); whatever dies is started again, the database too.

    `home`: where the embedded database and the processes' ids are kept; the project by default.
    """
    home = home or base_dir
    with ProcessGroup(state_file=home / "var" / "run" / "run.json") as group:
        require_free_port(port)
        _say("opening the database")
        with database(home) as env:
            _say("migrating")
            migrate(env, base_dir=base_dir)
            if not os.environ.get("FLIGHTDECK_PUBLIC_URL"):
                env = {**env, "FLIGHTDECK_PUBLIC_URL": f"http://127.0.0.1:{port}"}
            first = first_administrator_address(env, base_dir=base_dir)
            try:
                for name, command in procfile(base_dir).items():
                    group.start(name, command, env={**env, "PORT": str(port)}, cwd=base_dir, restart=True)
                _say(f"http://127.0.0.1:{port}/ (Ctrl-C stops)")
                if first:
                    _say(f"nobody has a login yet; open this address once, within a day: {first}")
                _look_after(group, home)
            finally:
                _say("stopping")
                group.stop()


def _look_after(group: ProcessGroup, home: Path) -> None:
    pause = DATABASE_LOOK_S
    while not group.wait(timeout_s=pause):
        try:
            revived = postgres.revive(home)
        except (postgres.PostgresError, OSError) as error:  # OSError: no room, no memory to fork
            pause = min(2 * pause, _LONGEST_LOOK_S)
            _say(f"the database had died and does not come back yet: {error}")
            continue
        pause = DATABASE_LOOK_S
        if revived:
            _say("the database had died: it runs again")


def execute(command: list[str], *, base_dir: Path = BASE_DIR) -> int:
    """Run one command on the open database; its exit code."""
    with database(base_dir) as env:
        return subprocess.run(command, check=False, env={**os.environ, **env}).returncode


def _say(text: str) -> None:
    with suppress(OSError, ValueError):  # a log on a full disk, a closed terminal: neither ends the product
        print(f"flightdeck: {text}", flush=True)


def main(arguments: list[str] | None = None, *, base_dir: Path = BASE_DIR) -> int:
    parser = argparse.ArgumentParser(prog="python -m config.supervisor", description="Runs Flightdeck.")
    commands = parser.add_subparsers(dest="action", required=True)
    runs = commands.add_parser("run", help="migrate, then serve until Ctrl-C")
    runs.add_argument("--port", type=int, default=os.environ.get("PORT") or DEFAULT_PORT)
    runs.add_argument("--home", type=Path, help="where the embedded database is kept (default: the project)")
    executes = commands.add_parser("exec", help="run one command while the database is open")
    executes.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    try:
        with interruptible():
            if options.action == "exec":
                return execute(options.command, base_dir=base_dir)
            run(options.port, base_dir=base_dir, home=options.home)
    except KeyboardInterrupt:
        return 0 if options.action == "run" else 130
    except (postgres.PostgresError, ProcessError, MigrationError) as error:
        print(f"flightdeck: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
