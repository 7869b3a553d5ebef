"""Expressions see JSON and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tasks_app.jobs.templates import TemplateFailedError, resolve

SCOPE = {
    "inputs": {"budget": 5, "text": "{{ inputs.budget }}", "flag": False, "nothing": None},
    "steps": {"research": {"outputs": {"results": [{"n": 1}, {"n": 2}], "items": ["a"], "get": "g"}}},
    "item": {"seller": "s"},
}


@pytest.mark.parametrize(
    ("value", "stands_for"),
    [
        ("plain", "plain"),
        (7, 7),
        (None, None),
        ("{{ inputs.budget }}", 5),
        ("  {{inputs.budget}}\n", 5),
        ("{{ inputs.flag }}", False),
        ("{{ inputs.nothing }}", None),
        ("{{ steps.research.outputs.results }}", [{"n": 1}, {"n": 2}]),
        ("{{ steps.research.outputs.results[1].n }}", 2),
        ("{{ steps['research'].outputs }}", SCOPE["steps"]["research"]["outputs"]),
        ("{{ steps.research.outputs.results | length > 1 and not inputs.flag }}", True),
        # Keys that Python's dict has as methods are keys here.
        ("{{ steps.research.outputs.items }}", ["a"]),
        ("{{ steps.research.outputs.get }}", "g"),
        ({"a": ["{{ item.seller }}", {"b": "{{ inputs.budget }}"}]}, {"a": ["s", {"b": 5}]}),
        # Half an expression is text, and so is what an expression stands for: nothing is read twice.
        ("costs {{ inputs.budget }}", "costs {{ inputs.budget }}"),
        ("{{ inputs.text }}", "{{ inputs.budget }}"),
    ],
)
def test_what_a_value_stands_for(value: Any, stands_for: Any) -> None:
    assert resolve(value, SCOPE) == stands_for


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("inputs.ghost", "ghost"),
        ("steps.ghost.outputs", "ghost"),
        ("item.seller.name", "name"),
        ("ghost", "ghost"),
        ("steps.research.outputs.results[9]", "there is no such value"),
        ("inputs.nothing.more", "more"),
    ],
)
def test_a_missing_value_is_named(expression: str, words: str) -> None:
    with pytest.raises(TemplateFailedError, match=words) as missing:
        resolve({"a": [f"{{{{ {expression} }}}}"]}, SCOPE)
    assert str(missing.value).startswith(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "inputs.__class__",
        "''.__class__.__mro__[1].__subclasses__()",
        "inputs['__class__']",
        "inputs.text.format(inputs)",
        "'{0.__class__}'.format(inputs)",
        "inputs.text | attr('__class__')",
        "inputs | attr('update')",
        "steps.update(x=1)",
        "steps.research.outputs.results.append(1)",
        "inputs.pop('budget')",
        "inputs.clear()",
        "self",
        "steps.research.outputs.results | map(attribute='n')",
        "self.__init__.__globals__",
        "range(3)",
        "lipsum.__globals__",
        "cycler.__init__.__globals__.os.popen('id').read()",
        "dict(a=1)",
        "namespace()",
        "config",
        "1 / 0",
        "'a' + 1",
        "inputs.text | int('x', 'y', 'z', 1)",
        "1 +",
        "} }}",
        "x }} {{ y",
    ],
)
def test_nothing_else_is_reached(expression: str) -> None:
    before = repr(SCOPE)
    with pytest.raises(TemplateFailedError):
        resolve(f"{{{{ {expression} }}}}", SCOPE)
    assert repr(SCOPE) == before
