"""What is different between two pieces of evidence, field by field: pure, for a question asked anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tasks_app.adcp.values import parse_time
from tasks_app.money import decimal_of

Keys = tuple[str, ...]
_KEY_CHARS, _PATH_CHARS = 100, 300  # shown of a name, and of all that lead to a field
_ABSENT = object()
# What names an element of a list, so that one taken out does not make all after it look changed.
_NAMES: tuple[Keys, ...] = (
    ("product_id", "pricing_option_id"),
    ("operation",),
    ("field",),
    ("name",),
    ("id",),
)
# Fields that hold an amount, a rate or a count: how it is written does not matter. Everywhere else, as in
# what names an account or a product, "01000" and "1e3" are two.
_NUMBERS = frozenset(
    {
        "amount",
        "bid_price",
        "budget",
        "budget_left_after",
        "ceiling",
        "confirmed_budget",
        "confirmed_gross",
        "frees",
        "gross",
        "gross_after",
        "impressions",
        "minimum",
        "rate",
        "second_gross",
        "total_budget",
        "units",
    }
)
_TOLD = ("approved", "confirmed")  # of a difference, which its field names
_MOMENTS = ("start", "end", "_at", "_time", "_until", "_from", "_deadline")  # how fields of moments end


@dataclass(frozen=True, kw_only=True)
class Change:
    """One field that differs: `keys` lead to it (of a list: what names the element, else its place from 1),
    each cut at 100 characters; values as in the evidence (None where it was, or is, not there)."""

    keys: tuple[str, ...]
    kind: Literal["changed", "added", "removed"]
    before: Any
    after: Any

    @property
    def path(self) -> str:
        """The keys, joined by dots; cut at 300 characters."""
        return _cut(".".join(self.keys), _PATH_CHARS)


def evidence_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Every field that differs, in the order of the evidence. Amounts that are equal ("10.0" and
    "10.00"), and one moment in two zones, are the same. Nothing, exactly where the two say the same."""
    return list(_mappings((), before, after))


def _mappings(keys: Keys, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for key in dict.fromkeys([*before, *after]):
        yield from _values(
            (*keys, _cut(str(key), _KEY_CHARS)), before.get(key, _ABSENT), after.get(key, _ABSENT)
        )


def _values(keys: Keys, before: Any, after: Any) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _mappings(keys, before, after)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _mappings(keys, _named(before, after), _named(after, before))
    elif not _same(_field(keys), before, after):
        kind: Literal["changed", "added", "removed"] = (
            "added" if before is _ABSENT else "removed" if after is _ABSENT else "changed"
        )
        yield Change(
            keys=keys,
            kind=kind,
            before=None if before is _ABSENT else before,
            after=None if after is _ABSENT else after,
        )


def _cut(words: str, most: int) -> str:
    return words if len(words) <= most else f"{words[:most]}…"


def _named(items: Sequence[Any], others: Sequence[Any]) -> dict[str, Any]:
    """Elements by what names them on both sides, else by their place (from 1)."""
    for keys in _NAMES:
        ours, theirs = _keyed(items, keys), _keyed(others, keys)
        if ours is not None and theirs is not None:
            return ours
    return {str(place): item for place, item in enumerate(items, start=1)}


def _keyed(items: Sequence[Any], keys: Keys) -> dict[str, Any] | None:
    """By the values under `keys`; None where one lacks them, or two have the same."""
    found: dict[str, Any] = {}
    for item in items:
        if not isinstance(item, dict) or not all(isinstance(item.get(key), str) for key in keys):
            return None
        name = " / ".join(item[key] for key in keys)
        if name in found:
            return None
        found[name] = item
    return found


def _field(keys: Keys) -> str:
    """The field that a value is of: of a difference, the one that differs."""
    *_, name = keys
    return keys[-2] if name in _TOLD and len(keys) > 1 else name


def _same(field: str, before: Any, after: Any) -> bool:
    if type(before) is type(after) and before == after:
        return True
    if isinstance(before, bool) or isinstance(after, bool):
        return False
    first, second = decimal_of(before), decimal_of(after)
    if field in _NUMBERS and first is not None:
        return first == second
    if not field.endswith(_MOMENTS):
        return False
    moment = parse_time(before) if isinstance(before, str) else None
    return moment is not None and isinstance(after, str) and moment == parse_time(after)
