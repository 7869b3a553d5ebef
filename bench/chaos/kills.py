"""Who is killed (SIGKILL), and when: at shares of the purchases that are done, in the seed's order."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Sequence
from random import Random

import psutil

from bench.chaos.plan import SELLERS
from bench.chaos.stage import Stage
from config import postgres
from config.postgres import engine

KINDS = ("worker", "web", "backend", "postmaster", "seller", "supervisor")
_FIRST, _LAST = 0.05, 0.85  # of all purchases


class Killer:
    """Kills as planned; `kills` counts them by kind. For one thread."""

    def __init__(self, stage: Stage, *, seed: int, operations: int, rounds: int) -> None:
        self._stage = stage
        self._rng = Random(f"kills:{seed}:{operations}")  # noqa: S311 - a plan, no secret
        kinds = [kind for _ in range(rounds) for kind in self._rng.sample(KINDS, len(KINDS))]
        apart = (_LAST - _FIRST) * operations / len(kinds)
        starts = [_FIRST * operations + apart * (n + self._rng.random()) for n in range(len(kinds))]
        self._due = list(zip(starts, kinds, strict=True))
        self.kills: Counter[str] = Counter()

    @property
    def planned(self) -> Sequence[tuple[float, str]]:
        """The kills still to come: after how many purchases, and of which kind."""
        return tuple(self._due)

    @property
    def over(self) -> bool:
        """Whether everybody was killed who was to be."""
        return not self._due

    def step(self, done: int) -> str:
        """Kill whoever is due now; answers who, in words, or nothing."""
        if not self._due or done < self._due[0][0]:
            return ""
        kind = self._due[0][1]
        victims = self._victims(kind)
        if not victims:
            return ""  # being started at this moment: at the next step
        victim = self._rng.choice(victims)
        told = f"{kind} {victim.pid}"
        try:
            os.kill(victim.pid, signal.SIGKILL)
        except ProcessLookupError:
            return ""
        self._due.pop(0)
        self.kills[kind] += 1
        return told

    def _victims(self, kind: str) -> list[psutil.Process]:
        try:
            return sorted(self._of_kind(kind), key=lambda process: process.pid)
        except psutil.Error:
            return []

    def _of_kind(self, kind: str) -> Sequence[psutil.Process]:
        group = self._stage.group
        if kind == "seller":
            return [psutil.Process(group.pid(self._rng.choice(tuple(SELLERS))))]
        product = psutil.Process(group.pid("product"))
        if kind == "supervisor":
            return [product]
        if kind == "web":
            return [process for process in product.children() if _runs(process, "config.web")]
        if kind == "worker":
            mains = [
                p for p in (*product.children(), psutil.Process(group.pid("more"))) if _runs(p, "worker")
            ]
            return [process for main in mains for process in (main, *main.children(recursive=True))]
        server = engine.postmaster(postgres.data_dir(self._stage.home))
        if server is None:
            return []
        return [server] if kind == "postmaster" else [p for p in server.children() if _serves(p)]


def _serves(process: psutil.Process) -> bool:
    """A backend of the application's role."""
    return _runs(process, postgres.APP_ROLE)


def _runs(process: psutil.Process, program: str) -> bool:
    return program in _words(process)


def _words(process: psutil.Process) -> str:
    """Its command line; nothing for one that has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
