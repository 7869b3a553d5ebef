"""Money: currencies with their ISO 4217 exponent, amounts that are exact in minor units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_DOWN, Decimal
from typing import Any

from iso4217 import Currency

# What is larger, finer or longer than these is no number that anybody counts with.
_MOST, _FINEST, _LONGEST = Decimal(10) ** 24, Decimal(10) ** -24, 64
_MOST_SHOWN = 20  # characters of what is no currency
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_TYPED = re.compile(
    r"[+-]?(?:[0-9]+|[0-9]{1,3}(?: [0-9]{3})+)(?:\.[0-9]*)?"
    r"|[+-]?[0-9]{1,3}(?:(?:,[0-9]{3})+\.[0-9]*|(?:,[0-9]{3}){2,})"
)
_ONE_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_POINT_AND_THREE = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")


def is_currency(code: str) -> bool:
    """Whether `code` is an ISO 4217 currency that money is counted in (not gold, not a test code)."""
    try:
        return Currency(code).exponent is not None
    except ValueError:
        return False


def currency_codes() -> list[str]:
    """Return every code that `is_currency` accepts, in order."""
    return sorted(one.code for one in Currency if one.exponent is not None)


def currency_of(code: str) -> str:
    """`code`, where it is such a currency. Raises ValueError, in words for people."""
    if not is_currency(code):
        raise ValueError(f"{code[:_MOST_SHOWN]!r} is no ISO 4217 currency, such as USD")
    return code


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
    """A number from outside (JSON's, a file's, a form's) as a Decimal, exactly as written and bounded in size
    and scale, so that it can be compared, rounded and kept; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    if isinstance(value, int) and abs(value) >= _MOST:  # Python refuses to write the longest ones out
        return None
    written = str(value).strip()
    if len(written) > _LONGEST or not _NUMBER.fullmatch(written):
        return None
    number = Decimal(written)
    kept = not number or _FINEST <= abs(number) < _MOST
    return number if kept else None


def amount_of(value: Any) -> Decimal | None:
    """An amount of money from outside, as the columns hold it: 0 is one, a sum of floats is what it means;
    None for what is below zero, beyond any purchase, or no number."""
    return _kept(decimal_of(value), below=Decimal(10) ** 14, scale=4)


def rate_of(value: Any) -> Decimal | None:
    """A price from outside, as the columns hold it: see `amount_of`."""
    return _kept(decimal_of(value), below=Decimal(10) ** 12, scale=6)


def reads_as_thousands(written: str) -> bool:
    """Whether its point may have been meant to part thousands: 12.500, in a currency of two digits."""
    return bool(_POINT_AND_THREE.fullmatch(written))


def typed_amount(text: str, currency: str = "") -> Decimal:
    """An amount as a person typed it: a decimal point, thousands by spaces, or by commas where a point or a
    second comma says what they are. A point and three digits are an amount of a `currency` that has three.

    Raises ValueError, with how it could be read, where its separators say two things.
    """
    typed = text.strip()
    if reads_as_thousands(typed) and not (is_currency(currency) and exponent(currency) == 3):
        whole, _, rest = typed.partition(".")
        raise ValueError(
            f"{typed!r} can be read as {whole}.{rest[:2]} or as {whole}{rest}: "
            "write it without the point, or with other than three digits behind it"
        )
    return typed_rate(typed)


def typed_rate(text: str) -> Decimal:
    """A price or rate as a person typed it: as an amount, but three digits behind a point are a fraction.

    Raises ValueError as `typed_amount` does.
    """
    shown = text.strip()
    if len(shown) > _LONGEST:
        raise ValueError(f"{shown[:40]!r}… is no amount, such as 4500.50")
    plain = "".join(" " if ch.isspace() else ch for ch in shown)
    if _TYPED.fullmatch(plain):
        number = decimal_of(plain.replace(" ", "").replace(",", ""))
        if number is not None:
            return number
    if _ONE_COMMA.fullmatch(plain):
        whole, _, rest = plain.partition(",")
        raise ValueError(
            f"{shown[:40]!r} can be read as {whole}.{rest} or as {whole}{rest}: "
            "write it with a decimal point and without commas"
        )
    raise ValueError(f"{shown[:40]!r} is no amount, such as 4500.50")


def _kept(number: Decimal | None, *, below: Decimal, scale: int) -> Decimal | None:
    if number is None or not 0 <= number < below:
        return None
    kept = number.quantize(Decimal(1).scaleb(-scale))
    return kept if kept < below else None
