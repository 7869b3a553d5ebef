"""Workers that are killed with SIGKILL at the points that a test names, and replaced.

`python -m tests.jobs.crew`: one process loads the application once and forks the workers, so that a new
one is there within milliseconds. It reads a line of JSON with the recipes and, for each worker, how its
successive lives end; the next line stops everybody (by SIGKILL too) and is answered with the deaths.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from tests.commands.running import ROOT
from tests.ending import end, line_of
from tests.support import PATIENCE_S

DRAINS, SWEEPS = "drains", "sweeps"
STATEMENT, BEGINS, ENDS, SEND, ANSWER = "statement", "begins", "ends", "send", "answer"
MOMENT, PAUSE = "moment", "pause"
_TURN_S = 0.02
_LEASE_S = 2.0  # of those that are killed: another takes a step over soon
_LASTING_S = 3600.0  # where nobody is: however long a machine lets one wait for its turn
_FAST = {
    "FLIGHTDECK_POLL_SCALE": "0.01",
    "FLIGHTDECK_OPERATION_LEASE_S": str(_LEASE_S),
    "FLIGHTDECK_STEP_LEASE_S": str(_LEASE_S),
    "FLIGHTDECK_LOG_LEVEL": "CRITICAL",  # what fails is told by the rows
}


@dataclass(frozen=True, kw_only=True)
class Death:
    """A life ends at the n-th of these: before a `statement` (a commit counts as one), where an action
    `begins` or `ends`, before a call is sent (`send`) or its `answer` is looked at; or after n hundredths of
    a second (`moment`). `pause`: it is stopped then, for longer than its lease, goes on as if nothing had
    been, and is killed a second later."""

    point: str
    number: int


@dataclass(frozen=True, kw_only=True)
class Place:
    """A worker that drains or sweeps: how its lives end, one after the other; the last one lasts."""

    does: str
    deaths: Sequence[Death] = ()


class Crew:
    """The forking process, as a test sees it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.jobs.crew"],
            cwd=ROOT,
            env={**os.environ, **_FAST},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @contextmanager
    def working(self, recipes: Sequence[dict[str, Any]], places: Sequence[Place]) -> Iterator[list[str]]:
        """Workers are there within; after it, in the list, which deaths they died."""
        deaths: list[str] = []
        self._tell({"recipes": list(recipes), "places": [asdict(place) for place in places]})
        try:
            yield deaths
        finally:
            self._tell({})
            deaths.extend(self._hear())

    def end(self) -> None:
        """Nobody of it is left."""
        try:
            self._process.communicate(timeout=PATIENCE_S)
        finally:
            end(self._process)

    def _tell(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> list[str]:
        line = line_of(self._process.stdout)
        assert line, "the crew has ended"
        return [str(death) for death in json.loads(line)]


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    from tasks_app.adcp import a2a, mcp  # noqa: F401 (loaded once, not in every life)
    from tests.jobs.playing import register

    orders = open(0, "rb", buffering=0)  # noqa: SIM115 (nothing is read ahead: the next line is waited for)
    while line := orders.readline():
        order = json.loads(line)
        register(order["recipes"])
        deaths = _Shift(order["places"]).work()
        orders.readline()
        print(json.dumps(deaths), flush=True)  # noqa: T201


class _Shift:
    def __init__(self, places: list[dict[str, Any]]) -> None:
        self._places = places
        self._lease_s = _LEASE_S if any(place["deaths"] for place in places) else _LASTING_S
        self._living: dict[int, tuple[int, Death | None]] = {}
        self._due: list[tuple[float, int, int]] = []  # signals from here: when, to whom, which
        self._died: list[str] = []

    def work(self) -> list[str]:
        """Until the next line of input."""
        try:
            for place in range(len(self._places)):
                self._begin(place)
            while not select.select([0], [], [], _TURN_S)[0]:
                self._send_due()
                self._replace_dead()
        finally:
            for pid in self._living:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        return self._died

    def _begin(self, place: int) -> None:
        deaths = self._places[place]["deaths"]
        death = Death(**deaths.pop(0)) if deaths else None
        pid = os.fork()
        if pid == 0:
            _live(self._places[place]["does"], death, self._lease_s)
        self._living[pid] = (place, death)
        for after, number in _signals(death):
            self._due.append((time.monotonic() + after, pid, number))

    def _send_due(self) -> None:
        for due in sorted(self._due):
            if due[0] <= time.monotonic():
                self._due.remove(due)
                os.kill(due[1], due[2])

    def _replace_dead(self) -> None:
        for pid in list(self._living):
            if os.waitpid(pid, os.WNOHANG)[0] == pid:
                place, death = self._living.pop(pid)
                self._due = [due for due in self._due if due[1] != pid]
                self._died.append(death.point if death else "unasked")
                self._begin(place)


def _signals(death: Death | None) -> list[tuple[float, int]]:
    """What is sent to a life, each so many seconds after its begin."""
    if death is None or death.point not in (MOMENT, PAUSE):
        return []
    at = death.number / 100
    if death.point == MOMENT:
        return [(at, signal.SIGKILL)]
    on = at + 1.5 * _LEASE_S
    return [(at, signal.SIGSTOP), (on, signal.SIGCONT), (on + 1, signal.SIGKILL)]


def _live(does: str, death: Death | None, lease_s: float) -> None:
    from django.conf import settings

    settings.STEP_LEASE_S = settings.OPERATION_LEASE_S = lease_s
    try:
        if death is not None:
            _POINTS[death.point](_fuse(death.number))
        {DRAINS: _drain, SWEEPS: _sweep}[does]()
    finally:
        os._exit(1)  # whatever the work raises: the next life goes on


def _drain() -> None:
    from tasks_app.jobs.worker import drain

    pause = threading.Event()
    while True:
        if not drain():
            pause.wait(_TURN_S)


def _sweep() -> None:
    from tasks_app.operations.sweep import sweep_once

    pause = threading.Event()
    while True:
        asyncio.run(sweep_once())
        pause.wait(_TURN_S)


def _fuse(number: int) -> Callable[[], None]:
    left = [number]

    def burn() -> None:
        left[0] -= 1
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return burn


def _at_statements(burn: Callable[[], None]) -> None:
    import psycopg

    execute, commit = psycopg.Cursor.execute, psycopg.Connection.commit

    def counted_execute(self: Any, *given: Any, **named: Any) -> Any:
        burn()
        return execute(self, *given, **named)

    def counted_commit(self: Any) -> None:
        burn()
        commit(self)

    psycopg.Cursor.execute = counted_execute  # type: ignore[method-assign]
    psycopg.Connection.commit = counted_commit  # type: ignore[method-assign]


def _where_actions_begin(burn: Callable[[], None]) -> None:
    from tests.jobs.worlds import watchers

    watchers.begins = burn


def _where_actions_end(burn: Callable[[], None]) -> None:
    from tests.jobs.worlds import watchers

    watchers.ends = burn


def _before_calls(burn: Callable[[], None]) -> None:
    from tasks_app.adcp import client

    call = client.call

    async def doomed(*given: Any, **named: Any) -> Any:
        burn()
        return await call(*given, **named)

    client.call = doomed


def _before_answers(burn: Callable[[], None]) -> None:
    from tasks_app.adcp import client

    call = client.call

    async def doomed(*given: Any, **named: Any) -> Any:
        seen = await call(*given, **named)
        burn()
        return seen

    client.call = doomed


def _from_outside(_: Callable[[], None]) -> None:
    """The crew's first process does it."""


_POINTS: dict[str, Callable[[Callable[[], None]], None]] = {
    STATEMENT: _at_statements,
    BEGINS: _where_actions_begin,
    ENDS: _where_actions_end,
    SEND: _before_calls,
    ANSWER: _before_answers,
    MOMENT: _from_outside,
    PAUSE: _from_outside,
}

if __name__ == "__main__":
    main()
