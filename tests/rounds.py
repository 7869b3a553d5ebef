"""Short rounds of long tests in `make test`, full rounds in `make test-deep`.

A parametrised test with a database runs two of its cases in a short round, unless it is marked
``all_cases`` or asked for by its name. `make test-deep` sets ``ROUNDS=1``. ``ROUNDS=50`` plays fifty times as
many random stories, and other ones; ``ARGS=--hypothesis-seed=N`` repeats a run.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TypeVar

import pytest

T = TypeVar("T")
_MOST_CASES = 2
_DATABASES = frozenset({"db", "django_db_setup", "committed_db", "agency"})
_ROUNDS = int(os.environ.get("ROUNDS") or 0)


def rounds(short: int, full: int) -> int:
    """Return how many rounds (examples, seeds, purchases) a test plays."""
    return full * _ROUNDS if _ROUNDS else short


def kill_points(*, every: int) -> Iterator[int]:
    """Yield the moments at which a sweep kills a process: each one, or each ``every``-th in a short round."""
    return count(1, 1 if _ROUNDS else every)


def sample_cases(cases: Sequence[T], *, most: int = _MOST_CASES) -> list[T]:
    """Return all cases, or in a short round ``most`` of them, evenly spread and with the first and last."""
    if _ROUNDS or len(cases) <= most:
        return [*cases]
    if most == 1:
        return [cases[0]]
    return [cases[round(number * (len(cases) - 1) / (most - 1))] for number in range(most)]


def has_fixed_examples() -> bool:
    """Return whether hypothesis plays the same stories in every run."""
    return _ROUNDS <= 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep two cases of each parametrised test with a database, of those that ``-m`` selected."""
    asked_by_name = config.option.keyword or any("::" in argument for argument in config.args)
    if _ROUNDS or asked_by_name:
        return
    grids: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if _has_database(item) and item.get_closest_marker("all_cases") is None:
            grids[item.nodeid.partition("[")[0]].append(item)
    left_out = {item for cases in grids.values() for item in {*cases} - {*sample_cases(cases)}}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def _has_database(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", ())
    return item.get_closest_marker("django_db") is not None or not _DATABASES.isdisjoint(fixtures)
