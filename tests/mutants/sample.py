"""Which mutants are tried, and for how long: the same ones for the same seed, of every function some."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from random import Random

from tests.mutants.modules import MODULES


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a run is asked for: which modules, how many mutants of each, chosen by which seed, until when by
    the monotonic clock, how many side by side."""

    modules: Sequence[str]
    each: int
    seed: str
    until: float
    testers: int

    @classmethod
    def of_environment(cls) -> Wanted:
        """As `make mutants` says it. The time is counted from here on."""
        given = os.environ.get
        return cls(
            modules=(given("MODULES") or "").split() or list(MODULES),
            each=int(given("SAMPLE") or 40),
            seed=given("SEED") or "1",
            until=time.monotonic() + float(given("LIMIT_S") or 840),
            testers=int(given("TESTERS") or 2),
        )


def sample(mutants: Mapping[str, Sequence[str]], *, most: int, seed: str) -> list[str]:
    """At most so many mutants: of each function one in turn, until none is left. Begun at the front it is a
    sample at every length."""
    rng = Random(seed)  # noqa: S311 - a choice, no secret
    functions = [rng.sample(of_one, len(of_one)) for of_one in mutants.values()]
    rng.shuffle(functions)
    turns = chain.from_iterable(zip_longest(*functions))
    return [mutant for mutant in turns if mutant is not None][:most]


class Budget:
    """The time that is left, shared out among the modules to come: what one leaves is for the next ones."""

    def __init__(self, *, until: float, modules: int) -> None:
        self._ends = until
        self._modules = modules

    def next_module(self) -> float:
        """Until when the next module may take, by the monotonic clock."""
        left = max(0.0, self._ends - time.monotonic())
        share = left / max(1, self._modules)
        self._modules -= 1
        return time.monotonic() + share
