"""Mutants side by side, each in a process of its own that is forked from one which has everything loaded.

A lane has a database of its own, kept from one mutant to the next: its tests are rolled back. Nothing is
connected where a process is forked.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence

from tests.database import Database, point_django_at

_SEEN, _UNSEEN = 1, 0
_LOOK_S = 0.01


class Lanes:
    """`attempt` tries a mutant in a process of its own and answers whether a test saw it; `limit_s` says how
    long that may take."""

    def __init__(
        self, databases: Sequence[Database], attempt: Callable[[str], bool], limit_s: Callable[[str], float]
    ) -> None:
        self._attempt, self._limit_s = attempt, limit_s
        self._free = list(databases)
        self._at_work: dict[int, tuple[str, Database, float]] = {}
        self._seen: dict[str, bool] = {}

    def run(self, mutants: Sequence[str], *, until: float) -> dict[str, bool]:
        """Whether each was seen; those of which that is not known in time are left out."""
        self._seen = {}
        for mutant in mutants:
            while not self._free:
                self._wait(until)
            if time.monotonic() >= until:
                break
            self._begin(mutant, self._free.pop())
        while self._at_work:
            self._wait(until)
        return self._seen

    def _begin(self, mutant: str, database: Database) -> None:
        pid = os.fork()
        if pid:
            self._at_work[pid] = (mutant, database, time.monotonic() + self._limit_s(mutant))
            return
        code = _SEEN  # whatever goes wrong in there was seen
        try:
            os.environ.update(database.env)
            point_django_at(database.urls.app)
            code = _SEEN if self._attempt(mutant) else _UNSEEN
        finally:
            os._exit(code)

    def _wait(self, until: float) -> None:
        """Until one has ended. One that takes too long would never end, and was seen; at the end of all time
        nothing is known of it."""
        while True:
            for pid, (mutant, database, ends) in list(self._at_work.items()):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    del self._at_work[pid]
                    self._free.append(database)
                    if time.monotonic() < until or not os.WIFSIGNALED(status):
                        self._seen[mutant] = os.waitstatus_to_exitcode(status) != _UNSEEN
                    return
                if time.monotonic() >= min(ends, until):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_LOOK_S)
