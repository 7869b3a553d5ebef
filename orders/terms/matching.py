"""Pairs a deal's lines with the packages of a seller's record. Pure.

A package is paired by the context that the seller echoes, then by the id that the seller gave it before, then
by product and pricing option. A product or a pricing option that the seller does not state fits any line. A
line without ids stands for the part of a total that is in no package. Only a package without ids fits it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orders.models import DealLine
from tasks_app.adcp.values import boolean_of, identity_of

Package = Mapping[str, Any]
MOST_PACKAGES = 1_000  # of a record; one with more is not read
_Key = Hashable | None


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """Pairs, `lines` without a package, and `packages` that no line is for."""

    pairs: tuple[tuple[DealLine, Package], ...]
    lines: tuple[DealLine, ...]
    packages: tuple[Package, ...]


def packages_of(buy: Mapping[str, Any]) -> list[Package]:
    """Return the packages that a record of a media buy names; none if they cannot be read."""
    stated = buy.get("packages")
    if not isinstance(stated, list) or excess_packages(buy):
        return []
    return [package for package in stated if isinstance(package, dict)]


def names_packages(buy: Mapping[str, Any]) -> bool:
    """Return whether a record says which packages there are. An empty list says that there is none."""
    return isinstance(buy.get("packages"), list) and not excess_packages(buy)


def excess_packages(buy: Mapping[str, Any]) -> int:
    """Return how many packages a record names if they are too many to be read, otherwise 0."""
    stated = buy.get("packages")
    return len(stated) if isinstance(stated, list) and len(stated) > MOST_PACKAGES else 0


def is_cancelled(package: Package) -> bool | None:
    """Return whether a seller says that a package is cancelled; None if that cannot be read."""
    stated = package.get("canceled")
    return False if stated in (None, "") else boolean_of(stated)


def match_packages(lines: Sequence[DealLine], packages: Sequence[Package]) -> Pairing:
    """Pair each line with at most one package, and each package with at most one line."""
    free_lines, free, pairs = list(lines), list(packages), dict[int, Package]()
    for of_line, of_package in _KEYS:
        places = defaultdict[Hashable, deque[Package]](deque)
        for package in free:
            if (key := of_package(package)) is not None:
                places[key].append(package)
        for line in free_lines:
            key = of_line(line)
            if key is not None and places[key]:
                pairs[line.position] = places[key].popleft()
        taken = {id(package) for package in pairs.values()}
        free = [package for package in free if id(package) not in taken]
        free_lines = [line for line in free_lines if line.position not in pairs]
    return Pairing(
        pairs=tuple((line, pairs[line.position]) for line in lines if line.position in pairs),
        lines=tuple(free_lines),
        packages=tuple(free),
    )


def _line_in_context(package: Package) -> _Key:
    context = package.get("context")
    return _text(context.get("line_id")) if isinstance(context, dict) else None


def _product_and_option(package: Package) -> _Key:
    product, option = package.get("product_id"), package.get("pricing_option_id")
    return (product, option) if isinstance(product, str) and isinstance(option, str) else None


def _product_alone(package: Package) -> _Key:
    return _text(package.get("product_id")) if package.get("pricing_option_id") is None else None


def _option_alone(package: Package) -> _Key:
    return _text(package.get("pricing_option_id")) if package.get("product_id") is None else None


def _neither(package: Package) -> _Key:
    return "any" if package.get("product_id") is None and package.get("pricing_option_id") is None else None


def _without_ids(package: Package) -> _Key:
    return _neither(package) if identity_of(package.get("package_id")) is None else None


def _text(stated: object) -> str | None:
    return stated if isinstance(stated, str) and stated else None


def is_unallocated(line: DealLine) -> bool:
    """Return whether a line stands for the part of a total that is in no package."""
    return not line.product_id and not line.package_id


def _of_product(read: Callable[[DealLine], _Key]) -> Callable[[DealLine], _Key]:
    return lambda line: None if is_unallocated(line) else read(line)


_KEYS: tuple[tuple[Callable[[DealLine], _Key], Callable[[Package], _Key]], ...] = (
    (lambda line: str(line.pk), _line_in_context),
    (lambda line: line.package_id or None, lambda package: _text(identity_of(package.get("package_id")))),
    (_of_product(lambda line: (line.product_id, line.pricing_option_id)), _product_and_option),
    (_of_product(lambda line: line.product_id), _product_alone),
    (_of_product(lambda line: line.pricing_option_id), _option_alone),
    (_of_product(lambda line: "any"), _neither),
    (lambda line: "any" if is_unallocated(line) else None, _without_ids),
)
