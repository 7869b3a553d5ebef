"""Two JSON values as one list of fields, side by side: what a person compares."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_MOST_FIELDS = 400
_MOST_CHARS = 300
ABSENT = "absent"


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of either value: its path (`packages[0].budget`), both as text, whether they differ."""

    path: str
    first: str
    second: str
    differs: bool


def fields_beside(first: Any, second: Any) -> list[Field]:
    """Every field of either value, in the order of the first, then what only the second has.

    Numbers are compared by value (1 is 1.0), everything else exactly. At most 400 fields, where there are
    more the differing ones first.
    """
    one, other = dict(_fields(first)), dict(_fields(second))
    paths = list(dict.fromkeys([*one, *other]))
    found = [
        Field(
            path=path,
            first=_words(one, path),
            second=_words(other, path),
            differs=path not in one or path not in other or one[path] != other[path],
        )
        for path in paths
    ]
    if len(found) > _MOST_FIELDS:
        found.sort(key=lambda field: not field.differs)
    return found[:_MOST_FIELDS]


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _fields(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _fields(inner, f"{path}[{index}]")
    elif path:
        yield path, _Exact(value) if isinstance(value, bool) else value


class _Exact:
    """A boolean that is no number: true is not 1."""

    def __init__(self, value: bool) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Exact) and other.value == self.value

    def __hash__(self) -> int:
        return hash(("exact", self.value))


def _words(fields: dict[str, Any], path: str) -> str:
    if path not in fields:
        return ABSENT
    value = fields[path]
    if isinstance(value, _Exact):
        value = value.value
    said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return said if len(said) <= _MOST_CHARS else f"{said[:_MOST_CHARS]}… ({len(said)} characters)"
