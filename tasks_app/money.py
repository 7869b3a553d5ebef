"""Money: currencies with their ISO 4217 exponent, amounts that are exact in minor units."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_DOWN, Decimal, InvalidOperation
from typing import Any

from iso4217 import Currency


def is_currency(code: str) -> bool:
    """Whether `code` is an ISO 4217 currency that money is counted in (not gold, not a test code)."""
    try:
        return Currency(code).exponent is not None
    except ValueError:
        return False


def exponent(currency: str) -> int:
    """Digits after the point, by ISO 4217: 2 for USD, 0 for JPY. Raises ValueError for no currency."""
    digits = Currency(currency).exponent
    if digits is None:
        raise ValueError(f"{currency} has no minor unit")
    return int(digits)


def unit(currency: str) -> Decimal:
    """The smallest amount of a currency: 0.01 for USD, 1 for JPY. Raises ValueError for no currency."""
    return Decimal(1).scaleb(-exponent(currency))


def floor_to_unit(amount: Decimal, currency: str) -> Decimal:
    """`amount` without what is smaller than the currency's unit."""
    return amount.quantize(unit(currency), rounding=ROUND_DOWN)


def split(total: Decimal, weights: Mapping[str, Decimal], currency: str) -> dict[str, Decimal]:
    """`total` in parts as `weights`, in minor units, adding up to it exactly (largest remainders first).

    Raises ValueError where no weight is above zero.
    """
    whole = sum(weights.values(), Decimal(0))
    if whole <= 0:
        raise ValueError("nothing to split by: no weight is above zero")
    exact = {key: total * weight / whole for key, weight in weights.items()}
    parts = {key: floor_to_unit(value, currency) for key, value in exact.items()}
    left = int((total - sum(parts.values(), Decimal(0))) / unit(currency))
    for key in sorted(exact, key=lambda k: (parts[k] - exact[k], k))[:left]:
        parts[key] += unit(currency)
    return parts


def decimal_of(value: Any) -> Decimal | None:
    """A JSON number as a Decimal, exactly as written; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
