"""Tables of pure cases in one test: a test of its own costs more than most of these cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

Test = Callable[..., None]


def each_case(**columns: Iterable[Any]) -> Callable[[Test], Callable[[], None]]:
    """Run a test for every combination of the columns' values; the first that fails is named."""
    return each_row(tuple(columns), [*product(*columns.values())])


def each_row(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Callable[[Test], Callable[[], None]]:
    """Run a test for every row of a table with these columns; the first that fails is named."""
    cases = [dict(zip(names, row, strict=True)) for row in rows]

    def decorate(test: Test) -> Callable[[], None]:
        def run() -> None:
            for case in cases:
                try:
                    test(**case)
                except BaseException as error:
                    error.add_note(f"case: {case}")
                    raise

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        return run

    return decorate
