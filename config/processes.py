"""A group of long-running processes: started, their output prefixed, watched, restarted, stopped."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import psutil

GRACE_S = 8.0  # from SIGTERM to SIGKILL
FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 30.0
STEADY_S = 60.0  # up this long, a process counts as sound and its next restart is prompt again
TICK_S = 0.1
CLOCK_STEP_S = 5.0  # a corrected clock may move the reported boot time a little
LONGEST_LINE = 64 * 1024
OWN_NAME = "supervisor"  # before what the group itself says, where a process has its name
PR_SET_PDEATHSIG = 1
COLOURS = (36, 33, 32, 35, 34, 31)


class ProcessError(RuntimeError):
    """A process of the group cannot be started, or ended although it should run."""


@dataclass
class _Member:
    name: str
    command: Sequence[str]
    env: Mapping[str, str] | None
    cwd: Path | None
    restart: bool
    process: subprocess.Popen[bytes]
    reader: threading.Thread
    started_at: float
    delay_s: float = FIRST_DELAY_S
    due_at: float | None = None  # when an ended process starts again (time.monotonic())

    swept: bool = False  # the ended process's children were ended too

    @property
    def exit_code(self) -> int | None:
        """None while it runs. Once its end is seen its group ends too: later the number may be another's."""
        code = self.process.poll()
        if code is not None and not self.swept:
            self.swept = True
            _kill_group(self.process.pid)
        return code


class ProcessGroup:
    """Named processes, each in a session of its own, so that Ctrl-C reaches their supervisor alone.

    Use from one thread, as a context manager; leaving it stops every process. On Linux the kernel sends
    SIGTERM to the processes of a supervisor that was killed. ``state_file`` remembers them across a kill, so
    that the next group with the same file ends what is left before it starts anything; while a group lives, a
    second one with that file is refused with ProcessError. Where it cannot be written (a full disk), `tick`
    tries it again.
    """

    def __init__(self, *, state_file: Path | None = None, output: TextIO | None = None) -> None:
        self._members: dict[str, _Member] = {}
        self._state = _StateFile(state_file) if state_file else None
        self._state_delay_s = FIRST_DELAY_S
        self._state_due_at: float | None = None  # when it is written again (time.monotonic())
        self._printer = _Printer(output or sys.stdout)

    def __enter__(self) -> ProcessGroup:
        if self._state:
            self._state.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            if self._state:
                self._state.release()

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        restart: bool = False,
    ) -> int:
        """Start ``command`` and return its process id; ``env`` is added to this process's environment.

        With ``restart`` an ended process is started again by `tick`, after 1 s, then 2, 4, … up to 30 s.
        Raises ProcessError when the name is taken or the program cannot be run.
        """
        if name in self._members and self._members[name].exit_code is None:
            raise ProcessError(f"{name} runs already")
        process, reader = self._spawn(name, command, env, cwd)
        self._members[name] = _Member(
            name, command, env, cwd, restart, process, reader, started_at=time.monotonic()
        )
        self._remember()
        return process.pid

    def pid(self, name: str) -> int:
        return self._members[name].process.pid

    def ended(self) -> dict[str, int]:
        """Exit codes of the processes that ended and are not to be restarted (negative: a signal)."""
        codes = {member.name: member.exit_code for member in self._members.values() if not member.restart}
        return {name: code for name, code in codes.items() if code is not None}

    def tick(self) -> None:
        """Look after the processes once, without waiting: restart what is due. For a loop of yours."""
        for member in self._members.values():
            if member.restart and member.exit_code is not None:
                self._restart(member)
        if self._state_due_at is not None and time.monotonic() >= self._state_due_at:
            self._remember()

    def wait(self, until: Callable[[], bool] = lambda: False, *, timeout_s: float | None = None) -> bool:
        """Look after the processes until the condition holds (True) or the time is over (False).

        Raises ProcessError when a process that is not to be restarted ends before that.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not until():
            self.tick()
            for name, code in self.ended().items():
                raise ProcessError(f"{name} ended with {_exit_words(code)}")
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(TICK_S)
        return True

    def stop(self, name: str | None = None, *, grace_s: float = GRACE_S) -> None:
        """Stop one process or all at once: SIGTERM, and after ``grace_s`` SIGKILL to their whole groups."""
        members = [self._members[name]] if name else list(self._members.values())
        running = [member for member in members if member.exit_code is None]
        for member in running:
            with suppress(ProcessLookupError):
                os.kill(member.process.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        for member in running:
            with suppress(subprocess.TimeoutExpired):
                member.process.wait(max(0.0, deadline - time.monotonic()))
        for member in running:
            if member.exit_code is None:
                _kill_group(member.process.pid)
                member.process.wait()
        for member in members:
            member.reader.join(1.0)
            del self._members[member.name]
        self._remember()

    def _spawn(
        self, name: str, command: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None
    ) -> tuple[subprocess.Popen[bytes], threading.Thread]:
        try:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
                cwd=cwd,
                start_new_session=True,
                preexec_fn=_die_with_parent(),
            )
        except OSError as error:
            raise ProcessError(f"{name} cannot be started: {error}") from error
        reader = threading.Thread(target=self._printer.copy, args=(name, process), daemon=True)
        try:
            reader.start()
        except RuntimeError as error:  # no thread is to be had
            _kill_group(process.pid)
            process.wait()
            raise ProcessError(f"{name} cannot be started: {error}") from error
        return process, reader

    def _restart(self, member: _Member) -> None:
        now = time.monotonic()
        if member.due_at is None:
            if now - member.started_at >= STEADY_S:
                member.delay_s = FIRST_DELAY_S
            member.due_at = now + member.delay_s
            words = _exit_words(member.process.returncode)
            self._printer.line(member.name, f"ended with {words}; starts again in {member.delay_s:g} s")
        elif now >= member.due_at:
            member.delay_s = min(member.delay_s * 2, LONGEST_DELAY_S)
            try:
                member.process, member.reader = self._spawn(
                    member.name, member.command, member.env, member.cwd
                )
            except ProcessError as error:  # no memory for a moment: it is tried again
                member.due_at = now + member.delay_s
                self._printer.line(member.name, f"{error}; again in {member.delay_s:g} s")
                return
            member.started_at, member.due_at, member.swept = now, None, False
            self._remember()

    def _remember(self) -> None:
        if self._state is None:
            return
        try:
            self._state.write({member.name: member.process.pid for member in self._members.values()})
        except OSError as error:  # no room for a moment: it is tried again, and ends nothing
            delay_s = self._state_delay_s
            self._printer.line(OWN_NAME, f"what runs cannot be noted: {error}; again in {delay_s:g} s")
            self._state_due_at = time.monotonic() + delay_s
            self._state_delay_s = min(delay_s * 2, LONGEST_DELAY_S)
        else:
            self._state_due_at, self._state_delay_s = None, FIRST_DELAY_S


class _Printer:
    """Lines of several processes on one stream, each with its process's name in front."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._lock = threading.Lock()
        self._colours: dict[str, int] = {}

    def copy(self, name: str, process: subprocess.Popen[bytes]) -> None:
        """Runs in a thread until the process closes its output."""
        assert process.stdout is not None  # noqa: S101 - for the type checker: we asked for a pipe
        with process.stdout as lines:
            while line := lines.readline(LONGEST_LINE):
                self.line(name, line.decode(errors="replace").rstrip("\r\n"))

    def line(self, name: str, text: str) -> None:
        with self._lock, suppress(OSError, ValueError):  # a closed terminal must not block the process
            self._output.write(f"{self._prefix(name)} {text}\n")
            self._output.flush()

    def _prefix(self, name: str) -> str:
        prefix = f"{name:<10}|"
        if not self._output.isatty():
            return prefix
        colour = self._colours.setdefault(name, COLOURS[len(self._colours) % len(COLOURS)])
        return f"\x1b[{colour}m{prefix}\x1b[0m"


