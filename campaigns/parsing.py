"""From a brief's text to plain data: JSON or YAML, strictly, without a loader's side doors."""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from typing import Any

import yaml
from django.conf import settings

_MAX_DEPTH = 20


class UnparseableBriefError(ValueError):
    """The text is no brief at all: no campaign is made. The message says why, for people."""


class BriefTooLargeError(UnparseableBriefError):
    """More than settings.MAX_BRIEF_BYTES."""


def brief_parse(text: bytes, *, name: str = "") -> dict[str, Any]:
    """The brief as plain data. `name` (a file's) decides between YAML and JSON; without one JSON is
    tried first. Raises UnparseableBriefError."""
    if len(text) > settings.MAX_BRIEF_BYTES:
        raise BriefTooLargeError(f"a brief may have {settings.MAX_BRIEF_BYTES} bytes, this has {len(text)}")
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnparseableBriefError("the brief is not UTF-8 text") from error
    is_json = name.endswith(".json") or (not name and decoded.lstrip().startswith("{"))
    data = _json(decoded) if is_json else _yaml(decoded)
    if not isinstance(data, dict):
        raise UnparseableBriefError("the brief is not an object of named fields")
    return plain(data)


def plain(data: Any, depth: int = 0) -> Any:
    """`data` as what JSON can hold: dates as text, NaN and infinities as their names (and then refused
    by the field they stand in). Raises UnparseableBriefError when it is nested too deep."""
    if depth > _MAX_DEPTH:
        raise UnparseableBriefError(f"the brief is nested deeper than {_MAX_DEPTH} levels")
    if isinstance(data, dict):
        return {str(key): plain(value, depth + 1) for key, value in data.items()}
    if isinstance(data, list | tuple | set):
        return [plain(value, depth + 1) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return str(data)
    if isinstance(data, date | datetime):
        return data.isoformat()
    if isinstance(data, str):
        return data.replace("\x00", "")
    return data if data is None or isinstance(data, bool | int | float) else str(data)


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise UnparseableBriefError(f"the brief is not JSON: {error}") from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field stands in it twice")
    return found


class _Loader(yaml.SafeLoader):
    """Safe YAML without aliases (they can grow without bound) and without repeated keys."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed in a brief")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(keys)) != len(keys):
            raise yaml.YAMLError("a field stands in it twice")
        return super().construct_mapping(node, deep=deep)


def _yaml(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise UnparseableBriefError(f"the brief is not YAML: {' '.join(str(error).split())}") from error
