"""The processes that a run kills (SIGKILL), and after how many purchases."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from random import Random

import psutil

from config import postgres
from config.postgres import engine
from tests.chaos.plan import SELLERS
from tests.chaos.product import Product

_KINDS = ("worker", "web", "backend", "postmaster", "seller", "supervisor")
_FIRST, _LAST = 0.05, 0.85  # shares of all purchases


class Killer:
    """Kills each kind of process `rounds` times, in the seed's order. `kills` counts them."""

    def __init__(self, product: Product, *, seed: int, operations: int, rounds: int) -> None:
        self._product = product
        self._rng = Random(f"kills:{seed}:{operations}")
        kinds = [kind for _ in range(rounds) for kind in self._rng.sample(_KINDS, len(_KINDS))]
        gap = (_LAST - _FIRST) * operations / len(kinds)
        times = [_FIRST * operations + gap * (number + self._rng.random()) for number in range(len(kinds))]
        self._planned = list(zip(times, kinds, strict=True))
        self.kills: Counter[str] = Counter()

    @property
    def is_over(self) -> bool:
        return not self._planned

    def step(self, done: int) -> str:
        """Kill the process that is due. Return its kind, or an empty string."""
        if self.is_over or done < self._planned[0][0]:
            return ""
        kind = self._planned[0][1]
        with suppress(psutil.Error, ProcessLookupError):  # it starts at this moment: kill it in the next step
            victims = sorted(process.pid for process in self._find(kind))
            if victims:
                os.kill(self._rng.choice(victims), signal.SIGKILL)
                self._planned.pop(0)
                self.kills[kind] += 1
                return kind
        return ""

    def _find(self, kind: str) -> Sequence[psutil.Process]:
        group = self._product.group
        if kind == "seller":
            return [psutil.Process(group.pid(self._rng.choice([*SELLERS])))]
        if kind in ("backend", "postmaster"):
            server = engine.postmaster(postgres.data_dir(self._product.home))
            if server is None or kind == "postmaster":
                return [server] if server else []
            return [child for child in server.children() if _runs(child, postgres.APP_ROLE)]
        supervisor = psutil.Process(group.pid("product"))
        if kind == "supervisor":
            return [supervisor]
        if kind == "web":
            return [child for child in supervisor.children() if _runs(child, "config.web")]
        clusters = [child for child in supervisor.children() if _runs(child, "worker")]
        clusters.append(psutil.Process(group.pid("worker")))
        return [process for main in clusters for process in (main, *main.children(recursive=True))]


def _runs(process: psutil.Process, program: str) -> bool:
    try:
        return any(program in word for word in process.cmdline())
    except psutil.Error:  # it has ended
        return False
