"""Who calls whom, read from the source: by which functions and methods a person's act comes to a decision."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
STOREYS = ("tasks_app", "orders", "campaigns", "config")
_Definition = ast.FunctionDef | ast.AsyncFunctionDef
Calls = dict[str, set[str]]


def calls() -> Calls:
    """Every function, and method as Class.method, by its dotted name, to the dotted names it refers to."""
    found: Calls = {}
    for storey in STOREYS:
        for path in (ROOT / storey).rglob("*.py"):
            if "migrations" not in path.parts:
                found |= _of_module(path)
    return found


def leading_to(ends: Collection[str], known: Calls) -> set[str]:
    """What comes to one of `ends`, however far around."""
    reached = set(ends)
    while more := {name for name, refers in known.items() if name not in reached and refers & reached}:
        reached |= more
    return reached - set(ends)


def doors(reached: Collection[str], known: Calls) -> set[str]:
    """Those of `reached` that no other of them refers to: called by the framework, or from a table."""
    return {name for name in reached if not any(name in known[other] for other in reached if other != name)}


def _of_module(path: Path) -> Calls:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    tree = ast.parse(path.read_text())
    names = dict(_imported(tree)) | {
        node.name: f"{module}.{node.name}"
        for node in tree.body
        if isinstance(node, _Definition | ast.ClassDef)
    }
    found: Calls = {}
    for node in tree.body:
        if isinstance(node, _Definition):
            found[names[node.name]] = _referred(node, names)
        elif isinstance(node, ast.ClassDef):
            methods = [one for one in node.body if isinstance(one, _Definition)]
            dotted = {f"self.{one.name}": f"{names[node.name]}.{one.name}" for one in methods}
            for one in methods:
                found[dotted[f"self.{one.name}"]] = _referred(one, names | dotted)
    return found


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"
        elif isinstance(node, ast.Import):
            for one in node.names:
                yield one.asname or one.name, one.name


def _referred(node: ast.AST, names: dict[str, str]) -> set[str]:
    """Dotted names of what is named in a body: `name`, `module.name`, `self.method`."""
    found = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and one.id in names:
            found.add(names[one.id])
        elif isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
            owner = one.value.id
            found.add(names.get(f"{owner}.{one.attr}") or f"{names.get(owner, owner)}.{one.attr}")
    return found
