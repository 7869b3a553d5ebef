"""Targeting of a package: what its seller states of it, and what a change of it asks for.

Source: AdCP media-buy/package-update. Up to 3.1 an overlay replaces the one before it; from 3.2 on it is a
patch, dimension by dimension, in which null clears one. An overlay without any dimension asks for none, as
people are shown it. Nothing is read or written here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orders.evidence import as_text
from tasks_app.money import decimal_of

TARGETING = "targeting_overlay"  # the field of a package
_AS_STATED = "as stated"  # where targeting is told in no form that is known
# AdCP's versions of which an overlay replaces the one before. Without a version a request has 3.0's form.
_REPLACING = ("", "3.0", "3.1")
_NONE = "null"
_Targeting = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a change decides of a package's targeting. `kept`: dimensions with their values as asked; `gone`:
    those that are asked not to be there."""

    kept: dict[str, Any]
    gone: frozenset[str]

    def is_shown_by(self, shown: _Targeting) -> bool:
        """Whether it is as asked. What a seller adds of its own is beside it."""
        return _AS_STATED not in shown and self._has_kept(shown) and not self._has_gone(shown)

    def is_done_otherwise(self, shown: _Targeting, approved: _Targeting, confirmed: _Targeting) -> bool:
        """Whether the seller did something else than asked that departs from what counts as approved after
        the change, and was neither `approved` nor `confirmed` before it. What is left of that which should be
        gone departs in nothing."""
        names = {*self.kept, *approved}
        moved = not is_targeted(shown, approved, names) and not is_targeted(shown, confirmed, names)
        return moved and not self._has_kept(shown) and not self._has_gone(shown)

    def _has_kept(self, shown: _Targeting) -> bool:
        return is_targeted(shown, self.kept, self.kept)

    def _has_gone(self, shown: _Targeting) -> bool:
        return any(_meaning(shown.get(name)) != _NONE for name in self.gone)


def targeting_wanted(before: _Targeting, overlay: _Targeting, *, version: str) -> Wanted:
    """What `overlay`, sent in that version of AdCP, asks for of a package that was targeted as `before`."""
    kept = {name: value for name, value in overlay.items() if value is not None}
    replaced = before if not overlay or version.partition("-")[0] in _REPLACING else {}
    return Wanted(kept=kept, gone=frozenset({*overlay, *replaced} - {*kept}))


def targeting_after(before: _Targeting, overlay: _Targeting, *, version: str) -> dict[str, Any]:
    """How a package that was targeted as `before` is after that."""
    wanted = targeting_wanted(before, overlay, version=version)
    left = {name: value for name, value in before.items() if name not in wanted.gone}
    return {**left, **wanted.kept}


def targeting_left(older: _Targeting, newer: _Targeting, *, version: str) -> dict[str, Any]:
    """What `newer`, sent in that version of AdCP, leaves of an overlay that was sent before it."""
    patches = newer and version.partition("-")[0] not in _REPLACING
    return {name: value for name, value in older.items() if name not in newer} if patches else {}


def targeting_told(
    package: Mapping[str, Any], known: _Targeting | None, *, whole: bool
) -> dict[str, Any] | None:
    """What a seller's package says its targeting is; None where it says nothing of it. `known`: what was
    confirmed before. In a `whole` record what was named before and is no more is none."""
    targeting = package.get(TARGETING)
    if isinstance(targeting, dict):
        return targeting
    if targeting:
        return {_AS_STATED: as_text(targeting)}
    return {} if targeting is not None or (whole and known is not None) else None


def is_targeted(shown: _Targeting, wanted: _Targeting, names: Iterable[str]) -> bool:
    """Whether `shown` is as `wanted` in these dimensions. Lists of countries, segments or dayparts have no
    order, coordinates have; an empty list is none."""
    return all(is_the_same(shown.get(name), wanted.get(name)) for name in names)


def is_the_same(one: Any, other: Any) -> bool:
    """Whether two pieces of JSON mean the same: lists of texts or objects have no order, a text that is named
    twice is named; what is empty is nothing."""
    return _meaning(one) == _meaning(other)


def _meaning(value: Any) -> str:
    """One text for whatever means the same."""
    if isinstance(value, Mapping):
        named = (f"{json.dumps(name)}:{_meaning(one)}" for name, one in value.items())
        return f"{{{','.join(sorted(named))}}}" if value else _NONE
    if isinstance(value, list):
        items = [_meaning(one) for one in value]
        if all(isinstance(one, str) for one in value):
            items = sorted(set(items))
        elif all(isinstance(one, (str, Mapping)) for one in value):
            items.sort()
        return f"[{','.join(items)}]" if value else _NONE
    number = decimal_of(value) if isinstance(value, (int, float)) else None
    return json.dumps(value) if number is None else f"{(number + 0).normalize():f}"  # -0.0 is 0
