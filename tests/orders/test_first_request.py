"""By enumeration: nobody here reads an operation's first request for what is bought or changed, but who has a
reason. What counts is what people last let go of it (`request_let_go`)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from orders.answering import DEALS_OWN

pytestmark = pytest.mark.deep

_ROOM = Path(__file__).resolve().parents[2] / "orders"
_NEVER_ANSWERED = {*DEALS_OWN, "context"}  # ours, or the deal's own: an answer cannot say it otherwise
_COLUMN = "request"
_NOT_SENT = "what is asked about, or held, before anything of it left: no seller can have asked yet"
_AS_PUT = "as it is put to people before it leaves, by which that question is compared later"
_NUMBER = "asked and compared before the purchase leaves; others stand under the number they gave"
READS = {
    "answering._problem": "whether an answer touches what no answer may say otherwise",
    "booking._take_answer": "whether people let anything else go than the first request",
    "changes._decided": _NOT_SENT,
    "changes._for_now": _NOT_SENT,
    "changes._offered": _AS_PUT,
    "changes.change_question": _AS_PUT,
    "doubt.cancels": "what cancels is the deal's own: no answer says it otherwise",
    "doubt._sent_last": "whether an answer changes what the first request asked for",
    "po_numbers.the_same_order": "an integrator's call made again is compared with the call it repeats",
    "questions.po_number_question": _NUMBER,
    "redating.looked_at": "of what is leaving, which is the answer where an answer leaves",
    "request_rules.offered": "of get_products, whose answer a purchase is read by",
    "selectors": "columns that a list leaves out",
    "ways._begun": "of what has not left, or reached nobody, so that nobody has answered about it",
    "ways._purchase": "a column that is read for it",
    "api/selectors": "columns that a list leaves out",
    "api/serializers.Meta": "the operation as the API shows it, beside its own observations",
    "sent.purchase_sent": _AS_PUT,
}


def _reads(tree: ast.AST, inside: str = "") -> Iterator[str]:
    """The function, or class, of each read of a request."""
    for node in ast.iter_child_nodes(tree):
        named = isinstance(node, ast.FunctionDef | ast.ClassDef)
        name = node.name if named else inside
        if _is_harmless(node):
            continue
        if _is_read(node):
            yield name
        yield from _reads(node, name)


def _is_read(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value == _COLUMN or node.value.startswith(f"{_COLUMN}__")
    return isinstance(node, ast.Attribute) and node.attr == _COLUMN and not _is_views(node.value)


def _is_views(of: ast.AST) -> bool:
    """The request that a view answers, and the module of them."""
    return isinstance(of, ast.Name) and of.id in ("self", "rest_framework")


def _is_harmless(node: ast.AST) -> bool:
    """`….request["media_buy_id"]`, `….request.get("canceled")` and the like."""
    key: ast.AST | None = None
    if isinstance(node, ast.Subscript) and _is_read(node.value):
        key = node.slice
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_read(node.func.value):
        key = node.args[0] if node.func.attr == "get" and node.args else None
    return isinstance(key, ast.Constant) and key.value in _NEVER_ANSWERED


def _found() -> set[str]:
    found = set()
    for path in sorted(_ROOM.rglob("*.py")):
        if "migrations" not in path.parts:
            module = str(path.relative_to(_ROOM).with_suffix(""))
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found |= {f"{module}.{name}" if name else module for name in _reads(tree)}
    return found


@pytest.mark.rule
def test_nobody_reads_the_first_request_without_a_reason() -> None:
    assert _found() - READS.keys() == set(), "ask request_let_go, or give a reason here"


@pytest.mark.rule
def test_no_reason_is_left_over() -> None:
    assert READS.keys() - _found() == set()


def test_a_read_is_found() -> None:
    read = ast.parse("def told(operation):\n    return operation.request['packages']")
    harmless = ast.parse("def named(operation):\n    return operation.request.get('media_buy_id')")
    assert (list(_reads(read)), list(_reads(harmless))) == (["told"], [])
