"""What a test starts ends with the block that it is started in, however that block ends."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import IO, Any, AnyStr

import psutil

from tests.support import PATIENCE_S, until


@contextmanager
def ending(
    process: subprocess.Popen[AnyStr], by: signal.Signals = signal.SIGKILL
) -> Iterator[subprocess.Popen[AnyStr]]:
    """As `contextlib.closing`: ``with ending(subprocess.Popen(...)) as process:``."""
    try:
        yield process
    finally:
        end(process, by)


def line_of(stream: IO[AnyStr] | None) -> AnyStr:
    """The next line that a process prints, empty where it has ended; AssertionError where neither comes."""
    assert stream is not None
    lines: SimpleQueue[AnyStr] = SimpleQueue()
    threading.Thread(target=lambda: lines.put(stream.readline()), daemon=True).start()
    try:
        return lines.get(timeout=3 * PATIENCE_S)
    except Empty:
        raise AssertionError("it prints no line, and does not end") from None


def end(process: subprocess.Popen[Any], by: signal.Signals = signal.SIGKILL) -> None:
    """Nobody of it is left, nor of what is below it. Where `by` is not SIGKILL it is to end by itself at that
    signal, and is killed where it does not: that is an error."""
    try:
        if by != signal.SIGKILL:
            process.send_signal(by)
            process.wait(PATIENCE_S)
    finally:
        with suppress(BrokenPipeError), process:  # which closes its pipes, too
            if process.poll() is None:
                kill(psutil.Process(process.pid))


def kill(process: psutil.Process) -> None:
    """SIGKILL to it and to all below it. Each is stopped before its children are looked for, so that it
    starts no more."""
    doomed = [process]
    for each in doomed:  # grows meanwhile
        with suppress(psutil.Error):
            each.suspend()
            doomed += each.children()
    for each in doomed:
        with suppress(psutil.Error):
            each.kill()
    until(lambda: all(map(_is_over, doomed)), "they are killed", every=0.005)


def _is_over(process: psutil.Process) -> bool:
    """Whether it does nothing any more; its exit code may still be asked for."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
