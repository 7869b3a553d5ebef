"""What a newer change of a media buy leaves of an older one: what both name the newer one decides.

News has an order: people's last word on a budget, a date, a name, a pause, a pacing or a targeting counts,
whichever of two changes their seller ends last. Pure: nothing is read or written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from orders.targeting import TARGETING, targeting_left

# What a change of a media buy may name of it.
CHANGES = ("name", "paused", "canceled", "start_time", "end_time", "packages")
_ONCE_AND_FOR_ALL = ("canceled", "packages")  # decided by nothing newer, or one by one
_BUY, _PACKAGE, _PAUSED = "media_buy_id", "package_id", "paused"
_Change = Mapping[str, Any]


def change_without(older: _Change, newer: _Change, package_ids: Collection[str]) -> dict[str, Any]:
    """`older` (update_media_buy's arguments) without what `newer` names of the same media buy, which has the
    packages `package_ids`, empty for one without a name. A pause of the whole is one of each of them."""
    if older.get(_BUY) != newer.get(_BUY):
        return dict(older)
    older, newer = _pause_by_package(older, newer, package_ids), _paused_with_the_whole(older, newer)
    decided = {name for name in CHANGES if name in newer} - {*_ONCE_AND_FOR_ALL}
    left = {name: value for name, value in older.items() if name not in decided}
    if not older.get("packages"):
        return left
    named = _by_package(newer)
    version = str(newer.get("adcp_version") or "")
    packages = [_package_without(one, named.get(one[_PACKAGE], {}), version) for one in older["packages"]]
    return {**left, "packages": [one for one in packages if one.keys() - {_PACKAGE}]}


def _pause_by_package(older: _Change, newer: _Change, package_ids: Collection[str]) -> _Change:
    """A pause of the whole, package by package, where a newer change names one of theirs. It stays one of the
    whole where a package has no name to be told by."""
    is_named = any(_PAUSED in one for one in _by_package(newer).values())
    if _PAUSED not in older or not is_named or not all(package_ids):
        return older
    named = _by_package(older)
    each = [*named, *(one for one in package_ids if one not in named)]
    packages = [{_PACKAGE: one, _PAUSED: older[_PAUSED], **named.get(one, {})} for one in each]
    return {**{name: value for name, value in older.items() if name != _PAUSED}, "packages": packages}


def _paused_with_the_whole(older: _Change, newer: _Change) -> _Change:
    """A newer pause of the whole as one of each package that an older change names."""
    if _PAUSED not in newer:
        return newer
    named = _by_package(newer)
    packages = [
        {_PACKAGE: one, _PAUSED: newer[_PAUSED], **named.get(one, {})}
        for one in {**_by_package(older), **named}
    ]
    return {**newer, "packages": packages}


def _by_package(change: _Change) -> dict[str, _Change]:
    return {one[_PACKAGE]: one for one in change.get("packages") or ()}


def is_nothing(change: _Change) -> bool:
    """Whether nothing is left of a change to decide."""
    return all(change.get(name) in (None, []) for name in CHANGES)


def cancels_all(change: _Change) -> bool:
    """Whether a change cancels the whole media buy."""
    return change.get("canceled") is True


def wanted_of(change: _Change) -> dict[str, Any]:
    """What a change names, without what every request carries."""
    return {name: change[name] for name in CHANGES if name in change}


def _package_without(older: _Change, newer: _Change, version: str) -> dict[str, Any]:
    left = {name: value for name, value in older.items() if name == _PACKAGE or name not in newer}
    if TARGETING in older and TARGETING in newer:
        overlay = targeting_left(older[TARGETING], newer[TARGETING], version=version)
        left |= {TARGETING: overlay} if overlay else {}
    return left
