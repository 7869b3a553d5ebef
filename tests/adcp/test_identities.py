"""One reader of identities: what a seller names is no text before `identity_of` has read it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks_app.adcp.hygiene import identified
from tasks_app.adcp.values import identity_of

pytestmark = pytest.mark.deep

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for room in ("tasks_app", "orders", "campaigns")
    for path in sorted((ROOT / room).rglob("*.py"))
    if "migrations" not in path.parts
]
# What we name ourselves and sellers repeat: always text, as we sent it.
OURS = {"operation_id", "deal_id", "line_id", "step_id", "brand_id"}


def _key(read: ast.expr) -> str:
    """The name of the field that `read` reads out of an object; empty where it reads none."""
    key: ast.expr | None = None
    if isinstance(read, ast.Subscript):
        key = read.slice
    elif isinstance(read, ast.Call) and isinstance(read.func, ast.Attribute) and read.func.attr == "get":
        key = next(iter(read.args), None)
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def _is_foreign(key: str) -> bool:
    return key.endswith("_id") and key not in OURS


def _taken_for_text(function: ast.AST) -> Iterator[ast.Call]:
    """Calls in which an identity out of an object is read as a text, directly or by a name given to it."""
    nodes = list(ast.walk(function))
    named = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and _is_foreign(_key(node.value))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
            continue
        first, name = node.args[0], node.func.id
        as_text = name == "text_of" or (
            name == "isinstance" and isinstance(node.args[1], ast.Name) and node.args[1].id == "str"
        )
        if as_text and (_is_foreign(_key(first)) or (isinstance(first, ast.Name) and first.id in named)):
            yield node


@pytest.mark.rule
def test_no_identity_is_taken_for_text() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {ast.unparse(call)}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for call in _taken_for_text(node)
    }
    assert len(SOURCES) > 100
    assert found == set()


def test_the_look_finds_what_it_looks_for() -> None:
    by_name = "named = buy.get('media_buy_id')\nisinstance(named, str)"
    directly = "isinstance(buy.get('task_id'), str) or text_of(buy['package_id'])"
    harmless = "isinstance(buy.get('name'), str) or text_of(buy['operation_id'])"
    found = [len(list(_taken_for_text(ast.parse(code)))) for code in (by_name, directly, harmless)]
    assert found == [1, 2, 0]


@pytest.mark.parametrize("number", [58213, 58213.0, "58213"])
def test_an_identity_is_the_same_however_it_is_written(number: object) -> None:
    told = {"media_buy_id": number, "packages": [{"package_id": number}], "creative_ids": [number]}
    assert identity_of(number) == "58213"
    assert identified(told) == {
        "media_buy_id": "58213",
        "packages": [{"package_id": "58213"}],
        "creative_ids": ["58213"],
    }


@pytest.mark.parametrize("none", [None, "", True, 1.5, [], {}])
def test_what_is_no_identity_stays_as_it_is_told(none: object) -> None:
    assert identified({"media_buy_id": none, "context": {"x_id": 1}}) == {
        "media_buy_id": none,
        "context": {"x_id": 1},
    }


def test_a_number_that_a_transport_has_rounded_is_no_identity() -> None:
    """A float tells whole numbers apart up to 2**53 only: beyond it another buy could be meant."""
    assert identity_of(2.0**53 - 1) == str(2**53 - 1)
    assert identity_of(2.0**53) is None
    assert identity_of(2**60 + 1) == str(2**60 + 1)
