"""Tests of endurance are marked, and play a short round unless all rounds are asked for."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import pytest

from tests import endurance

ROOT = Path(__file__).resolve().parents[2]


def test_all_rounds_are_played_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for times in (0, 1, 50):
        monkeypatch.setattr(endurance, "_TIMES", times)
        told.append((endurance.rounds(2, 10), endurance.the_same_each_time()))
    assert told == [(2, True), (10, True), (500, False)]


def test_a_sweep_kills_at_every_moment_where_all_rounds_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = []
    for times in (0, 1, 50):
        monkeypatch.setattr(endurance, "_TIMES", times)
        told.append(list(islice(endurance.moments(every=5), 3)))
    assert told == [[1, 6, 11], [1, 2, 3], [1, 2, 3]]


def test_each_case_is_played_where_all_rounds_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for times in (0, 1, 50):
        monkeypatch.setattr(endurance, "_TIMES", times)
        told.append(endurance.all_or_some("abcde", every=3))
    assert told == [["a", "d"], [*"abcde"], [*"abcde"]]


def asked_rounds(tree: ast.AST) -> list[tuple[float, ...]]:
    """The short and the whole number of rounds of each call that asks for them."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _called(node) == "rounds"]
    told = [[*call.args, *(each.value for each in call.keywords)] for call in calls]
    return [tuple(map(ast.literal_eval, each)) for each in told]


def of_endurance(text: str) -> dict[str, tuple[bool, bool]]:
    """Of each of the module's tests: whether it plays rounds or a sweep of kills, itself or through what the
    module defines, and whether it is marked."""
    tree = ast.parse(text)
    defined = {name: line for line in _lines(tree.body) for name in _names(line)}

    def reaches(node: ast.AST, seen: set[str], known: Mapping[str, ast.stmt]) -> bool:
        for each in ast.walk(node):
            if isinstance(each, ast.Call) and _called(each) in _PLAYED:
                return True
            name = _meant(each)
            if name in known and name not in seen:
                seen.add(name)
                if reaches(known[name], seen, known):
                    return True
        return False

    whole = _is_marked(defined.get("pytestmark"))
    return {
        name: (
            reaches(test, {name}, {**defined, **_members(around)}),
            whole or _is_marked(test) or any(map(_is_marked, [*_decorators(around), *_assigned(around)])),
        )
        for name, test, around in _tests(defined)
    }


def _meant(node: ast.AST) -> str:
    """What of the module, or of a test's class, is named there."""
    match node:
        case ast.Name(id=name) | ast.arg(arg=name):  # a parameter is a fixture's name
            return name
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
            return name
    return ""


_PLAYED = {"rounds", "statements", "all_or_some", "lives"}


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rsplit(".", 1)[-1]


def _tests(defined: dict[str, ast.stmt]) -> Iterator[tuple[str, ast.stmt, ast.ClassDef | None]]:
    """Each test with its name, and its class."""
    for name, line in defined.items():
        if name.startswith("test_"):
            yield name, line, None
        elif name.startswith("Test") and isinstance(line, ast.ClassDef):
            for one, method in _members(line).items():
                if one.startswith("test_"):
                    yield f"{name}::{one}", method, line


def _members(around: ast.ClassDef | None) -> dict[str, ast.stmt]:
    return {name: line for line in _lines(around.body) for name in _names(line)} if around else {}


def _decorators(around: ast.ClassDef | None) -> list[ast.expr]:
    return around.decorator_list if around else []


def _assigned(around: ast.ClassDef | None) -> list[ast.expr]:
    return [each.value for each in around.body if isinstance(each, ast.Assign)] if around else []


