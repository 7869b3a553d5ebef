"""Lines and packages paired by what they say of themselves, in steps and memory at most linear in both. Pure.

Nothing is compared pair by pair: of each likeness the packages stand under what they state, and a line looks
there.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import product
from typing import Any

from orders.models import DealLine
from tasks_app.adcp.values import parse_time
from tasks_app.money import amount_of

Pairs = dict[int, int]  # place among the lines to place among the packages
Keys = Sequence[Iterable[Hashable]]  # for each line or package: what it may be found under
_Level = tuple[bool, bool, bool, int]
_ANY, _UNSTATED, _UNKNOWN = "any", "unstated", "unknown"
# The likest first: the product, its pricing option, the amount, and how many of both dates are the same.
_LEVELS: Sequence[_Level] = list(product((True, False), (True, False), (True, False), (2, 1, 0)))


@dataclass(frozen=True, kw_only=True)
class _Traits:
    """What is weighed of a line or a package; ids as marked, so that none is taken for another's mark."""

    product: Hashable
    option: Hashable
    amount: Decimal | None
    start: datetime | None
    end: datetime | None


def pair_by(pairs: Pairs, lines: Keys, packages: Keys) -> None:
    """Add to `pairs` each line that has none, with the first free package under one of its keys."""
    if all(at in pairs for at in range(len(lines))):
        return
    taken, places = set(pairs.values()), defaultdict[Hashable, deque[int]](deque)
    for n, keys in enumerate(packages):
        if n not in taken:
            for key in keys:
                places[key].append(n)
    for at, keys in enumerate(lines):
        found = [places[key] for key in keys if key in places] if at not in pairs else []
        first = min((free for under in found if (free := _first(under, taken)) is not None), default=None)
        if first is not None:
            pairs[at] = first
            taken.add(first)


def pair_by_likeness(pairs: Pairs, lines: Sequence[DealLine], packages: Sequence[Mapping[str, Any]]) -> None:
    """Add to `pairs` what is left on both sides, the likest first; of another product there is none."""
    if len(pairs) == len(lines):
        return
    ours, theirs = [_of_line(line) for line in lines], [_of_package(package) for package in packages]
    for level in _LEVELS:
        pair_by(
            pairs,
            [_keys_of_line(traits, level) for traits in ours],
            [_keys(traits, [traits.product], [traits.option], level) for traits in theirs],
        )


def _first(under: deque[int], taken: set[int]) -> int | None:
    while under and under[0] in taken:
        under.popleft()
    return under[0] if under else None


def _keys_of_line(line: _Traits, level: _Level) -> list[Hashable]:
    """A package that states no pricing option has any; one that states no product may be of any."""
    return _keys(line, [line.product if level[0] else _UNSTATED], [line.option, _UNSTATED], level)


def _keys(
    traits: _Traits, products: Sequence[Hashable], options: Sequence[Hashable], level: _Level
) -> list[Hashable]:
    _, by_option, by_amount, dates = level
    spans: Mapping[int, Sequence[tuple[Hashable, Hashable]]] = {
        2: [(traits.start, traits.end)],
        1: [(traits.start, _ANY), (_ANY, traits.end)],
        0: [(_ANY, _ANY)],
    }
    amount = traits.amount if by_amount else _ANY
    return [
        (of, at, amount, *span)
        for of in products
        for at in (options if by_option else [_ANY])
        for span in spans[dates]
    ]


def _of_line(line: DealLine) -> _Traits:
    return _Traits(
        product=_marked(line.product_id),
        option=_marked(line.pricing_option_id),
        amount=line.budget,
        start=line.start_at,
        end=line.end_at,
    )


def _of_package(package: Mapping[str, Any]) -> _Traits:
    told, option = package.get("product_id"), package.get("pricing_option_id")
    return _Traits(
        product=_UNSTATED if told is None else _marked(told),
        option=_UNSTATED if option is None else _marked(option),
        amount=amount_of(package.get("budget")),
        start=parse_time(package.get("start_time")),
        end=parse_time(package.get("end_time")),
    )


def _marked(stated: object) -> Hashable:
    """An id as a key; what is no text is nobody's."""
    return ("id", stated) if isinstance(stated, str) else _UNKNOWN
