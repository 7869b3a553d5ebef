"""The engine runs every recipe alike: nothing in its code names what the storeys above run on it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tasks_app.jobs

_ABOVE = re.compile(r"campaign|deal|orders|allocat|media_?buy|book", re.IGNORECASE)


def words_of(path: Path) -> Iterator[str]:
    """Names and texts in the code, docstrings left out."""
    tree = ast.parse(path.read_text())
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value


@pytest.mark.rule
def test_the_engine_names_nothing_that_runs_on_it() -> None:
    room = Path(next(iter(tasks_app.jobs.__path__)))
    found = {
        f"{path.name}: {word}"
        for path in room.rglob("*.py")
        for word in words_of(path)
        if _ABOVE.search(word)
    }
    assert found == set()
