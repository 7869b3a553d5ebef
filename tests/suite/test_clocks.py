"""What a test says of a moment to come, it says beside a clock that stands: with the machine's own, a moment
seconds ahead has gone by where the machine does much else."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TypeGuard

import pytest

from tests.suite.test_patience import sources

_INJECTED = "clock.injected"
_NOW = {"clock.now", "timezone.now", "datetime.now"}
_LATER, _EARLIER = (ast.Gt, ast.GtE), (ast.Lt, ast.LtE)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def compared(text: str, stopped: set[str]) -> Iterator[int]:
    """The lines that ask whether a moment is yet to come while the clock goes on; `stopped` are the fixtures
    under which it stands."""
    if not any(f"{now}(" in text for now in _NOW):
        return
    tree = ast.parse(text)
    if _used(tree.body) & stopped:
        return
    own = {each.name for each in tree.body if isinstance(each, Function) and _stops(each)}
    yield from _looked_at(tree, stopped, {_INJECTED, *own})


def _looked_at(node: ast.AST, stopped: set[str], stopping: set[str]) -> Iterator[int]:
    if isinstance(node, Function) and _asks_for(node) & stopped:
        return
    if isinstance(node, ast.With) and any(_stops(item.context_expr, stopping) for item in node.items):
        return
    if isinstance(node, ast.Compare) and _of_what_comes(node):
        yield node.lineno
    if isinstance(node, ast.keyword) and str(node.arg).endswith(("__gt", "__gte")) and _comes(node.value):
        yield node.value.lineno
    for each in ast.iter_child_nodes(node):
        yield from _looked_at(each, stopped, stopping)


def _of_what_comes(node: ast.Compare) -> bool:
    sides = [node.left, *node.comparators]
    for left, how, right in zip(sides, node.ops, sides[1:], strict=False):
        sooner, later = (left, right) if isinstance(how, _EARLIER) else (right, left)
        if isinstance(how, _LATER + _EARLIER) and (_is_now(sooner) or _is_left_until(later)):
            return True
    return False


def _comes(node: ast.AST) -> bool:
    """Not ``clock.now() - LONG``: that has gone by already."""
    return _reads_now(node) and not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub))


def _is_now(node: ast.AST) -> bool:
    return _reads_now(node) and not _is_left_until(node)


def _is_left_until(node: ast.AST) -> bool:
    """``due - clock.now()``."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and _reads_now(node.right)


def _reads_now(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Call) and ast.unparse(each.func) in _NOW for each in ast.walk(node))


def _stops(node: ast.AST, by: Collection[str] = (_INJECTED,)) -> bool:
    return any(isinstance(each, ast.Call) and ast.unparse(each.func) in by for each in ast.walk(node))


def _asks_for(node: Function) -> set[str]:
    """The fixtures that it names."""
    told = {each.arg for each in (*node.args.args, *node.args.kwonlyargs)}
    return told.union(*(_words(each) for each in node.decorator_list))


def _used(body: list[ast.stmt]) -> set[str]:
    """The fixtures of all of the module's tests."""
    marks = [line.value for line in body if isinstance(line, ast.Assign) and _is_mark(line)]
    always = {each.name for each in body if isinstance(each, Function) and _is_autouse(each)}
    return always.union(*(_words(each) for each in marks))


def _is_mark(line: ast.Assign) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "pytestmark" for each in line.targets)


def _is_autouse(node: Function) -> bool:
    return any("autouse=True" in ast.unparse(each) for each in node.decorator_list)


def _words(node: ast.AST) -> set[str]:
    """What is given to ``usefixtures``."""
    return {
        str(word.value)
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("usefixtures")
        for word in call.args
        if isinstance(word, ast.Constant)
    }


