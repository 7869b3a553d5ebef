"""Two JSON values as one list of fields, side by side: what a person compares."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_MOST_FIELDS = 400
_MOST_CHARS = 300
ABSENT = "absent"
_NOTHING = object()


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of either value: its path (`packages[0].budget`), both as text, whether they differ."""

    path: str
    first: str
    second: str
    differs: bool


@dataclass(frozen=True)
class _Place:
    """A key or an index, and what leads to it: long names are written once, whatever lies below them."""

    name: str | int
    above: _Place | None

    def words(self) -> str:
        """The path in words, each name and the whole cut at what a page can show."""
        parts: list[str] = []
        place: _Place | None = self
        while place is not None:
            parts.append(f"[{place.name}]" if isinstance(place.name, int) else f".{_cut(place.name)}")
            place = place.above
        return _cut("".join(reversed(parts)).removeprefix("."))


@dataclass(frozen=True)
class _Leaf:
    place: _Place
    first: Any
    second: Any

    @property
    def differs(self) -> bool:
        if isinstance(self.first, bool) or isinstance(self.second, bool):  # true is not 1
            return self.first is not self.second
        return bool(self.first != self.second)


def fields_beside(first: Any, second: Any) -> list[Field]:
    """Every field of either value, in the order of the first, then what only the second has.

    Numbers are compared by value (1 is 1.0), everything else exactly. At most 400 fields, where there are
    more the differing ones first; paths and values are cut at 300 characters.
    """
    leaves = list(_leaves(first, second, None))
    leaves.sort(key=lambda leaf: leaf.first is _NOTHING)
    if len(leaves) > _MOST_FIELDS:
        leaves.sort(key=lambda leaf: not leaf.differs)
    return [
        Field(
            path=leaf.place.words(),
            first=_words(leaf.first),
            second=_words(leaf.second),
            differs=leaf.differs,
        )
        for leaf in leaves[:_MOST_FIELDS]
    ]


def _leaves(first: Any, second: Any, place: _Place | None) -> Iterator[_Leaf]:
    """What stands at the ends of either value, beside what the other has in that place."""
    ours, theirs = _inside(first), _inside(second)
    for name in dict.fromkeys([*ours, *theirs]):
        yield from _leaves(ours.get(name, _NOTHING), theirs.get(name, _NOTHING), _Place(name, place))
    one = _NOTHING if ours else first
    other = _NOTHING if theirs else second
    if place is not None and (one is not _NOTHING or other is not _NOTHING):
        yield _Leaf(place, one, other)


def _inside(value: Any) -> dict[str | int, Any]:
    """The fields of an object or the elements of a list; nothing where there are none."""
    if isinstance(value, dict):
        return {str(key): inner for key, inner in value.items()}
    return dict(enumerate(value)) if isinstance(value, list) else {}


def _words(value: Any) -> str:
    if value is _NOTHING:
        return ABSENT
    said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return said if len(said) <= _MOST_CHARS else f"{said[:_MOST_CHARS]}… ({len(said)} characters)"


def _cut(name: str) -> str:
    return name if len(name) <= _MOST_CHARS else f"{name[:_MOST_CHARS]}…"
