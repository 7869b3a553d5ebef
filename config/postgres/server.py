"""Opening and closing the embedded database: many may ask, one server runs, the last one out stops it."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from . import engine, roles
from .addresses import (
    APP_ROLE,
    DATABASE,
    OWNER_ROLE,
    PORT,
    SUPERUSER,
    Address,
    DatabaseUrls,
    address_file,
    data_dir,
    database_urls,
    open_private,
    read_address,
    write_address,
)
from .engine import PostgresError


@dataclass
class RunningPostgres:
    """A hold on the running server; `stop` lets go of it."""

    data: Path
    address: Address
    _hold: int = field(repr=False)
    _process: subprocess.Popen[bytes] | None = field(repr=False)  # None: it ran already and we attached

    @property
    def started(self) -> bool:
        return self._process is not None

    @property
    def urls(self) -> DatabaseUrls:
        return self.address.urls()

    def connect_admin(self, database: str = "postgres") -> psycopg.Connection:
        """A superuser's connection in autocommit; the operating system vouches for us (peer), no password."""
        return _connect_admin(Path(self.address.socket_dir), database)

    def stop(self) -> None:
        """Let go; the last holder shuts the server down.

        Holds are shared locks on a file, which the kernel drops when a process dies: a supervisor killed with
        SIGKILL counts no longer, and the next one that comes stops what it left.
        """
        if self._hold < 0:
            return
        hold, self._hold = self._hold, -1
        with _start_lock(self.data):
            _let_go(self.data, hold)
        if self._process is not None:
            self._process.poll()

    def __enter__(self) -> RunningPostgres:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(base_dir: Path, *, settings: Mapping[str, str] | None = None) -> RunningPostgres:
    """Open the embedded database of the project at ``base_dir``, or attach to it where it runs already.

    Idempotent, and safe beside other starts. Makes what is missing: data directory, roles, database, grants,
    the address file. ``settings`` (as in postgresql.conf) count when it is this call that starts the server.
    Raises PostgresError with a reason and a remedy.
    """
    data = data_dir(base_dir)
    _refuse_unreachable(base_dir, data)
    try:
        _make_home(data)
        with _start_lock(data):
            hold = _open_lock(data.with_name("postgres.users"))
            try:
                fcntl.flock(hold, fcntl.LOCK_SH)
                socket_dir, process = _ensure_running(data, settings or {})
                address = _provision(data, socket_dir)
            except BaseException:  # an interrupt too must leave no server behind
                with suppress(PostgresError):
                    _let_go(data, hold)
                raise
    except PermissionError as error:
        raise PostgresError(f"{error}: the database under {data} belongs to another user.") from error
    return RunningPostgres(data=data, address=address, _hold=hold, _process=process)


@contextmanager
def opened(base_dir: Path, environ: Mapping[str, str] = os.environ) -> Iterator[DatabaseUrls]:
    """The database while the block runs: ``DATABASE_URL`` if set (nothing is started), else the embedded."""
    if environ.get("DATABASE_URL", "").strip():
        yield database_urls(base_dir, environ)
        return
    with start(base_dir) as running:
        yield running.urls


def revive(base_dir: Path, environ: Mapping[str, str] = os.environ) -> bool:
    """Start the embedded server again where it died (killed, out of memory) under those who hold it open.

    True when that was needed; never with ``DATABASE_URL`` set. Raises PostgresError.
    """
    if environ.get("DATABASE_URL", "").strip():
        return False
    data = data_dir(base_dir)
    if engine.postmaster(data) is not None:
        return False
    with _start_lock(data):
        _, process = _ensure_running(data, {})
    return process is not None


def erase(base_dir: Path) -> bool:
    """Stop the embedded server and delete its data; False when there is none.

    Raises PostgresError while a supervisor uses it.
    """
    data = data_dir(base_dir)
    if not data.parent.is_dir() or not (data.exists() or address_file(data).exists()):
        return False
    with _start_lock(data):
        hold = _open_lock(data.with_name("postgres.users"))
        try:
            if not engine.locked(hold):
                raise PostgresError("The database is in use: stop make run or make demo first.")
            engine.stop(data)
            if engine.is_served(data):
                raise PostgresError("A server in another container uses the database: stop that first.")
            address = read_address(data)
            if address is not None and engine.is_private_socket_dir(Path(address.socket_dir)):
                shutil.rmtree(address.socket_dir, ignore_errors=True)
            shutil.rmtree(data, ignore_errors=True)
            address_file(data).unlink(missing_ok=True)
        finally:
            os.close(hold)
    return True


