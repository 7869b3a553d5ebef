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


@pytest.mark.parametrize(
    "expression",
    [
        "'a' * 1000000000",
        "[1] * 1000000000",
        "10 ** 99999",
        "9 ** 9 ** 9 ** 9 ** 9",
        "'%1000000000d' % 1",
        "'a' | center(1000000000)",
        "'a' | indent(1000000000)",
        "'a' | replace('a', 'aa')",
        "inputs.long + inputs.long",
        "inputs.long ~ inputs.long",
        "inputs.many | join(inputs.long)",
        "[[1]] * 3 | sum(start=[])",
        "[inputs.list] | string",
        "[inputs.list] ~ ''",
        "['%s' | format('a')]",
        "inputs.list | batch(2, 'a')",
        "(" * 300 + "1" + ")" * 300,
        "not " * 240 + "1",
        "1" + " + 1" * 400,
        "2 ** 2000 * 2 ** 2000 * 2 ** 2000",
        # Once is within bounds, once for each of many values is not.
        "inputs.many | map('join', inputs.long) | list",
        "inputs.pairs | map('join', inputs.half) | list",
        "inputs.many | map(attribute='ghost', default=inputs.half) | list",
        "[inputs.half, inputs.half, inputs.half, inputs.half]",
        "inputs.rows | map(attribute='ghost', default=inputs.rows) | list",
        "inputs.rows | map(attribute='ghost', default=inputs.rows) | map('length') | sum",
        "inputs.rows | map(attribute='ghost', default=inputs.large) | list",
        "inputs.rows | map(attribute='ghost', default=inputs.half) | map('upper') | map('length') | sum",
        "inputs.zeros | map('default', inputs.numbers, true) | map('sum') | list",
        "inputs.zeros | map('d', inputs.large, true) | list",
        "[inputs.large] * 1",
        "inputs.some | map('default', inputs.large, true) | list",
        "inputs.numbers | select('in', inputs.numbers) | list",
        "1.5 | round(1000000000, 'floor')",
        "5 | round(-1000000000)",
    ],
)
def test_nothing_grows_beyond_bounds(expression: str) -> None:
    scope = {
        "inputs": {
            "long": "a" * 600_000,
            "half": "a" * 300_000,
            "many": ["b"] * 1000,
            "pairs": [["b", "b"]] * 1000,
            "numbers": list(range(1001)),
            "zeros": [0] * 1000,
            "some": [0] * 50,
            "rows": [{"n": 1}] * 1001,
            "large": [10**1000] * 200,
            "list": ["\\"],
        }
    }
    with pytest.raises(TemplateFailedError):
        resolve(f"{{{{ {expression} }}}}", scope)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("inputs.text ~ '-' ~ 7 ~ 1.5", "b-71.5"),
        ("inputs.text + 'c'", "bc"),
        ("inputs.numbers | join(', ')", "3, 1, 2"),
        ("inputs.numbers | sum", 6),
        ("inputs.rows | sum(attribute='n')", 3),
        ("inputs.rows | map(attribute='n') | list", [1, 2]),
        ("inputs.rows | selectattr('n', 'gt', 1) | list", [{"n": 2}]),
        ("inputs.numbers | sort | first", 1),
        ("7 | string", "7"),
        ("2 ** 10 * 1.5 % 1000", 536.0),
        ("inputs.ghost | default(3)", 3),
        ("inputs.ghost | default([])", []),
        ("inputs.rows | map(attribute='ghost', default=[]) | list", [[], []]),
        ("inputs.rows | map(attribute='n', default=inputs.numbers) | list", [1, 2]),
        ("'yes' if inputs.numbers | length == 3 else 'no'", "yes"),
    ],
)
def test_what_recipes_need_is_there(expression: str, value: Any) -> None:
    scope = {"inputs": {"text": "b", "numbers": [3, 1, 2], "rows": [{"n": 1}, {"n": 2}]}}
    assert resolve(f"{{{{ {expression} }}}}", scope) == value
