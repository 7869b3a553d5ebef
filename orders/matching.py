"""Which package of a seller's is which line of ours: one package confirms one line. Pure.

Ours by the context that the seller echoes, then by the id it gave before; the rest by product, pricing
option, amount and dates, the likest first. What is left over on either side is no pair of anything. Of a
record that names more than MOST_PACKAGES none is read: what they come to is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from orders.models import DealLine
from orders.weighing import Pairs, pair_by, pair_by_likeness
from tasks_app.adcp.values import boolean_of, identity_of
from tasks_app.money import amount_of

Package = Mapping[str, Any]
MOST_PACKAGES = 1_000  # a purchase has a handful
WHOLE = "The whole media buy"  # the name of the one line of what was adopted by its total


@dataclass(frozen=True, kw_only=True)
class Matched:
    """Pairs, and what is left over: `lines` that no package confirms, `packages` that nobody ordered."""

    pairs: tuple[tuple[DealLine, Package], ...]
    lines: tuple[DealLine, ...]
    packages: tuple[Package, ...]


def packages_of(buy: Mapping[str, Any]) -> list[Package]:
    """The packages that a record of a media buy names; none where it names them in no form that is known, or
    more than are read."""
    told = buy.get("packages")
    if not isinstance(told, list) or packages_beyond(buy):
        return []
    return [p for p in told if isinstance(p, dict)]


def packages_beyond(buy: Mapping[str, Any]) -> int:
    """How many packages a record names where it names more than are read; 0 where it names no more."""
    told = buy.get("packages")
    return len(told) if isinstance(told, list) and len(told) > MOST_PACKAGES else 0


def is_cancelled(package: Package) -> bool | None:
    """Whether a seller says that a package is cancelled; None where it says so in no form that can be read:
    such a one counts as it is stated, and people are shown what is."""
    stated = package.get("canceled")
    return False if stated in (None, "") else boolean_of(stated)


def packages_match(lines: Sequence[DealLine], packages: Sequence[Package]) -> Matched:
    """Each line with at most one package, each package with at most one line; the one line of what was
    adopted by its total with all of them together."""
    if packages and _is_whole(lines):
        return Matched(pairs=((lines[0], _together(packages)),), lines=(), packages=())
    pairs: Pairs = {}
    pair_by(pairs, [[str(line.pk)] for line in lines], [_line_named(package) for package in packages])
    pair_by(pairs, [_own_id(line) for line in lines], [_its_id(package) for package in packages])
    pair_by_likeness(pairs, lines, packages)
    taken = set(pairs.values())
    return Matched(
        pairs=tuple((line, packages[pairs[at]]) for at, line in enumerate(lines) if at in pairs),
        lines=tuple(line for at, line in enumerate(lines) if at not in pairs),
        packages=tuple(p for n, p in enumerate(packages) if n not in taken),
    )


def _is_whole(lines: Sequence[DealLine]) -> bool:
    """Whether a deal has one line for all that its seller runs: adopted by a total, its packages unpriced."""
    return len(lines) == 1 and lines[0].product_name == WHOLE and not lines[0].product_id


def _together(packages: Sequence[Package]) -> Package:
    """Packages as one: for what they come to, where each states an amount in one currency."""
    amounts = [Decimal(0) if is_cancelled(p) else amount_of(p.get("budget")) for p in packages]
    currencies = {str(p["currency"]) for p in packages if p.get("currency") is not None}
    if None in amounts or len(currencies) > 1:
        return {}
    total = amount_of(sum(amount or Decimal(0) for amount in amounts))
    unread = next((p["canceled"] for p in packages if is_cancelled(p) is None), None)
    return {"budget": total, "currency": next(iter(currencies), None), "canceled": unread}


def _line_named(package: Package) -> list[str]:
    context = package.get("context")
    return _texts(context.get("line_id") if isinstance(context, dict) else None)


def _own_id(line: DealLine) -> list[str]:
    return _texts(line.package_id)


def _its_id(package: Package) -> list[str]:
    return _texts(identity_of(package.get("package_id")))


def _texts(stated: object) -> list[str]:
    return [stated] if isinstance(stated, str) and stated else []
