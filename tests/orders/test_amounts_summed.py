"""What deals come to is summed in one place: whatever sums their lines' amounts elsewhere is found here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEFINITION = "orders/amounts.py"
OF_LINES = ("budget", "confirmed_budget")
# What is summed and is no deal's lines.
OTHERS = {
    "orders/request_rules.py": "a request, as it came or is to leave",
    "orders/unclaimed/adopt.py": "what a seller tells of a media buy that is no deal yet",
    "tasks_app/approvals/posting.py": "what a person typed into an approval",
}


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    for one in ast.walk(tree):
        if isinstance(one, ast.Call) and ast.unparse(one.func).rpartition(".")[2] in ("sum", "Sum"):
            yield one


def _names(call: ast.Call) -> set[str]:
    """Attributes, and columns of a query, that a sum is made of."""
    inner = list(ast.walk(call))
    attributes = {one.attr for one in inner if isinstance(one, ast.Attribute)}
    texts = {str(one.value) for one in inner if isinstance(one, ast.Constant)}
    return attributes | {text.rpartition("__")[2] for text in texts}


def _sums() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for room in ("campaigns", "orders", "tasks_app"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if "migrations" in path.parts:
                continue
            calls = [one for one in _calls(ast.parse(path.read_text())) if _names(one) & set(OF_LINES)]
            if calls:
                found[str(path.relative_to(ROOT))] = [ast.unparse(one) for one in calls]
    return found


@pytest.mark.rule
def test_lines_are_summed_by_the_one_definition_alone() -> None:
    found = _sums()
    assert found.pop(DEFINITION)
    assert set(found) == set(OTHERS), found


def test_a_sum_is_recognised() -> None:
    for text in (
        "sum(line.budget for line in lines)",
        'models.Sum("lines__budget")',
        "Sum(F('confirmed_budget'))",
    ):
        (call,) = _calls(ast.parse(text))
        assert _names(call) & set(OF_LINES)
