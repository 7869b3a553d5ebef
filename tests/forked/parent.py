"""`python -m tests.forked.parent FD`: imports what programs need, once, and forks them.

The first process imports libraries alone. For each environment that a program is to see at import it forks a
*warm* process, which imports the application under it; the programs are forks of that one. Neither has a
thread or an open connection. A request comes on the socket FD: JSON (`Request`) with descriptors, those
that the program is to have and a pipe. On the pipe the program says its process id once it is the tester's
child, or the warm process that it cannot be forked; then the tester executes it, and it fails there as it
should. All end when the tester does.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import os
import random
import runpy
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tests.forked.programs import FLIGHTDECK, PAGES, ROOT, SELLERS, Program, loaded_by

REFUSED = b"no"
_LARGEST = 1 << 20
_MOST_WARM = 5
_MOST_DESCRIPTORS = 64
_UNLIKE = 70  # a program's exit code where `programs` does not know it well enough
_ABOVE = 1000  # above the numbers that a program knows descriptors by
_PR_SET_PDEATHSIG = 1
# Loaded under no settings.
_LIBRARIES = (
    "django.db.models",
    "django.contrib.postgres.fields",
    "django.core.management",
    "django.forms",
    "django.template.defaulttags",
    "psycopg",
    "pydantic",
    "requests",
    "httpx",
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "uvicorn",
    "mcp.client.session",
    "a2a.types",
    "structlog",
    "yaml",
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """A program to be forked.

    ``numbers``: what it knows the descriptors by that come with this; ``parent``: the tester, whose child it
    becomes; ``dies_with_parent``: by SIGTERM, as `config.processes` asks of the kernel.
    """

    argv: list[str]
    numbers: list[int]
    environment: dict[str, str]
    loads: str
    adds: list[list[str]]
    cwd: str
    parent: int
    own_session: bool
    dies_with_parent: bool

    @property
    def program(self) -> Program:
        return Program(self.loads, tuple((name, value) for name, value in self.adds))

    def packed(self) -> bytes:
        return json.dumps(asdict(self)).encode()


class _Forked(Exception):  # noqa: N818
    """Raised in the child, so that it leaves all of its parent's loops; names what it is to become."""

    def __init__(self, become: Any) -> None:
        self.become = become


def main() -> None:
    door = socket.socket(fileno=int(sys.argv[1]))
    for name in _LIBRARIES:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    become: Any = lambda: _share_out(door)  # noqa: E731
    while True:  # a fork comes out of its parent's loop, and goes on as what it is
        try:
            become()
            return
        except _Forked as forked:
            become = forked.become


def _share_out(door: socket.socket) -> None:
    """The first process's loop: each request to the warm process of its environment, the oldest ends."""
    warm: dict[object, tuple[int, socket.socket]] = {}
    while (received := _received(door)) is not None:
        request, fds = received
        key = (request.loads, loaded_by(request.program, request.environment))
        if key not in warm:
            if len(warm) >= _MOST_WARM:
                _end(*warm.pop(next(iter(warm))))
            warm[key] = _warmed(request, [door, *(held for _, held in warm.values())], fds)
        warm[key] = warm.pop(key)  # the last one asked for is ended last
        try:
            socket.send_fds(warm[key][1], [request.packed()], fds)
        except OSError:  # it was killed, for want of memory perhaps
            _end(*warm.pop(key))
            warm[key] = _warmed(request, [door, *(held for _, held in warm.values())], fds)
            with suppress(OSError):  # it ended again: the closed pipe says so
                socket.send_fds(warm[key][1], [request.packed()], fds)
        for fd in fds:
            os.close(fd)
    for pid, held in warm.values():
        _end(pid, held)


def _warmed(request: Request, ours: list[socket.socket], fds: list[int]) -> tuple[int, socket.socket]:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        for held in (here, *ours):
            held.close()
        for fd in fds:
            os.close(fd)
        raise _Forked(lambda: _fork_out(there, request))
    there.close()
    return pid, here


def _end(pid: int, held: socket.socket) -> None:
    held.close()
    os.waitpid(pid, 0)


def _fork_out(door: socket.socket, first: Request) -> None:
    """A warm process's loop: a program for each request."""
    os.environ.clear()
    os.environ.update({**dict(first.program.adds), **first.environment})
    time.tzset()
    os.chdir(ROOT)
    try:
        _LOADS[first.loads]()
        assert threading.active_count() == 1, threading.enumerate()
        able = True
    except Exception:
        traceback.print_exc()
        able = False
    gc.collect()
    gc.freeze()
    while (received := _received(door)) is not None:
        request, fds = received
        if not able:
            os.write(fds[-1], REFUSED)
        else:
            between = os.fork()
            if between == 0:
                _fork_again(door, request, fds)
            os.waitpid(between, 0)
        for fd in fds:
            os.close(fd)


