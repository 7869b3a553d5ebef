"""Values in recipes: `{{ steps.research.outputs.results }}` is that value, anything else stands for itself.

Expressions are evaluated by Jinja's sandbox: no attribute of Python, no call with effects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

_WHOLE = re.compile(r"\s*\{\{(.*)\}\}\s*", re.DOTALL)


class _Environment(ImmutableSandboxedEnvironment):
    """Dots and brackets look into JSON and nowhere else: `outputs.items` is the key, never the method."""

    def getitem(self, obj: Any, argument: Any) -> Any:
        try:
            return obj[argument]
        except (LookupError, TypeError):
            return self.undefined(obj=obj, name=argument)

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)


_environment = _Environment(undefined=StrictUndefined)
_environment.globals.clear()


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


def _evaluate(expression: str, scope: Mapping[str, Any]) -> Any:
    try:
        found = _environment.compile_expression(expression.strip(), undefined_to_none=False)(**scope)
    except Exception as error:  # filters and operators raise what they like
        raise TemplateFailedError(f"{expression.strip()}: {error}") from error
    if isinstance(found, StrictUndefined):
        raise TemplateFailedError(f"{expression.strip()}: there is no such value")
    if found is not None and not isinstance(found, str | int | float | Mapping | list | tuple):
        raise TemplateFailedError(f"{expression.strip()}: is no JSON value")
    return found
