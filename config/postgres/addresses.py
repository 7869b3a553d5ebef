"""Where the embedded database lives and how to reach it. Reads files at most; starts nothing, never fails."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

DATABASE = "flightdeck"
OWNER_ROLE = "flightdeck_owner"
# Named here alone: the embedded server, migrations and rights take it from here (settings.DB_ROLE).
APP_ROLE = os.environ.get("FLIGHTDECK_DB_ROLE", "").strip() or "flightdeck_app"
SUPERUSER = "postgres"
PORT = 5432  # names the socket file only: the embedded server listens on no network address
EMBEDDED = "FLIGHTDECK_EMBEDDED"  # set by the supervisor for its processes
ROOT_HOME = Path("/var/lib/flightdeck")


@dataclass(frozen=True)
class DatabaseUrls:
    """The two ways into one database: ``app`` runs the product, ``owner`` migrates.

    Both are ``postgresql://`` URLs and may hold a password, so neither is in the repr. ``embedded``: of the
    embedded server, which serves one machine, to try things out.
    """

    app: str = field(repr=False)
    owner: str = field(repr=False)
    embedded: bool = False

    def environment(self) -> dict[str, str]:
        """The variables that settings and child processes read."""
        embedded = "1" if self.embedded else "0"
        return {"DATABASE_URL": self.app, "MIGRATE_DATABASE_URL": self.owner, EMBEDDED: embedded}


@dataclass(frozen=True)
class Address:
    """What the supervisor writes beside the data (mode 0600) once the server answers."""

    socket_dir: str
    passwords: Mapping[str, str] = field(repr=False)

    def url(self, role: str, database: str = DATABASE) -> str:
        """A URL for ``role``; without a password when none is known."""
        password = self.passwords.get(role, "")
        login = f"{role}:{quote(password, safe='')}" if password else role
        return f"postgresql://{login}@:{PORT}/{quote(database, safe='')}?host={quote(self.socket_dir)}"

    def urls(self, database: str = DATABASE) -> DatabaseUrls:
        app, owner = (self.url(role, database) for role in (APP_ROLE, OWNER_ROLE))
        return DatabaseUrls(app=app, owner=owner, embedded=True)


def database_urls(base_dir: Path, environ: Mapping[str, str]) -> DatabaseUrls:
    """The URLs that settings use.

    With ``DATABASE_URL`` set: that, and ``MIGRATE_DATABASE_URL`` for the owner (or the same again, which
    stops every start outside debug: tasks_app.installation).
    Without: the embedded server's, or, before its first start, the place where its socket would be,
    so that importing settings always works and a connection attempt names that socket.
    """
    app = environ.get("DATABASE_URL", "").strip()
    if app:
        owner = environ.get("MIGRATE_DATABASE_URL", "").strip() or app
        return DatabaseUrls(app=app, owner=owner, embedded=environ.get(EMBEDDED, "") == "1")
    data = data_dir(base_dir)
    address = read_address(data) or Address(socket_dir=str(data), passwords={})
    return address.urls()


def data_dir(base_dir: Path) -> Path:
    """The data directory of the project at ``base_dir``.

    ``var/postgres`` below it. PostgreSQL refuses to run as root, so root hands the data to a service account;
    when that account could not reach them, because a directory above is closed to others, they live under
    ``/var/lib/flightdeck/`` instead: no permission of a private directory is ever loosened.
    """
    base_dir = base_dir.resolve()
    local = base_dir / "var" / "postgres"
    if os.geteuid() != 0 or reachable(local.parent, *owner_of(local)):
        return local
    digest = hashlib.sha256(os.fsencode(base_dir)).hexdigest()[:12]
    return ROOT_HOME / digest / "postgres"


def owner_of(path: Path) -> tuple[int, int]:
    """``(uid, gid)`` of what an ordinary account owns; ``(-1, -1)``, nobody in particular, otherwise."""
    try:
        found = path.stat()
    except OSError:
        return -1, -1
    return (found.st_uid, found.st_gid) if found.st_uid else (-1, -1)


def reachable(path: Path, uid: int, gid: int) -> bool:
    """May the account enter ``path`` and all above it? Parts that do not exist yet are ours to make."""
    return all(_enterable(part, uid, gid) for part in (path, *path.parents))


def _enterable(directory: Path, uid: int, gid: int) -> bool:
    try:
        found = directory.stat()
    except FileNotFoundError:
        return True
    if found.st_uid == uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid == gid:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)


def address_file(data: Path) -> Path:
    return data.with_name("postgres.json")


def read_address(data: Path) -> Address | None:
    """The address written beside ``data``; None when there is none that this user may read."""
    try:
        content = json.loads(address_file(data).read_text(encoding="utf-8"))
        return Address(socket_dir=str(content["socket_dir"]), passwords=dict(content["passwords"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_address(data: Path, address: Address) -> None:
    """Replace the address in one step; readable by this user alone from its first byte."""
    target = address_file(data)
    draft = target.with_suffix(f".{os.getpid()}")
    draft.unlink(missing_ok=True)
    handle = open_private(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump({"socket_dir": address.socket_dir, "passwords": dict(address.passwords)}, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(target)


def open_private(path: Path, flags: int) -> int:
    """A descriptor of a file with mode 0600; one that root makes belongs to the owner of its directory."""
    handle = os.open(path, flags | os.O_CLOEXEC, 0o600)
    if os.geteuid() == 0:
        above = path.parent.stat()
        os.fchown(handle, above.st_uid, above.st_gid)
    return handle
