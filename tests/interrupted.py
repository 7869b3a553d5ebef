"""A session that is asked to end, as where its terminal is closed or its container stops, ends as one that is
interrupted by hand: whatever it started ends with it.

Where tests are shared out, each tester ends what it started. xdist kills a tester that takes more than ten
seconds for that, and a PostgreSQL takes longer on a busy machine: they are asked first, and waited for.
"""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from types import FrameType
from typing import Any

import psutil
import pytest

from tests.support import PATIENCE_S

_ASKED = (signal.SIGTERM, signal.SIGHUP)
_sessions: list[pytest.Session] = []


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Whoever ignores a signal goes on ignoring it, as what `nohup` began. A tester is interrupted once: what
    else asks it to end meanwhile would cut what it does for that."""
    is_tester = hasattr(config, "workerinput")
    for number in (*_ASKED, signal.SIGINT) if is_tester else _ASKED:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _interrupt)


def pytest_sessionstart(session: pytest.Session) -> None:
    _sessions.append(session)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    """Once: whoever asks again waits for what has to end. Where nobody hears of it, as while something is
    thrown away, the session ends after the test under way."""
    for each in (*_ASKED, number):
        signal.signal(each, signal.SIG_IGN)
    for session in _sessions:
        session.shouldstop = "asked to end"
    raise KeyboardInterrupt


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Of whoever shares tests out, before xdist ends the testers."""
    sharing = session.config.pluginmanager.getplugin("dsession")
    if sharing is None or exitstatus != pytest.ExitCode.INTERRUPTED:
        return
    for tester in psutil.Process().children():  # it starts nothing else
        with suppress(psutil.Error):
            tester.terminate()
    _wait_for(sharing, until=time.monotonic() + PATIENCE_S)


def _wait_for(sharing: Any, *, until: float) -> None:
    """Until each tester has ended its session, or is gone."""
    for node in list(sharing._active_nodes):
        with suppress(EOFError, node.channel.RemoteError, node.channel.TimeoutError):
            node.channel.waitclose(max(0.0, until - time.monotonic()))
