"""Values in recipes: `{{ steps.research.outputs.results }}` is that value, anything else stands for itself.

Expressions are evaluated by Jinja's sandbox: no attribute of Python, no call, and nothing that takes much
more time or room than the values it looks at (`_Environment`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.sandbox import ImmutableSandboxedEnvironment

_WHOLE = re.compile(r"\s*\{\{(.*)\}\}\s*", re.DOTALL)
_LONGEST_EXPRESSION = 1_000
_LONGEST = 1_000_000  # characters of a text, or values of a list, that an expression may put together
_MOST_BITS = 4_096  # of a whole number that it may multiply
_SCALARS = (str, int, float)
# Those of Jinja's filters that make nothing larger than what they are given.
_FILTERS = frozenset(
    {"abs", "count", "d", "default", "dictsort", "first", "float", "int", "items", "last", "length", "list"}
    | {"lower", "map", "max", "min", "reject", "rejectattr", "reverse", "round", "select", "selectattr"}
    | {"sort", "title", "trim", "unique", "upper"}
)


class TooLargeError(ValueError):
    """An expression makes more than it may."""


class _Concatenating(CodeGenerator):
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 (Jinja's name)
        """`a ~ b`, bounded."""
        self.write("environment.joined((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class _Environment(ImmutableSandboxedEnvironment):
    """Dots and brackets look into JSON and nowhere else: `outputs.items` is the key, never the method.
    Operators and filters that could multiply what they are given are bounded or not there."""

    code_generator_class = _Concatenating
    intercepted_binops = frozenset(("*", "**", "%", "+"))

    def getitem(self, obj: Any, argument: Any) -> Any:
        try:
            return obj[argument]
        except (LookupError, TypeError):
            return self.undefined(obj=obj, name=argument)

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        _bounded_operands(operator, left, right)
        return super().call_binop(context, operator, left, right)

    @staticmethod
    def joined(parts: Iterable[Any]) -> str:
        """The parts as one text: scalars only, as the text of a list may be many times its length."""
        return _join(parts)


def _bounded_operands(operator: str, left: Any, right: Any) -> None:
    if operator == "+":
        if isinstance(left, str | list) and isinstance(right, str | list):
            _bounded(len(left) + len(right))
    elif not (isinstance(left, int | float) and isinstance(right, int | float)):
        raise TypeError(f"{operator} is for numbers")
    elif isinstance(left, int) and isinstance(right, int):
        _bounded_product(operator, left, right)


def _bounded_product(operator: str, left: int, right: int) -> None:
    bits = {"*": left.bit_length() + right.bit_length(), "**": left.bit_length() * abs(right)}.get(
        operator, 0
    )
    if bits > _MOST_BITS:
        raise TooLargeError("the number would be too large")


def _bounded(length: int) -> None:
    if length > _LONGEST:
        raise TooLargeError("the value would be too large")


def _text(value: Any) -> str:
    """The filter `string`, for scalars."""
    if not isinstance(value, _SCALARS):
        raise TypeError(f"a {type(value).__name__} is no text")
    return str(value)


def _join(values: Iterable[Any], separator: str = "") -> str:
    """The filter `join`, bounded."""
    parts, length = [], 0
    for value in values:
        parts.append(_text(value))
        length += len(parts[-1]) + len(separator)
        _bounded(length)
    return separator.join(parts)


def _sum(rows: Iterable[Any], attribute: str | None = None) -> Any:
    """The filter `sum`, of numbers."""
    return sum(row if attribute is None else row[attribute] for row in rows)


# Nothing is worked out when an expression is compiled: there the bounds would not hold.
_environment = _Environment(undefined=StrictUndefined, optimized=False)
_environment.globals.clear()
_environment.filters = {name: _environment.filters[name] for name in _FILTERS}
_environment.filters.update(string=_text, join=_join, sum=_sum)


class TemplateFailedError(ValueError):
    """An expression names what is not there, or is not allowed."""


def resolve(value: Any, scope: Mapping[str, Any]) -> Any:
    """`value` with every expression replaced by what it stands for in `scope`. Raises TemplateFailedError."""
    if isinstance(value, Mapping):
        return {key: resolve(inner, scope) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [resolve(inner, scope) for inner in value]
    if isinstance(value, str) and (match := _WHOLE.fullmatch(value)):
        return _evaluate(match[1], scope)
    return value


@lru_cache(maxsize=512)
def _compiled(expression: str) -> Callable[..., Any]:
    # Kept, for every item of a fan-out says the same; compiling takes many times as long as evaluating.
    return _environment.compile_expression(expression, undefined_to_none=False)


def _evaluate(expression: str, scope: Mapping[str, Any]) -> Any:
    if len(expression) > _LONGEST_EXPRESSION:
        raise TemplateFailedError(
            f"{expression.strip()[:100]}…: is longer than {_LONGEST_EXPRESSION} characters"
        )
    try:
        found = _compiled(expression.strip())(**scope)
    except Exception as error:  # filters and operators raise what they like
        raise TemplateFailedError(f"{expression.strip()}: {error}") from error
    if isinstance(found, StrictUndefined):
        raise TemplateFailedError(f"{expression.strip()}: there is no such value")
    if found is not None and not isinstance(found, str | int | float | Mapping | list | tuple):
        raise TemplateFailedError(f"{expression.strip()}: is no JSON value")
    return found
