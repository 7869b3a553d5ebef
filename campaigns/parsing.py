"""From a brief's text to plain data: JSON or YAML, strictly, without a loader's side doors."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import PurePath
from typing import Any

import yaml
from django.conf import settings
from yaml.constructor import SafeConstructor

from tasks_app.money import decimal_of, reads_as_thousands
from tasks_app.storable import is_storable

_MAX_DEPTH = 20
_MAX_VALUES = 10_000  # far above any brief, and a fraction of a second for the YAML loader
_MAX_INTEGER_BITS = 2000
_MAX_DIGITS = 700  # at least as many as those bits, in any notation but octal
_TAG = "tag:yaml.org,2002:"
_TOO_DEEP = f"the brief is nested deeper than {_MAX_DEPTH} levels"
_TOO_MANY = f"the brief holds more than {_MAX_VALUES} values"


class UnparseableBriefError(ValueError):
    """The text is no brief at all: no campaign is made. The message says why, for people."""


class BriefTooLargeError(UnparseableBriefError):
    """More than settings.MAX_BRIEF_BYTES."""


def brief_parse(text: bytes, *, name: str = "") -> dict[str, Any]:
    """The brief as plain data. A `name` (a file's) ending in .json, .yaml or .yml decides how it is read;
    without one a text that begins with a brace is JSON. Raises UnparseableBriefError."""
    if len(text) > settings.MAX_BRIEF_BYTES:
        raise BriefTooLargeError(f"the brief is too large: at most {settings.MAX_BRIEF_BYTES} bytes are read")
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnparseableBriefError("the brief is not UTF-8 text") from error
    data = _json(decoded) if _is_json(decoded, name) else _yaml(decoded)
    if not isinstance(data, dict):
        raise UnparseableBriefError("the brief is not an object of named fields")
    return plain(data)


def plain(data: Any) -> Any:
    """`data` as what JSON and the database can hold: NaN and infinities as their names (and
    then refused by the field they stand in). Raises UnparseableBriefError for what cannot be kept as it is.
    """
    return _plain(data, 0, count(1))


def _plain(data: Any, depth: int, values: count[int]) -> Any:
    if depth > _MAX_DEPTH:
        raise UnparseableBriefError(_TOO_DEEP)
    if next(values) > _MAX_VALUES:
        raise UnparseableBriefError(_TOO_MANY)
    if isinstance(data, dict):
        named = {_text(str(key)): _plain(value, depth + 1, values) for key, value in data.items()}
        if len(named) != len(data):
            raise UnparseableBriefError("a field stands in it twice")
        return named
    if isinstance(data, list | tuple | set):
        return [_plain(value, depth + 1, values) for value in data]
    return _scalar(data)


def _scalar(data: Any) -> Any:
    if data is None or isinstance(data, bool):
        return data
    if isinstance(data, int):
        if data.bit_length() > _MAX_INTEGER_BITS:
            raise UnparseableBriefError("a number in it has too many digits")
        return data
    if isinstance(data, float):
        return data if math.isfinite(data) else str(data)
    return _text(str(data))


def _text(text: str) -> str:
    if not is_storable(text):
        raise UnparseableBriefError(
            "a text in it holds a character that cannot be kept (U+0000, a surrogate)"
        )
    return text


def _is_json(text: str, name: str) -> bool:
    suffix = PurePath(name).suffix.lower()
    return suffix == ".json" or (suffix not in (".yaml", ".yml") and text.lstrip().startswith("{"))


def _json(text: str) -> Any:
    try:
        return json.loads(
            text,
            parse_int=_integer,
            parse_float=_fraction,
            parse_constant=_refuse_constant,
            object_pairs_hook=_once,
        )
    except RecursionError as error:
        raise UnparseableBriefError(_TOO_DEEP) from error
    except ValueError as error:
        raise UnparseableBriefError(f"the brief is not JSON: {error}") from error


def _integer(written: str) -> int:
    """A whole number as JSON or YAML 1.2 writes it, looked at before it is built."""
    _short(written)
    base = {"0x": 16, "0o": 8}.get(written[:2], 10)
    return int(written, base)


def _fraction(written: str) -> float | str:
    """A number with a fraction; as the text that it is where a float is another number, or where its point
    may have been meant to part thousands (an amount is then refused, `money.typed_amount`)."""
    _short(written)
    word = written.lower().lstrip("+-")
    if word in (".inf", ".nan"):
        return float(written.replace(".", ""))
    read, exact = float(written), decimal_of(written)
    kept = exact is not None and decimal_of(read) == exact and not reads_as_thousands(written)
    return read if kept else written


def _short(written: str) -> None:
    if len(written) > _MAX_DIGITS:
        raise UnparseableBriefError("a number in it has too many digits")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field stands in it twice")
    return found


class _Loader(yaml.SafeLoader):
    """YAML 1.2's core schema: plain words are null, true, false, whole numbers and fractions or else text, so
    that a day, 10:00, NO and 1_000 are text. Without aliases (they can grow without bound), repeated keys and
    any other tag."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._values = count(1)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed in a brief")
        if next(self._values) > 2 * _MAX_VALUES:  # keys are nodes of their own
            raise UnparseableBriefError(_TOO_MANY)
        return super().compose_node(parent, index)

    def flatten_mapping(self, node: Any) -> None:
        """Nothing is merged: `<<` is a name like others."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        if len(found) != len(node.value):
            raise yaml.YAMLError("a field stands in it twice")
        return found


_Loader.yaml_implicit_resolvers = {}
_Loader.yaml_constructors = {
    tag: SafeConstructor.yaml_constructors[tag] for tag in (None, f"{_TAG}str", f"{_TAG}seq", f"{_TAG}map")
}


def _core(name: str, pattern: str, first: Iterable[str], read: Callable[[str], Any]) -> None:
    """One scalar type of the core schema: what is written so, tagged or not, is read by `read`."""
    words = re.compile(rf"(?:{pattern})\Z")

    def construct(loader: _Loader, node: Any) -> Any:
        written = loader.construct_scalar(node)
        if not words.match(written):
            raise ValueError(f"{written[:40]!r} is no {name}")
        return read(written)

    _Loader.add_implicit_resolver(f"{_TAG}{name}", words, list(first))
    _Loader.add_constructor(f"{_TAG}{name}", construct)


_core("null", "~|null|Null|NULL|", ("~", "n", "N", ""), lambda written: None)
_core("bool", "true|True|TRUE|false|False|FALSE", "tTfF", lambda written: written.lower() == "true")
_core("int", "[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789", _integer)
_core(
    "float",
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    "-+.0123456789",
    _fraction,
)


def _yaml(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)
    except UnparseableBriefError:
        raise
    except yaml.YAMLError as error:
        raise UnparseableBriefError(f"the brief is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise UnparseableBriefError(_TOO_DEEP) from error
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        # `!!int ""`, `!!bool x`, a list as a key.
        raise UnparseableBriefError(
            "the brief is not YAML: a value in it is not what its tag says"
        ) from error
