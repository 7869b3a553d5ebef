"""Tests of endurance are marked, and play a short round unless all rounds are asked for."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from tests import endurance

ROOT = Path(__file__).resolve().parents[2]
_DEFINED = ROOT / "tests/endurance.py"


def test_all_rounds_are_played_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for times in (0, 1, 50):
        monkeypatch.setattr(endurance, "_TIMES", times)
        told.append((endurance.rounds(2, 10), endurance.the_same_each_time()))
    assert told == [(2, True), (10, True), (500, False)]


def test_a_sweep_kills_before_every_statement_where_all_rounds_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = []
    for times in (0, 1, 50):
        monkeypatch.setattr(endurance, "_TIMES", times)
        told.append([list(islice(endurance.statements(every=5, whole=each), 3)) for each in (1, 3)])
    assert told == [[[1, 6, 11]] * 2, [[1, 2, 3], [1, 4, 7]], [[1, 2, 3], [1, 4, 7]]]


def asked_rounds(tree: ast.AST) -> list[tuple[float, float]]:
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "rounds"
    ]
    return [tuple(ast.literal_eval(argument) for argument in call.args) for call in calls]  # type: ignore[misc]


def sweeps(tree: ast.AST) -> bool:
    return any(isinstance(node, ast.Call) and ast.unparse(node.func) == "lives" for node in ast.walk(tree))


def marked(tree: ast.AST) -> bool:
    return any(
        ast.unparse(node) == "pytest.mark.endurance" for node in ast.walk(tree) if isinstance(node, ast.expr)
    )


def test_who_is_marked_has_rounds_and_who_has_rounds_is_marked() -> None:
    found = swept = 0
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path == Path(__file__):
            continue
        tree = ast.parse(path.read_text())
        asked = asked_rounds(tree)
        assert bool(asked or sweeps(tree)) == marked(tree), path
        assert sweeps(tree) == ("statements(every=" in path.read_text()), path
        assert all(short <= whole for short, whole in asked), path
        found += bool(asked)
        swept += sweeps(tree)
    assert found
    assert swept


def test_make_plays_all_rounds_of_those_alone() -> None:
    command = ["make", "-n", "test-endurance", "TESTERS=3", "ARGS=-x"]
    alone = {"PATH": os.environ["PATH"]}  # not what a make around these tests left for its own
    printed = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, check=True).stdout
    assert "ROUNDS=1 " in printed
    assert printed.rstrip().endswith("pytest -m endurance -n 3 -x")
    program = "from tests.endurance import rounds; print(rounds(2, 10))"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "ROUNDS": "1"},
        capture_output=True,
        check=True,
    )
    assert ran.stdout == b"10\n"
