"""Targeting of a package: what its seller states, and what a change of it leads to. Pure.

Source: AdCP media-buy/package-update. Up to 3.1 an overlay replaces the one before it. From 3.2 on it is a
patch, dimension by dimension, in which null clears a dimension. An empty overlay clears all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tasks_app.approvals.plain import as_text
from tasks_app.money import decimal_of

TARGETING = "targeting_overlay"  # the field of a package
_AS_STATED = "as stated"  # the dimension that holds targeting of an unknown form
# AdCP's versions of which an overlay replaces the one before. A request without a version has 3.0's form.
_REPLACING = ("", "3.0", "3.1")
_NONE = "null"
_Targeting = Mapping[str, Any]


def targeting_after(before: _Targeting, overlay: _Targeting, *, version: str) -> dict[str, Any]:
    """Return the targeting of a package after a change. A dimension that the change clears is None in it.

    `version` is the AdCP version in which the overlay was sent.
    """
    kept = {name: value for name, value in overlay.items() if value is not None}
    replaced = before if not overlay or version.partition("-")[0] in _REPLACING else {}
    cleared = dict.fromkeys({*overlay, *replaced} - {*kept})
    return {**before, **cleared, **kept}


def stated_targeting(
    package: Mapping[str, Any], known: _Targeting | None, *, whole: bool
) -> dict[str, Any] | None:
    """Return the targeting that a seller's package states; None if it states nothing.

    `known` is what the seller confirmed before. A `whole` record that names none any more states none.
    """
    targeting = package.get(TARGETING)
    if isinstance(targeting, dict):
        return targeting
    if targeting:
        return {_AS_STATED: as_text(targeting)}
    return {} if targeting is not None or (whole and known is not None) else None


def is_targeted(shown: _Targeting, wanted: _Targeting, names: Iterable[str]) -> bool:
    """Return whether `shown` is as `wanted` in these dimensions.

    Lists of countries, segments or dayparts have no order, coordinates have. An empty list is none.
    """
    return all(is_the_same(shown.get(name), wanted.get(name)) for name in names)


def is_the_same(one: Any, other: Any) -> bool:
    """Return whether two pieces of JSON mean the same.

    Lists of texts or objects have no order and no duplicates. What is empty is nothing.
    """
    return _meaning(one) == _meaning(other)


def _meaning(value: Any) -> str:
    """Return one text for whatever means the same."""
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
