"""What is collected depends on no clock and no chance: the clock stands still meanwhile, and what shows it,
or was drawn, is refused.

A value made at collection (a parameter, a constant of a test's module) is as old as the suite has run when
its test comes; one that tells the present moment fails where the suite is slow, and only there. And processes
that share the tests out must collect the same names.
"""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import pytest
import time_machine
from django.db.models import Model

# A moment that every check of freshness refuses, and that no test means.
COLLECTED_AT = datetime(1985, 11, 5, 0, 53, 20, tzinfo=UTC)
_ABOUT = timedelta(days=3 * 365)
# As a date of ISO 8601 with or without dashes, of HTTP and mail, of people; as seconds, or parts of one.
_WRITTEN = re.compile(
    r"\b198[2-8]-\d\d-\d\d|\b19851[01]\d\d|\bNov 1985\b|\b\d\d\.1[01]\.1985\b"
    r"|(?<![\d.])(499|500)\d{6}(\d{3}){0,3}(?!\d)"
)
_HINTS = ("198", "499", "500")  # in whatever that finds: looking for these takes no time, for that it does
_DEPTH = 6
_DIGITS = 20  # of nanoseconds; a test may mean a text of any length
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RANDOM_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_FOUND = pytest.StashKey[list[str]]()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    with time_machine.travel(COLLECTED_AT, tick=False):
        return (yield)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where tests of endurance alone are asked for, a module without any is not imported: importing them all
    takes longer than most of those tests."""
    if config.option.markexpr != "endurance" or not collection_path.match("test_*.py"):
        return None
    return True if b"mark.endurance" not in collection_path.read_bytes() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Raises pytest.UsageError naming tests that a random UUID names (give such a parameter an ``id``), and
    what helpers of tests made of a clock when they were imported. Tests that need the adcp package come
    first: one tester takes what begins, and imports it for all of them."""
    drawn = [item.nodeid for item in items if _RANDOM_UUID.search(item.nodeid)]
    if drawn:
        raise pytest.UsageError(f"named by a random UUID, another one in each process: {', '.join(drawn)}")
    if made := _of_helpers({getattr(item, "module", None) for item in items}):
        raise pytest.UsageError(f"made at collection, of a clock: {', '.join(made)}. Make it in a function.")
    items.sort(key=lambda item: item.get_closest_marker("adcp_package") is None)
    of_modules: dict[int, list[str]] = {}
    for item in items:
        module = getattr(item, "module", None)
        if id(module) not in of_modules:
            of_modules[id(module)] = _of_module(module)
        if found := [*_of_item(item), *of_modules[id(module)]]:
            item.stash[_FOUND] = found


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fails a test that has, or whose module has, a value that was made of the clock at collection."""
    if found := item.stash.get(_FOUND, None):
        told = f"made at collection, of a clock: {', '.join(found)}"
        pytest.fail(f"{told}. Make it in the test, or give the test a callable.", pytrace=False)


def tells_the_clock(value: object, depth: int = _DEPTH) -> bool:
    """Whether `value`, or anything in it down to `depth`, is a moment near `COLLECTED_AT` or names one."""
    if isinstance(value, (date, int, float, str, bytes, uuid.UUID)):
        return _is_near(value)
    if depth == 0:
        return False
    return any(tells_the_clock(part, depth - 1) for part in _parts(value))


def _is_near(value: date | float | str | bytes | uuid.UUID) -> bool:
    match value:
        case datetime():
            return abs(value.replace(tzinfo=value.tzinfo or UTC) - COLLECTED_AT) < _ABOUT
        case date():
            return abs(value - COLLECTED_AT.date()) < _ABOUT
        case uuid.UUID():
            return value.version == 7 and _is_near(value.int >> 80)  # milliseconds
        case str() if len(value) < _DIGITS and value.isdecimal():
            return _is_near(int(value))
        case str() if _UUID.fullmatch(value):
            return _is_near(uuid.UUID(value))
        case str():
            return _is_written_in(value)
        case bytes():
            return _is_written_in(value.decode("latin-1"))
        case _:
            at, about = int(COLLECTED_AT.timestamp()), int(_ABOUT.total_seconds())
            return any(abs(value - at * unit) < about * unit for unit in (1, 1_000, 1_000_000_000))


def _is_written_in(text: str) -> bool:
    return any(hint in text for hint in _HINTS) and bool(_WRITTEN.search(text))


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, Set)):
        return value
    if isinstance(value, partial):
        return [value.args, value.keywords]
    if isinstance(value, FunctionType):
        return [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *_held_by(value)]
    if isinstance(value, type) and value.__module__.startswith(("tests.", "test_")):
        return vars(value).values()
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in fields(value)]
    if isinstance(value, (Model, SimpleNamespace)) or type(value).__module__.startswith(("tests.", "test_")):
        return [part for name, part in getattr(value, "__dict__", {}).items() if name != "_state"]
    return ()


def _held_by(function: FunctionType) -> Iterator[object]:
    """What it took from the function that made it, and the examples that hypothesis is to try it with."""
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not filled yet
            yield cell.cell_contents
    for example in getattr(function, "hypothesis_explicit_examples", ()):
        yield from (example.args, example.kwargs)


def _of_item(item: pytest.Item) -> list[str]:
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return [f"{name} of {item.nodeid}" for name, value in params.items() if tells_the_clock(value)]


def _of_helpers(tested: set[object]) -> list[str]:
    """Of modules that tests import: whatever of ours was loaded and has no tests itself."""
    helpers = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("tests.") and name != __name__ and module not in tested
    ]
    return [found for module in helpers for found in _of_module(module)]


def _of_module(module: object) -> list[str]:
    names = vars(module) if module else {}
    found = [name for name, value in names.items() if not name.startswith("__") and tells_the_clock(value)]
    return [f"{getattr(module, '__name__', '')}.{name}" for name in found]