def stopping(texts: list[str]) -> set[str]:
    """The names of fixtures that stop the clock, themselves or through another."""
    defined = [text for text in texts if "pytest.fixture" in text]
    fixtures: dict[str, list[Function]] = defaultdict(list)
    for text in defined:
        for node in ast.walk(ast.parse(text)):
            if _is_fixture(node):
                fixtures[node.name].append(node)
    found: set[str] = set()
    while more := {name for name, each in fixtures.items() if _all_stop(name, each, found)} - found:
        found |= more
    return found


def _all_stop(name: str, fixtures: list[Function], found: set[str]) -> bool:
    """Whether each fixture of this name does: a name may mean another elsewhere. One that asks for its own
    name has another's."""
    stops = [_stops(each) or bool(_asks_for(each) & found) for each in fixtures]
    return any(stops) and all(
        known or name in _asks_for(each) for known, each in zip(stops, fixtures, strict=True)
    )


def _is_fixture(node: ast.AST) -> TypeGuard[Function]:
    return isinstance(node, Function) and any(
        ast.unparse(each.func if isinstance(each, ast.Call) else each) == "pytest.fixture"
        for each in node.decorator_list
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def test_it():\n  assert it.due_at > clock.now()", [2]),
        ("def test_it():\n  assert clock.now() < it.due_at < it.end", [2]),
        ("def test_it():\n  assert it.due_at >= timezone.now() + SOON", [2]),
        ("def test_it():\n  assert timedelta(0) < first - clock.now()", [2]),
        ("def test_it():\n  assert first - clock.now() < timedelta(minutes=1)", []),
        ("def test_it():\n  assert clock.now() - since < timedelta(minutes=1)", [2]),
        ("def test_it():\n  assert it.due_at <= clock.now()", []),
        ("def test_it():\n  before = clock.now()\n  assert it.due_at > before", []),
        ("def test_it(still):\n  assert it.due_at > clock.now()", []),
        ("@pytest.mark.usefixtures('still')\ndef test_it():\n  assert it.due_at > clock.now()", []),
        ("def test_it():\n  with clock.injected(at):\n    assert it.due_at > clock.now()", []),
        (
            "def at(it): return clock.injected(it)\ndef test_it():\n  with at(it): assert due > clock.now()",
            [],
        ),
        ("pytestmark = [pytest.mark.usefixtures('still')]\ndef test_it():\n  assert due > clock.now()", []),
        ("def test_it():\n  with clock.injected(at): pass\n  assert it.due_at > clock.now()", [3]),
        ("def test_it():\n  assert it.filter(due_at__gte=clock.now() + SOON).exists()", [2]),
        ("def test_it():\n  assert it.filter(due_at__gte=clock.now() - LONG).exists()", []),
        ("def test_it():\n  assert it.filter(due_at__lte=clock.now()).exists()", []),
        ("pytestmark = [pytest.mark.usefixtures('other')]\ndef test_it():\n  assert due > clock.now()", [3]),
    ],
)
def test_a_moment_to_come_beside_a_clock_that_goes_on_is_seen(text: str, found: list[int]) -> None:
    assert list(compared(text, {"still"})) == found


def test_a_fixture_that_stops_the_clock_through_another_is_seen() -> None:
    first = "@pytest.fixture\ndef still():\n  with clock.injected(at): yield"
    through = "@pytest.fixture()\ndef time(still): return still\n@pytest.fixture\ndef other(): ..."
    also = "@pytest.fixture\ndef later(still): ...\n@pytest.fixture\ndef latest(later): ..."
    elsewhere = "@pytest.fixture\ndef later(): ...\n@pytest.fixture\ndef still(still): ..."
    assert stopping([through, first, also, elsewhere]) == {"still", "time"}


def test_moments_to_come_are_compared_with_a_clock_that_stands() -> None:
    texts = sources()
    stopped = stopping([text for _, text in texts])
    assert "still" in stopped
    found = [f"{path}:{line}" for path, text in texts for line in compared(text, stopped)]
    assert not found, f"take the fixture `still`: {found}"
