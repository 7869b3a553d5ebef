"""The terms of a media buy: what people approved, and what its seller confirmed. Pure.

The approved terms of a deal are its lines. Each approved column of a line has a twin, `confirmed_…`, that
holds what the seller stated last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from orders.models import Deal, DealLine

# Each term of a package, with the column of the line that holds it.
COLUMNS = {
    "product_id": "product_id",
    "pricing_option_id": "pricing_option_id",
    "budget": "budget",
    "rate": "rate",
    "start": "start_at",
    "end": "end_at",
    "targeting": "targeting",
    "paused": "paused",
    "canceled": "canceled",
}
CONFIRMED_COLUMNS = {name: f"confirmed_{column}" for name, column in COLUMNS.items()}
THE_BUY = "The media buy"


@dataclass(frozen=True)
class Unreadable:
    """A value that cannot be read, or cannot be counted in the deal's currency, as its seller states it."""

    text: str


NOT_STATED = Unreadable("not stated")


@dataclass(frozen=True, kw_only=True)
class PackageTerms:
    """The terms of one package. None: not stated.

    `line`: the position of the deal's line, 0 for a package that no line is for. `budget` is in the deal's
    currency, `rate` per unit of the pricing model. The flight is [start, end).
    """

    line: int
    name: str
    package_id: str | None = None
    product_id: str | None = None
    pricing_option_id: str | None = None
    budget: Decimal | Unreadable | None = None
    rate: Decimal | Unreadable | None = None
    start: datetime | Unreadable | None = None
    end: datetime | Unreadable | None = None
    targeting: Mapping[str, Any] | None = None
    paused: bool | Unreadable | None = None
    canceled: bool | Unreadable | None = None


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of a media buy. `currency` is None if it is not stated.

    `problems`: values of the whole media buy that cannot be read, by field. The total is the sum of the
    packages' budgets, and the flight of the whole media buy is that of its packages.
    """

    currency: str | None
    packages: tuple[PackageTerms, ...]
    problems: tuple[tuple[str, Unreadable], ...] = ()


def approved_terms(deal: Deal, lines: Iterable[DealLine]) -> Terms:
    """Return what people approved of a deal."""
    return Terms(
        currency=deal.currency,
        packages=tuple(_of_line(line, COLUMNS) for line in lines),
    )


def confirmed_terms(lines: Iterable[DealLine]) -> Terms:
    """Return what the seller stated last of each line."""
    return Terms(currency=None, packages=tuple(_of_line(line, CONFIRMED_COLUMNS) for line in lines))


def merge_terms(known: Terms, stated: Terms) -> Terms:
    """Return `stated`, with what it does not state of a line taken from `known`."""
    now = {package.line: vars(package) for package in stated.packages}
    packages = [
        replace(one, **{name: value for name, value in now.get(one.line, {}).items() if value is not None})
        for one in known.packages
    ]
    extra = [package for package in stated.packages if package.line == 0]
    return replace(stated, packages=(*packages, *extra))


def _of_line(line: DealLine, columns: Mapping[str, str]) -> PackageTerms:
    values = {name: getattr(line, column) for name, column in columns.items()}
    return PackageTerms(line=line.position, name=line.product_name, package_id=line.package_id, **values)
