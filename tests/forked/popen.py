"""The testers' side: while a test that allows it runs, `subprocess.Popen` forks what `programs` knows."""

from __future__ import annotations

import atexit
import ctypes
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import util
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.forked.parent import REFUSED, Request
from tests.forked.programs import ROOT, Program, program

_PR_SET_CHILD_SUBREAPER = 36
_execute = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_spawn = util.spawnv_passfds  # type: ignore[attr-defined]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "executed: what this test starts is executed, nothing is forked for it"
    )
    if sys.platform.startswith("linux"):  # elsewhere nobody takes in orphans: all is executed
        subprocess.Popen._execute_child = _fork_or_execute  # type: ignore[attr-defined]
        util.spawnv_passfds = _fork_or_spawn  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    parent.allowed = item.get_closest_marker("executed") is None
    try:
        return (yield)
    finally:
        parent.allowed = False


class Parent:
    """The process that forks (`tests.forked.parent`), begun with the first program; it ends with this one."""

    def __init__(self) -> None:
        self.allowed = False
        self._lock = threading.Lock()
        self._door: socket.socket | None = None
        self.pid = 0
        self.began: dict[int, str] = {}  # what was forked, by process id

    def fork(self, request: Request, fds: list[int]) -> int | None:
        """The process id of the program, this process's child; None where it must be executed."""
        with self._lock, _taking_in_orphans():
            reading, writing = os.pipe()
            with os.fdopen(reading, "rb") as told:
                try:
                    socket.send_fds(self._opened(), [request.packed()], [*fds, writing])
                except OSError:
                    self._door = None
                    raise
                finally:
                    os.close(writing)
                said = told.read()
        if said == REFUSED:
            return None
        if not said:
            raise OSError("the process that forks programs for tests has ended; its output tells why")
        pid = int(said)
        self.began[pid] = " ".join(request.argv)
        return pid

    def forget(self, pid: int) -> None:
        """The number is another's now: they come again within minutes."""
        self.began.pop(pid, None)

    def forks(self, process: psutil.Process) -> bool:
        """Whether it is the one that forks, or a warm process of it."""
        return self.pid != 0 and self.pid in (process.pid, process.ppid())

    def _opened(self) -> socket.socket:
        if self._door is None:
            self._door, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            command = [sys.executable, "-m", "tests.forked.parent", str(there.fileno())]
            with there:
                process = subprocess.Popen(
                    command, cwd=ROOT, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL, stdout=2
                )
            self.pid = process.pid
            atexit.register(self._close, self._door, process)
        return self._door

    @staticmethod
    def _close(door: socket.socket, process: subprocess.Popen[bytes]) -> None:
        door.close()
        process.wait()


parent = Parent()


@contextmanager
def _taking_in_orphans() -> Iterator[None]:
    """What loses its parent now becomes a child of this process; only now, or it would gather zombies."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0)


_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_NAMES = (
    *(
        "args",
        "executable",
        "preexec_fn",
        "close_fds",
        "pass_fds",
        "cwd",
        "env",
        "startupinfo",
        "creationflags",
    ),
    *(
        "shell",
        *_PIPES,
        "restore_signals",
        "gid",
        "gids",
        "uid",
        "umask",
        "start_new_session",
        "process_group",
    ),
)


def _fork_or_execute(self: Any, *given: Any) -> None:
    """In the place of `Popen._execute_child`, which takes these by position (CPython 3.11)."""
    asked = dict(zip(_NAMES, given, strict=True))
    request = _request(asked)
    if request is not None:
        stdio = [asked["p2cread"], asked["c2pwrite"], asked["errwrite"]]
        fds = [own if fd == -1 else fd for own, fd in enumerate(stdio)]
        pid = parent.fork(request, [*fds, *request.numbers[3:]])
        if pid is not None:
            self.pid, self._child_created = pid, True
            self._close_pipe_fds(*(asked[name] for name in _PIPES))
            return
    _execute(self, *given)
    parent.forget(self.pid)


def _fork_or_spawn(path: Any, args: Sequence[Any], passfds: Sequence[int]) -> int:
    """In the place of `multiprocessing.util.spawnv_passfds`, by which pools start their processes."""
    words = [os.fsdecode(arg) for arg in args]
    command = [words[0], *words[-3:]]  # without the interpreter's own options
    kind = program(command) if parent.allowed else None
    if kind is not None:
        request = _made(command, kind, os.environ, passfds=passfds)
        pid = parent.fork(request, request.numbers)
        if pid is not None:
            return pid
    pid = int(_spawn(path, args, passfds))
    parent.forget(pid)
    return pid


def _request(asked: dict[str, Any]) -> Request | None:
    """None for what is not forked."""
    command, cwd = asked["args"], Path(asked["cwd"] or Path.cwd())
    unlike = ("executable", "shell", "gid", "gids", "uid")
    if not parent.allowed or isinstance(command, (str, bytes)) or any(asked[name] for name in unlike):
        return None
    if asked["umask"] != -1 or asked["process_group"] != -1 or cwd.resolve() != ROOT:
        return None
    kind, preexec = program(command), asked["preexec_fn"]
    if kind is None or (preexec is not None and preexec.__qualname__ != "_die_with_parent.<locals>.ask"):
        return None
    return _made(
        command,
        kind,
        os.environ if asked["env"] is None else asked["env"],
        passfds=asked["pass_fds"],
        own_session=asked["start_new_session"],
        dies_with_parent=preexec is not None,
    )


def _made(
    command: Sequence[Any],
    kind: Program,
    environment: Mapping[str, str],
    *,
    passfds: Iterable[int],
    own_session: bool = False,
    dies_with_parent: bool = False,
) -> Request:
    return Request(
        argv=[str(part) for part in command[1:]],
        numbers=[0, 1, 2, *sorted(set(passfds) - {0, 1, 2})],
        environment={str(name): str(value) for name, value in environment.items()},
        loads=kind.loads,
        adds=[list(pair) for pair in kind.adds],
        cwd=str(ROOT),
        parent=os.getpid(),
        own_session=own_session,
        dies_with_parent=dies_with_parent,
    )
