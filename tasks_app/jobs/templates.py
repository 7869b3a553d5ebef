"""Values in recipes: `{{ steps.research.outputs.results }}` is that value, anything else stands for itself.

Expressions are evaluated by Jinja's sandbox: no attribute of Python, no call, and nothing that takes much
more time or room than the values it looks at (`_Environment`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, nodes, pass_context
from jinja2.compiler import CodeGenerator, Frame
from jinja2.filters import do_default, do_round, sync_do_map
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

_WHOLE = re.compile(r"\s*\{\{(.*)\}\}\s*", re.DOTALL)
_LONGEST_EXPRESSION = 1_000
# Characters and values that one expression may put together or look through, in all its parts.
_LONGEST = 1_000_000
_LONGEST_DEFAULT = 100
_MOST_PLACES = 30  # that it may round to
# What only looks something up makes nothing: it is handed on, whatever its size.
_LOOKS_UP = re.compile(r"[\w.\[\]'\"]+")
_left: ContextVar[int] = ContextVar("left", default=0)
_MOST_BITS = 4_096  # of a whole number that it may multiply
_SCALARS = (str, int, float)
# Those of Jinja's filters that make nothing larger than what they are given.
_FILTERS = frozenset(
    {"abs", "count", "d", "default", "dictsort", "first", "float", "int", "items", "last", "length", "list"}
    | {"lower", "map", "max", "min", "reject", "rejectattr", "reverse", "select", "selectattr"}
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
            _take(len(left) + len(right))
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


def _take(length: int) -> None:
    """Count against what the expression that is evaluated may put together. Raises TooLargeError."""
    _left.set(_left.get() - length)
    if _left.get() < 0:
        raise TooLargeError("the value would be too large")


def _text(value: Any) -> str:
    """The filter `string`, for scalars."""
    if not isinstance(value, _SCALARS):
        raise TypeError(f"a {type(value).__name__} is no text")
    return str(value)


def _join(values: Iterable[Any], separator: str = "") -> str:
    """The filter `join`, bounded."""
    parts = []
    for value in values:
        parts.append(_text(value))
        _take(len(parts[-1]) + len(separator))
    return separator.join(parts)


def _sum(rows: Iterable[Any], attribute: str | None = None) -> Any:
    """The filter `sum`, of numbers."""
    return sum(row if attribute is None else row[attribute] for row in rows)


def _round(value: float, precision: int = 0, method: str = "common") -> Any:
    """The filter `round`, to so many places as a number has."""
    if abs(precision) > _MOST_PLACES:
        raise TooLargeError("the number would be too large")
    return do_round(value, precision, method)  # type: ignore[arg-type]  # it refuses an unknown method


def _default(value: Any, default: Any = "", boolean: bool = False) -> Any:
    """The filter `default`: what it puts in the place of each of many values is counted."""
    found = do_default(value, default, boolean)
    if found is default and isinstance(default, Collection):
        _take(len(default))
    return found


@pass_context
def _map(context: Context, values: Iterable[Any], *args: Any, **named: Any) -> Iterable[Any]:
    """The filter `map`; in the place of an attribute that is not there it puts something short."""
    default = named.get("default")
    if isinstance(default, Collection) and len(default) > _LONGEST_DEFAULT:
        raise TooLargeError("what stands for what is missing would be too large")
    return sync_do_map(context, values, *args, **named)


def _is_in(value: Any, several: Collection[Any]) -> bool:
    """The test `in`, which a filter may ask for each of many values."""
    _take(len(several))
    return value in several


# Nothing is worked out when an expression is compiled: there the bounds would not hold.
_environment = _Environment(undefined=StrictUndefined, optimized=False)
_environment.globals.clear()
_environment.filters = {name: _environment.filters[name] for name in _FILTERS}
_environment.filters.update(string=_text, join=_join, sum=_sum, round=_round)
_environment.filters.update(default=_default, d=_default, map=_map)
_environment.tests["in"] = _is_in


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


def _no_larger(found: Any, scope: Mapping[str, Any]) -> None:
    """A value named a thousand times is small here and large where it is kept. Raises TooLargeError."""
    if _size(found, _LONGEST) > _LONGEST:
        known = _size(scope)
        if _size(found, known) > known:
            raise TooLargeError("the value would be too large")


def _size(value: Any, most: float = math.inf) -> int:
    """About how many characters a JSON value has, counted no further than `most`."""
    size, left = 0, [value]
    while left and size <= most:
        one = left.pop()
        size += _length(one)
        if isinstance(one, Mapping):
            left += [*one, *one.values()]
        elif isinstance(one, list | tuple):
            left += one
    return size


def _length(one: Any) -> int:
    if isinstance(one, str):
        return len(one)
    return 1 + one.bit_length() // 4 if isinstance(one, int) else 1


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
        _left.set(_LONGEST)
        found = _compiled(expression.strip())(**scope)
        if not _LOOKS_UP.fullmatch(expression.strip()):
            _no_larger(found, scope)
    except Exception as error:  # filters and operators raise what they like
        raise TemplateFailedError(f"{expression.strip()}: {error}") from error
    if isinstance(found, StrictUndefined):
        raise TemplateFailedError(f"{expression.strip()}: there is no such value")
    if found is not None and not isinstance(found, str | int | float | Mapping | list | tuple):
        raise TemplateFailedError(f"{expression.strip()}: is no JSON value")
    return found
