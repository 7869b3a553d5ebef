"""The parent of the sellers: imports `adcp` once, forks one process per seller, keeps them running.

Forking after the import shares its half gigabyte and its ten seconds between the sellers. No thread and no
event loop exists in the parent, so the fork is safe on Linux and macOS.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from demo.sellers import keys
from demo.sellers.catalogue import HOUSES, House

_STOP_SECONDS = 5.0
_RESTART_SECONDS = 0.5


@dataclass
class _Child:
    house: House
    folder: Path
    port: int = 0
    pid: int = 0
    pipe: int = -1
    ready: bool = False
    start_at: float = 0.0


class Supervisor:
    """Starts, restarts and stops the sellers. `state` is the folder that holds everything they keep."""

    def __init__(self, state: Path, slugs: list[str], *, pace: float) -> None:
        self._state = state
        self._pace = pace
        self._stopping = False
        self._children = [_Child(HOUSES[slug], state / slug) for slug in slugs]

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT; returns when every child has ended.

        `sellers.json` exists from the moment all sellers are ready until the end.

        Raises:
            RuntimeError: another supervisor runs on the same folder.
        """
        self._state.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = _lock(self._state)
        (self._state / "sellers.json").unlink(missing_ok=True)
        _preload()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        try:
            while not self._stopping:
                self._pass()
        finally:
            self._stop()
            (self._state / "sellers.json").unlink(missing_ok=True)
            lock.close()

    def _on_signal(self, number: int, frame: object) -> None:
        self._stopping = True

    def _pass(self) -> None:
        """Start whoever is due, note who is ready, notice who died; at most a fifth of a second."""
        for child in self._children:
            if not child.pid and time.monotonic() >= child.start_at:
                self._start(child)
        waiting = [child.pipe for child in self._children if child.pipe >= 0]
        for pipe in select.select(waiting, [], [], 0.2)[0]:
            self._on_pipe(next(child for child in self._children if child.pipe == pipe))
        self._reap()

    def _start(self, child: _Child) -> None:
        child.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        keys.token(child.folder)
        child.port = keys.port(child.folder)
        reading, writing = os.pipe()
        parent = os.getpid()
        child.pid = os.fork()
        if child.pid == 0:
            os.close(reading)
            _become(child, pace=self._pace, parent=parent, writing=writing)
        os.close(writing)
        child.pipe = reading

    def _on_pipe(self, child: _Child) -> None:
        """A byte means it listens; the end of the pipe, that it will not."""
        word = os.read(child.pipe, 16)
        os.close(child.pipe)
        child.pipe = -1
        if not word:
            return
        child.ready = True
        print(f"{child.house.slug}: ready at {_url(child)} ({child.pid})", flush=True)
        if all(each.ready for each in self._children):
            self._write_directory()

    def _write_directory(self) -> None:
        text = json.dumps([_entry(child) for child in self._children], indent=2)
        draft = self._state / "sellers.json.new"
        draft.write_text(text + "\n")
        draft.replace(self._state / "sellers.json")

    def _reap(self) -> None:
        for child in self._children:
            if child.pid and os.waitpid(child.pid, os.WNOHANG)[0]:
                self._bury(child)
                if not self._stopping:
                    print(f"{child.house.slug}: ended, starting again", flush=True)

    def _bury(self, child: _Child) -> None:
        if child.pipe >= 0:
            os.close(child.pipe)
        child.pid, child.pipe, child.ready = 0, -1, False
        child.start_at = time.monotonic() + _RESTART_SECONDS

    def _stop(self) -> None:
        deadline = time.monotonic() + _STOP_SECONDS
        self._tell(signal.SIGTERM)
        while any(child.pid for child in self._children) and time.monotonic() < deadline:
            self._reap()
            time.sleep(0.02)
        self._tell(signal.SIGKILL)
        for child in self._children:
            if child.pid:
                os.waitpid(child.pid, 0)

    def _tell(self, number: signal.Signals) -> None:
        for child in self._children:
            if child.pid:
                os.kill(child.pid, number)


def _lock(state: Path) -> IO[str]:
    """Two supervisors on one folder would give each seller two processes and one set of books."""
    file = (state / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise RuntimeError(f"sellers already run on {state}") from None
    return file


def _preload() -> None:
    """Import what every child needs, then take it out of the collector's sight so that pages stay shared."""
    from demo.sellers import process

    process.warm_up()
    gc.collect()
    gc.freeze()


def _become(child: _Child, *, pace: float, parent: int, writing: int) -> None:
    """The child's life; never returns into the parent's loop."""
    from demo.sellers import process

    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

        def on_ready() -> None:
            os.write(writing, b"ready")
            os.close(writing)

        process.run(child.house, child.folder, port=child.port, pace=pace, parent=parent, on_ready=on_ready)
        status = 0
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else 1
    except KeyboardInterrupt:
        status = 0
    except BaseException:  # a forked child must not run on in its parent's code
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _url(child: _Child) -> str:
    path = "/mcp" if child.house.protocol == "mcp" else "/"
    return f"http://{keys.HOST}:{child.port}{path}"


def _entry(child: _Child) -> dict[str, Any]:
    jwks = f"http://{keys.HOST}:{child.port}/.well-known/jwks.json"
    return {
        "name": child.house.name,
        "slug": child.house.slug,
        "protocol": child.house.protocol,
        "url": _url(child),
        "token_file": str((child.folder / "token").resolve()),
        "webhooks": child.house.webhooks,
        "jwks_url": jwks if child.house.webhooks == "rfc9421" else None,
    }