def _fork_again(door: socket.socket, request: Request, fds: list[int]) -> None:
    """Between warm process and program: its end makes the program a child of the tester, which takes in
    orphans at this moment."""
    between = os.getpid()
    if os.fork():
        os._exit(0)
    door.close()
    raise _Forked(lambda: _run(request, fds, between))


def _run(request: Request, fds: list[int], between: int) -> None:
    """The program's life, from its descriptors to its exit code; never returns."""
    if request.own_session:
        os.setsid()
    while os.getppid() == between:
        time.sleep(0.0002)
    if request.dies_with_parent:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != request.parent:
        os._exit(1)
    os.write(fds[-1], str(os.getpid()).encode())
    _take(fds[:-1], request.numbers)
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.cwd)
    random.seed()  # or all would draw the same
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through="PYTHONUNBUFFERED" in os.environ)  # type: ignore[union-attr]
    code = _exit_code(request)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def _take(fds: list[int], numbers: list[int]) -> None:
    """Have these descriptors under these numbers, and no others."""
    aside = [fcntl.fcntl(fd, fcntl.F_DUPFD, _ABOVE) for fd in fds]
    os.closerange(3, _ABOVE)
    for fd, number in zip(aside, numbers, strict=True):
        os.dup2(fd, number)
    for fd in aside:
        os.close(fd)


def _exit_code(request: Request) -> int:
    """Runs the program and what it left for its end, as the interpreter would."""
    code = 0
    try:
        if request.loads != SELLERS:
            _point_at_database()
        _run_main(request.argv)
    except SystemExit as end:
        code = _said(end.code)
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if late := _set_too_late(request):
        sys.stderr.write(f"set after settings were loaded, in a fork: {', '.join(late)}\n")
        return _UNLIKE
    return code


def _set_too_late(request: Request) -> list[str]:
    """What settings read and the program set for itself, or did not though its kind says so: executed, it
    would have loaded others."""
    loaded = dict(loaded_by(request.program, request.environment))
    now = dict(loaded_by(replace(request.program, adds=()), os.environ))
    differ = (name for name in {*loaded, *now} if now.get(name) != loaded.get(name))
    return sorted(name for name in differ if name.startswith("FLIGHTDECK_"))


def _said(code: object) -> int:
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def _run_main(argv: list[str]) -> None:
    if argv[0] == "-c":
        sys.argv = [argv[0], *argv[2:]]
        exec(argv[1], {"__name__": "__main__"})  # noqa: S102
    elif argv[0] == "-m":
        sys.argv, sys.path[0] = argv[1:], str(Path.cwd())
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = argv, str((ROOT / argv[0]).parent)
        runpy.run_path(argv[0], run_name="__main__")


def _point_at_database() -> None:
    from django.conf import settings

    from config.postgres import database_urls
    from tests.database import point_django_at

    settings.DATABASE_URLS = database_urls(ROOT, os.environ)
    settings.DB_LOGIN = os.environ.get("FLIGHTDECK_DB_LOGIN", "app")
    urls = settings.DATABASE_URLS
    point_django_at(urls.owner if settings.DB_LOGIN == "owner" else urls.app)


def _load_flightdeck() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    for name in ("tests.database", "tests.factories"):
        importlib.import_module(name)
    from tests.support import wait_for_servers

    wait_for_servers()


def _load_pages() -> None:
    _load_flightdeck()
    from django.urls import get_resolver

    assert get_resolver().url_patterns
    for name in (
        "tasks_app.api.streams",
        "tasks_app.webhooks.edge",
        "config.edge",
        "uvicorn.protocols.http.h11_impl",
    ):
        importlib.import_module(name)


def _load_sellers() -> None:
    from demo.sellers import supervisor

    supervisor._preload()


_LOADS = {FLIGHTDECK: _load_flightdeck, PAGES: _load_pages, SELLERS: _load_sellers}


def _received(door: socket.socket) -> tuple[Request, list[int]] | None:
    """The next request and its descriptors; None when the tester, or whoever shares out, has ended."""
    message, fds, _, _ = socket.recv_fds(door, _LARGEST, _MOST_DESCRIPTORS)
    return (Request(**json.loads(message)), fds) if message else None


if __name__ == "__main__":
    main()
