"""The tests of a module once, unmutated; then, for each mutant of a sample, those that enter its function."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
from _pytest.runner import runtestprotocol
from django.db import connections

from tests.database import Database
from tests.mutants.lanes import Lanes
from tests.mutants.making import Made, choose, function_of, tell_of_calls
from tests.mutants.modules import MODULES
from tests.mutants.sample import Budget, Wanted, sample
from tests.mutants.telling import Tried

_SECONDS_BESIDE, _TIMES = 10, 8  # how much longer than unmutated a mutant's tests may take


def tried(
    session: pytest.Session,
    made: Mapping[str, Made],
    wanted: Wanted,
    databases: Sequence[Database],
    tell: Callable[[str], object],
) -> Iterator[Tried]:
    """Each module, as it has been tried; what is wrong with its tests is told."""
    tests = _Tests(session, tell)
    budget = Budget(until=wanted.until, modules=len(wanted.modules))
    for module in wanted.modules:
        until = budget.next_module()
        tests.run(module, until=until)
        connections.close_all()  # what is forked now begins unconnected
        lanes = Lanes(databases, tests.see, tests.limit_s)  # made with the first test
        mutants = made[module].by_function()
        entered = {function: of_one for function, of_one in mutants.items() if tests.of(function)}
        chosen = sample(entered, most=wanted.each, seed=f"{wanted.seed}:{module}")
        yield Tried(
            made=made[module],
            wanted=len(chosen),
            seen=lanes.run(chosen, until=until),
            unentered={name: len(of_one) for name, of_one in mutants.items() if name not in entered},
        )


class _Nobody:
    """Whoever comes after a test, as pytest asks it: only what the whole session shares is kept for it."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session

    def listchain(self) -> list[pytest.Session]:
        return [self._session]


class _Tests:
    """The tests as they run unmutated: which of them enter which function, and how long each takes."""

    def __init__(self, session: pytest.Session, tell: Callable[[str], object]) -> None:
        self._items: Sequence[pytest.Item] = session.items
        self._tell = tell
        self._nobody = _Nobody(session)
        self._took: dict[pytest.Item, float] = {}
        self._entering: defaultdict[str, list[pytest.Item]] = defaultdict(list)

    def run(self, module: str, *, until: float) -> None:
        """Those of a module that have not run yet, in half of its time. What fails unmutated is left out."""
        entered: set[str] = set()
        tell_of_calls(entered.add)
        half = (time.monotonic() + until) / 2
        waiting = [item for item in self._items if _is_of(item, module) and item not in self._took]
        for at, item in enumerate(waiting):
            entered.clear()
            began = time.monotonic()
            if began >= half:
                self._tell(f"{module}: {len(waiting) - at} of its tests were not reached")
                return
            if not self._passes(item):
                self._tell(f"fails without a mutant, and is left out: {item.nodeid}")
                continue
            self._took[item] = time.monotonic() - began
            for function in entered:
                self._entering[function].append(item)

    def of(self, function: str) -> list[pytest.Item]:
        """Those of its module's tests that enter a function, the quick ones first."""
        module = function.rpartition(".")[0]
        mine = [item for item in self._entering[function] if _is_of(item, module)]
        return sorted(mine, key=self._took.__getitem__)

    def see(self, mutant: str) -> bool:
        """Whether one of them fails with it. For a process of its own."""
        choose(mutant)
        return not all(self._passes(item) for item in self.of(function_of(mutant)))

    def limit_s(self, mutant: str) -> float:
        return _SECONDS_BESIDE + _TIMES * sum(self._took[item] for item in self.of(function_of(mutant)))

    def _passes(self, item: pytest.Item) -> bool:
        item._initrequest()  # type: ignore[attr-defined] # as new: it may have run before
        reports = runtestprotocol(item, log=False, nextitem=self._nobody)  # type: ignore[arg-type]
        return not any(report.failed for report in reports)


def _is_of(item: pytest.Item, module: str) -> bool:
    return item.nodeid.startswith(tuple(MODULES[module]))
