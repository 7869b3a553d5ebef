"""Tests that read the code or the documents are marked `rule`: whoever adds something has to enter it there.

`make rules` plays them alone, in a small part of the time of all.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

_TESTS = Path(__file__).resolve().parent
_FOLDER = f"{_TESTS}{os.sep}"
_DOES_MORE = {"committed_db", "processes"}  # it starts processes, and takes its time
_LOOKS_THROUGH, _READS = {"rglob", "glob"}, {"read_text"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        given: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
        does_more = _DOES_MORE.intersection(getattr(item, "fixturenames", ()))
        if not does_more and reads_the_project(getattr(item, "function", None), *given.values()):
            item.add_marker("rule")


def reads_the_project(test: object, *given: object) -> bool:
    """Whether a test looks through files, or reads one of the project that it names or is given; itself or
    through other functions of tests."""
    names, named = _reached(test)
    return bool(names & _LOOKS_THROUGH) or bool(names & _READS and any(map(_is_ours, [*named, *given])))


@cache  # asked for each of a test's parameters
def _reached(test: object) -> tuple[set[str], list[object]]:
    """What is named in the code of a test and of what it calls among the functions of tests, and what of that
    is no function of theirs."""
    names: dict[CodeType, set[str]] = {}
    named: list[object] = []
    follow = [test]
    while follow:
        function = inspect.unwrap(one) if callable(one := follow.pop()) else one
        if not isinstance(function, FunctionType):
            named.append(one)
        elif function.__code__ not in names and function.__code__.co_filename.startswith(_FOLDER):
            names[function.__code__] = {*_names(function.__code__)}
            follow += [function.__globals__.get(name) for name in names[function.__code__]]
    return set().union(*names.values()), named


def _names(code: CodeType) -> Iterator[str]:
    """What is named in it, and in the functions and comprehensions inside."""
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)


def _is_ours(value: object) -> bool:
    return isinstance(value, Path) and value.is_relative_to(_TESTS.parent)