def _lines(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """With those that stand below a condition."""
    for line in body:
        yield line
        if isinstance(line, ast.If | ast.Try | ast.With):
            yield from _lines([*line.body, *getattr(line, "orelse", ())])


def _names(line: ast.stmt) -> list[str]:
    """What it defines."""
    match line:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign() | ast.AnnAssign():
            targets = line.targets if isinstance(line, ast.Assign) else [line.target]
            each = (one for target in targets for one in ast.walk(target))
            return [one.id for one in each if isinstance(one, ast.Name)]
    return []


def _is_marked(node: ast.AST | None) -> bool:
    return node is not None and any(
        ast.unparse(each) == "pytest.mark.endurance" for each in ast.walk(node) if isinstance(each, ast.expr)
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def test_it(): rounds(1, 2)", (True, False)),
        ("N = rounds(1, 2)\ndef play(): return N\ndef test_it(): play()", (True, False)),
        ("@given(x=draw(rounds(1, 2)))\ndef test_it(): pass\nN = rounds(1, 2)", (True, False)),
        ("@pytest.mark.endurance\ndef test_it(): pass", (False, True)),
        ("async def test_it(): endurance.rounds(1, 2)", (True, False)),
        ("N: int = rounds(1, 2)\ndef test_it(): play(N)", (True, False)),
        ("N, M = 3, rounds(1, 2)\ndef test_it(): play(M)", (True, False)),
        ("pytestmark = [pytest.mark.django_db, pytest.mark.endurance]\ndef test_it(): pass", (False, True)),
        ("A, (B, *N) = 3, (4, rounds(1, 2))\ndef test_it(): play(N)", (True, False)),
        ("if more:\n  N = rounds(1, 2)\ndef test_it(): play(N)", (True, False)),
        ("@pytest.fixture\ndef life(): return lives('x')\ndef test_it(life): pass", (True, False)),
        ("N = rounds(1, 2)\ndef test_it(): play()", (False, False)),
    ],
)
def test_a_test_that_has_rounds_is_seen(text: str, told: tuple[bool, bool]) -> None:
    assert of_endurance(text) == {"test_it": told}


def test_of_a_class_each_test_is_looked_at() -> None:
    text = (
        "class TestIt:\n  @pytest.mark.endurance\n  def test_a(self): pass\n  def test_b(self): rounds(1, 2)"
    )
    assert of_endurance(text) == {"TestIt::test_a": (False, True), "TestIt::test_b": (True, False)}
    marked = f"@pytest.mark.endurance\n{text}"
    assert of_endurance(marked) == {"TestIt::test_a": (False, True), "TestIt::test_b": (True, True)}


@pytest.mark.parametrize("line", ["N = rounds(1, 2)", "def played(self): rounds(1, 2)"])
def test_what_its_class_defines_is_looked_at_too(line: str) -> None:
    name = "N" if line.startswith("N") else "played()"
    text = f"class TestIt:\n  {line}\n  def test_a(self): play(self.{name})\n  def test_b(self): pass"
    assert of_endurance(text) == {"TestIt::test_a": (True, False), "TestIt::test_b": (False, False)}


@pytest.mark.parametrize("text", ["rounds(2, 5)", "endurance.rounds(2, 5)", "rounds(short=2, whole=5)"])
def test_how_many_rounds_are_asked_for_is_seen(text: str) -> None:
    assert asked_rounds(ast.parse(text)) == [(2, 5)]


def test_who_is_marked_has_rounds_and_who_has_rounds_is_marked() -> None:
    found = 0
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        if path == Path(__file__) or not any(word in text for word in (*_PLAYED, "endurance")):
            continue
        told = of_endurance(text)
        assert {name for name, (rounds, marked) in told.items() if rounds != marked} == set(), path
        # Where one round is all there is, the short one plays some of its parts.
        assert all(s < w or "all_or_some(" in text for s, w in asked_rounds(ast.parse(text))), path
        found += any(rounds for rounds, _ in told.values())
    assert found > 10


@pytest.mark.parametrize("asked", ["endurance", "not browser", ""])
def test_where_they_alone_are_asked_for_no_other_module_is_imported(tmp_path: Path, asked: str) -> None:
    for name, text in {
        "test_marked": "import pytest\n@pytest.mark.endurance\ndef test_it(): pass",
        "test_other": "raise ImportError('imported')",
        "conftest": "",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "none.ini").write_text("[pytest]\nmarkers = endurance\n")
    line = [sys.executable, "-m", "pytest", "-q", "-c", "none.ini", "-p", "tests.collecting", "-m", asked]
    done = subprocess.run(
        line,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    told = done.stdout + done.stderr
    assert ("1 passed" in told, "imported" in told) == (asked == "endurance", asked != "endurance"), told


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
