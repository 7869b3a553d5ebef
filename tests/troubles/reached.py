"""What the product's background work reaches: the functions that it registers or wakes workers for, and all
that these use, by name. From the source alone, so that nothing has to run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STOREYS = ("tasks_app", "orders", "campaigns")
# A function or a class of a module, or one of its constants.
Place = tuple[str, str]
_Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
# Functions that hand others over to be called back: what a room registers when the application starts.
_WIRING = {"register", "ready"}


@cache
def trees() -> dict[str, ast.Module]:
    """Each module of the product, parsed."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text())
        for storey in STOREYS
        for path in (ROOT / storey).rglob("*.py")
        if "migrations" not in path.parts
    }


@cache
def definitions() -> dict[Place, ast.stmt]:
    """Each function, class and constant of the product."""
    return {
        (module, name): node
        for module, tree in trees().items()
        for node in tree.body
        for name in _named(node)
    }


def _named(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, _Defined):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


@cache
def _imports(module: str) -> dict[str, Place]:
    """What a module's names stand for, by its imports: a module itself has no name of its own in it."""
    found: dict[str, Place] = {}
    for node in ast.walk(trees()[module]):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(STOREYS):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                place = (whole, "") if whole in trees() else (str(node.module), alias.name)
                found[alias.asname or alias.name] = place
    return found


def used(module: str, node: ast.AST) -> Iterator[Place]:
    """What a function uses: by a name of its module, an imported one, or one of an imported module."""
    imports = _imports(module)
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield imports.get(part.id, (module, part.id))
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            found = imports.get(part.value.id)
            if found is not None and not found[1]:
                yield found[0], part.attr


@cache
def reached() -> frozenset[Place]:
    """Every function of the product that its background work may come to."""
    left = [*roots()]
    found: set[Place] = set()
    while left:
        place = left.pop()
        if place not in found and place in definitions():
            found.add(place)
            left += used(place[0], definitions()[place])
    return frozenset(found)


def roots() -> Iterator[Place]:
    """What is registered, what workers are woken with, and the pass of the sweep itself."""
    for (module, name), node in definitions().items():
        if name in _WIRING or isinstance(node, ast.ClassDef):
            yield from (place for one in _wirings(node) for place in used(module, one))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            before, _, last = str(node.value.value).rpartition(".")
            yield before, last
    yield "tasks_app.operations.sweep", "_Sweeper"


def _wirings(node: ast.AST) -> list[ast.AST]:
    return [one for one in ast.walk(node) if isinstance(one, _Defined) and one.name in _WIRING]
