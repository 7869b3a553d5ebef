"""docs/races.md names tests that exist, and every test of this folder."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "races.md"
ROW = re.compile(r"^\|(?!-)(.*)\|$", re.MULTILINE)
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def functions_of(path: Path) -> set[str]:
    """The names of a file's test functions."""
    tree = ast.parse(path.read_text())
    return {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def named() -> list[tuple[str, str]]:
    """File and function of every test on the page."""
    return NAMED.findall(PAGE.read_text())


@pytest.mark.rule
def test_every_test_that_is_named_exists() -> None:
    missing = [
        f"{path}::{name}"
        for path, name in named()
        if not (ROOT / path).is_file() or name not in functions_of(ROOT / path)
    ]
    assert missing == []


@pytest.mark.rule
def test_every_row_names_a_test() -> None:
    rows = [row for row in ROW.findall(PAGE.read_text()) if "| Test" not in row]
    assert rows
    assert [row for row in rows if not NAMED.search(row)] == []


@pytest.mark.rule
def test_every_race_is_listed() -> None:
    here = Path(__file__)
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in here.parent.glob("test_*.py")
        if path != here
        for name in functions_of(path)
    }
    assert sorted(found - set(named())) == []
