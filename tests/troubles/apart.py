"""What of the product's background work is tried apart: handed to `tasks_app.troubles`, which gives each row
a savepoint of its own. From the source alone."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from functools import cache

from tests.troubles.reached import Place, definitions, roots, used
from tests.troubles.statements import name_of

# `_give` hands what it is given on to `together` (operations/deadlines.py).
_HANDS = {"together", "each_row", "side_by_side", "_give"}
# What one step of a job comes to is that step's, whatever it raises (jobs/attempts.py).
_OF_ONE_STEP = {"attempt"}
# What they use is not looked at, and why.
ENDS: dict[Place, str] = {
    ("tasks_app.operations.converge", "observe"): "one operation, which `observe_many` may have many of",
    ("tasks_app.jobs.claims", "_claim"): "where the call raises, what calls it takes the steps one by one",
}


@cache
def exposed() -> frozenset[Place]:
    """Every function that background work comes to by a way on which nothing tries its rows apart."""
    left, found = [*roots()], set[Place]()
    while left:
        place = left.pop()
        if place not in found and place in definitions() and place not in ENDS:
            found.add(place)
            left += used(place[0], bare(place))
    return frozenset(found)


@cache
def bare(place: Place) -> ast.AST:
    """A definition without what it has tried apart."""
    return bare_of(definitions()[place])


def bare_of(node: ast.AST) -> ast.AST:
    """Left out are what is handed over, functions within it by name too; what is done of one step; and a
    first try of all together, whose failure leads to each by itself."""
    node = copy.deepcopy(node)
    return _Bare({name for call in _handing(node) for name in _names_given(call)}, node).visit(node)


def _handing(node: ast.AST) -> Iterator[ast.Call]:
    calls = (one for one in ast.walk(node) if isinstance(one, ast.Call))
    return (call for call in calls if name_of(call) in _HANDS)


def _names_given(call: ast.Call) -> Iterator[str]:
    given = [*call.args, *(one.value for one in call.keywords)]
    return (one.id for part in given for one in ast.walk(part) if isinstance(one, ast.Name))


class _Bare(ast.NodeTransformer):
    def __init__(self, handed: set[str], whole: ast.AST) -> None:
        self._handed, self._whole = handed, whole
        names = (name_of(one) for one in ast.walk(whole) if isinstance(one, ast.Call))
        self._falls_back = not (_HANDS | _OF_ONE_STEP).isdisjoint(names)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return node.func if name_of(node) in _HANDS else self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        within = node is not self._whole and node.name in self._handed
        return ast.Pass() if within else self.generic_visit(node)

    def visit_With(self, node: ast.With) -> ast.AST:
        calls = (one.context_expr for one in node.items)
        if any(isinstance(one, ast.Call) and name_of(one) in _OF_ONE_STEP for one in calls):
            return ast.Pass()
        return self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> ast.AST:
        if self._falls_back and any(_is_of_all(one) for one in node.handlers):
            node.body = [ast.Pass()]
        return self.generic_visit(node)


def _is_of_all(handler: ast.ExceptHandler) -> bool:
    """Whether it goes on after whatever was raised."""
    raises = isinstance(handler.body[-1], ast.Raise)
    return isinstance(handler.type, ast.Name) and handler.type.id == "Exception" and not raises
