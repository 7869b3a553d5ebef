"""The differences between approved and stated terms. Pure. Nothing else compares terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from orders.terms.targeting import is_targeted
from orders.terms.terms import COLUMNS, NOT_STATED, THE_BUY, PackageTerms, Terms, Unreadable
from tasks_app.approvals.plain import as_text

PACKAGE, CURRENCY = "package", "currency"
UNAPPROVED = "approval"  # the field of the difference that an adopted media buy begins with
Difference = dict[str, Any]


def differences(approved: Terms, stated: Terms, *, asked: Iterable[Terms] = ()) -> list[Difference]:
    """Return where a seller states something else than people approved.

    Each difference is JSON: `line` (0: no line of ours), `product`, `field`, `approved` and `confirmed` as
    text. `unreadable`: Flightdeck cannot count or read what is stated. `package`: the terms of a package that
    nobody ordered. What an open change asks for (`asked`: the terms after each) is no difference. Terms that
    are not stated differ in nothing.
    """
    found = list(_differences(approved, stated))
    for after in asked:
        still = {_key(one) for one in _differences(after, stated)}
        found = [one for one in found if _key(one) in still]
    return found


def unreadable_values(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the values, as stated, because of which nobody knows what a media buy comes to."""
    return list(dict.fromkeys(str(one["confirmed"]) for one in found if one.get("unreadable")))


def term_text(value: Any) -> Any:
    """Return a term as a difference shows it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Decimal):
        return format(value.normalize(), "f")
    if isinstance(value, Unreadable):
        return value.text
    return value.isoformat() if isinstance(value, datetime) else as_text(value)


def sorted_differences(found: Iterable[Difference]) -> list[Difference]:
    """Return differences in the one order in which they are stored and shown."""
    return sorted(found, key=lambda one: (one["line"], one["field"], one["product"]))


def _key(one: Difference) -> tuple[int, str, str]:
    return one["line"], one["field"], one["product"] if one["field"] == PACKAGE else ""


def _differences(approved: Terms, stated: Terms) -> Iterator[Difference]:
    if stated.currency is not None and stated.currency != approved.currency:
        yield _difference(THE_BUY, CURRENCY, approved.currency, Unreadable(stated.currency))
    for field, problem in stated.problems:
        yield _difference(THE_BUY, field, "", problem)
    ours = {package.line: package for package in approved.packages}
    for package in stated.packages:
        if package.line in ours:
            yield from _of_a_package(ours[package.line], package)
        else:
            yield _nobody_ordered(package)


def _of_a_package(approved: PackageTerms, stated: PackageTerms) -> Iterator[Difference]:
    if stated.canceled is True:  # its other terms do not matter any more
        fields: Sequence[str] = ("canceled",)
    else:
        fields = tuple(COLUMNS)
    for field in fields:
        ours, theirs = getattr(approved, field), getattr(stated, field)
        if field in ("product_id", "pricing_option_id") and not ours:
            continue  # nobody ordered a certain one
        if theirs is not None and _differs(field, ours, theirs):
            yield _difference(approved.name, field, ours, theirs, line=approved.line)


def _differs(field: str, approved: Any, stated: Any) -> bool:
    if field == "targeting":
        # What a seller adds of its own is no difference, what it leaves out or changes is.
        return not is_targeted(stated, approved or {}, approved or {})
    return bool(approved != stated)


def _nobody_ordered(package: PackageTerms) -> Difference:
    unreadable = [value for value in vars(package).values() if isinstance(value, Unreadable)]
    stated = unreadable[0] if unreadable else package.budget
    terms = {name: term_text(value) for name, value in vars(package).items() if value is not None}
    difference = _difference(package.name, PACKAGE, "nothing", NOT_STATED if stated is None else stated)
    return {**difference, "package": terms}


def _difference(product: str, field: str, approved: Any, stated: Any, *, line: int = 0) -> Difference:
    return {
        "line": line,
        "product": product,
        "field": field,
        "approved": term_text(approved),
        "confirmed": term_text(stated),
        **({"unreadable": True} if isinstance(stated, Unreadable) else {}),
    }