def connection_hint(base_dir: Path, environ: Mapping[str, str]) -> str:
    """What to tell somebody whose connection failed: a sentence, or nothing where we have no better idea."""
    if environ.get("DATABASE_URL", "").strip() or engine.postmaster(data_dir(base_dir)) is not None:
        return ""
    return "The embedded database is not running: start it with make run (or make demo), or set DATABASE_URL."


# --- steps of start ------------------------------------------------------------------------------


def _refuse_unreachable(base_dir: Path, data: Path) -> None:
    local = base_dir.resolve() / "var" / "postgres"
    if data != local and (local / "PG_VERSION").exists():
        raise PostgresError(
            f"There is a database in {local}, but a directory above it was closed to the account it runs as: "
            f"open it again, or move the data to {data}."
        )


def _make_home(data: Path) -> None:
    """The directory beside the data; one that we make may be entered by the service account."""
    for directory in (*reversed(data.parent.parents), data.parent):
        if not directory.exists():
            directory.mkdir(exist_ok=True)
            if os.geteuid() == 0:
                directory.chmod(0o755)


def _open_lock(path: Path) -> int:
    return open_private(path, os.O_RDWR | os.O_CREAT)


def _let_go(data: Path, hold: int) -> None:
    try:
        if engine.locked(hold):
            engine.stop(data)
    finally:
        os.close(hold)


@contextmanager
def _start_lock(data: Path) -> Iterator[None]:
    """One start, stop or erase at a time; the kernel frees it when its holder dies."""
    handle = _open_lock(data.with_name("postgres.lock"))
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _ensure_running(data: Path, settings: Mapping[str, str]) -> tuple[Path, subprocess.Popen[bytes] | None]:
    """The socket's directory, and the server if it is this call that started it."""
    attached = _attach(data)
    if attached is not None:
        return attached, None
    account = engine.account_for(data)
    bin_dir = engine.binaries(account)
    engine.initialise(data, account, bin_dir)
    socket_dir = engine.configure(data, account, settings)
    process = engine.start(data, account, bin_dir, answers=lambda: _answers(socket_dir, data))
    return socket_dir, process


def _attach(data: Path) -> Path | None:
    """The socket of a server that runs and answers. One that is coming up or going down is waited for."""
    if engine.postmaster(data) is None:
        return None

    def settled() -> bool:
        return engine.postmaster(data) is None or _answers(engine.running_socket_dir(data), data)

    if not engine.wait_for(settled, engine.START_S):
        raise PostgresError(f"A database server runs in {data} but does not answer; see {data / 'log'}.")
    return engine.running_socket_dir(data) if engine.postmaster(data) is not None else None


def _answers(socket_dir: Path | None, data: Path) -> bool:
    """Only a connection proves that the server lives, and only its own word that it serves our data."""
    if socket_dir is None:
        return False
    try:
        with _connect_admin(socket_dir, "postgres") as connection:
            row = connection.execute("show data_directory").fetchone()
    except psycopg.OperationalError:
        return False
    return row is not None and Path(row[0]) == data


def _connect_admin(socket_dir: Path, database: str, *, within_s: int = 5) -> psycopg.Connection:
    """``within_s``: 5 where it is asked again."""
    where = make_conninfo(host=str(socket_dir), port=PORT, user=SUPERUSER, dbname=database)
    return psycopg.connect(where, connect_timeout=within_s, autocommit=True)


def _provision(data: Path, socket_dir: Path) -> Address:
    """Roles, database and grants, then the address that tells others; passwords stay from start to start."""
    known = read_address(data)
    kept = known.passwords if known else {}
    passwords = {role: kept.get(role) or secrets.token_urlsafe(32) for role in (OWNER_ROLE, APP_ROLE)}
    address = Address(socket_dir=str(socket_dir), passwords=passwords)
    with _connect_admin(socket_dir, "postgres", within_s=engine.START_S) as admin:
        roles.ensure_roles(admin, passwords)
        roles.ensure_database(admin, DATABASE)
    with _connect_admin(socket_dir, DATABASE, within_s=engine.START_S) as admin:
        roles.grant_inside(admin)
    write_address(data, address)
    return address
