"""What tells a rule, a test that reads the code or the documents, from other tests."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reading import reads_the_project

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"


def looks_through() -> list[Path]:
    return [path for path in ROOT.rglob("*.py") if path.stem]


@functools.cache
def known() -> int:
    return len(looks_through())


def by_others() -> None:
    assert {str(one) for one in range(known())}


def reads_what_it_names() -> None:
    assert README.read_text()


def reads_what_it_is_given(document: Path) -> str:
    return document.read_text()


def names_and_reads_nothing() -> None:
    assert README.name


def calls_itself() -> None:
    calls_itself()


@pytest.mark.parametrize("test", [looks_through, known, by_others, reads_what_it_names])
def test_it_is_seen_directly_and_through_other_functions(test: Callable[[], object]) -> None:
    assert reads_the_project(test)


@pytest.mark.parametrize("test", [names_and_reads_nothing, calls_itself, Path.rglob, None])
def test_what_reads_nothing_of_ours_is_none(test: object) -> None:
    assert not reads_the_project(test)


def test_what_it_is_given_counts_where_it_is_of_the_project(tmp_path: Path) -> None:
    assert reads_the_project(reads_what_it_is_given, README)
    assert not reads_the_project(reads_what_it_is_given, tmp_path / "README.md")
