"""Values in recipes: `{{ steps.research.outputs.results }}` is that value, anything else stands for itself.

Expressions are evaluated by Jinja's sandbox: no attribute of Python, no call with effects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

_WHOLE = re.compile(r"\s*\{\{(.*)\}\}\s*", re.DOTALL)
_environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined)


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
    except (TemplateError, TypeError, ArithmeticError) as error:
        raise TemplateFailedError(f"{expression.strip()}: {error}") from error
    if isinstance(found, StrictUndefined):
        raise TemplateFailedError(f"{expression.strip()}: there is no such value")
    return found