class _StateFile:
    """Process ids with their start times, under a lock that the kernel frees when the supervisor dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1

    def acquire(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise ProcessError(f"This runs already ({self._path.stem}): stop the other one first.") from None
        self._handle = handle
        for pid, created in self._read():
            _end_leftover(pid, created)

    def release(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._handle)

    def write(self, pids: Mapping[str, int]) -> None:
        """Remember these processes, and since when the machine runs: a reboot gives the numbers anew."""
        entries = []
        for name, pid in pids.items():
            with suppress(psutil.Error):
                entries.append({"name": name, "pid": pid, "created": psutil.Process(pid).create_time()})
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps({"boot": psutil.boot_time(), "processes": entries}), encoding="utf-8")
        draft.replace(self._path)

    def _read(self) -> list[tuple[int, float]]:
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            if abs(content["boot"] - psutil.boot_time()) > CLOCK_STEP_S:
                return []
            return [(int(entry["pid"]), float(entry["created"])) for entry in content["processes"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []


def _end_leftover(pid: int, created: float) -> None:
    """End a process group of a killed supervisor, unless the number has gone to somebody else since."""
    try:
        leader = psutil.Process(pid)
        if abs(leader.create_time() - created) > 1.0:
            return
        leader.terminate()
        leader.wait(GRACE_S)
    except (psutil.NoSuchProcess, psutil.TimeoutExpired):
        pass  # a leader that is gone may leave children: while they live, no new process gets its number
    except psutil.AccessDenied:
        return
    _kill_group(pid)


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _die_with_parent() -> Callable[[], None] | None:
    """What a child runs before its program: ask the kernel for SIGTERM when its parent dies (Linux only)."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return ask


def _exit_words(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into one KeyboardInterrupt; further ones wait out the clean-up."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupt(*_: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
