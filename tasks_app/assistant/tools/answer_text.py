"""Amounts, names, lists and moments as the answers of tools state them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from tasks_app.desk import text
from tasks_app.desk.items import joined
from tasks_app.desk.states import face

_MOST_NAMED = 3  # in one sentence
_LONGEST_NAME = 80


def money(amount: Decimal, currency: str) -> str:
    """Return "USD 35,200" or "USD 35,200.50"; no digit of a finer rate is lost."""
    exact, usual = text.number(amount), text.amount(amount, currency)
    shown = usual if "." in exact and len(usual) > len(exact) else exact
    return f"{currency} {shown}"


def money_list(amounts: Iterable[tuple[str, Decimal]]) -> str:
    """Return "USD 35,200 and EUR 1,000"; "nothing" if there is no amount."""
    return joined([money(amount, currency) for currency, amount in amounts]) or "nothing"


def plain(words: str) -> str:
    """Return a text on one line, without control characters."""
    return "".join(character for character in " ".join(words.split()) if character.isprintable())


def quoted_name(name: str) -> str:
    """Return a name that a brief or a seller wrote, in double quotes and with at most 80 characters."""
    said = plain(name).replace('"', "'")
    cut = said if len(said) <= _LONGEST_NAME else f"{said[: _LONGEST_NAME - 1]}…"
    return f'"{cut}"'


def some_of(names: Sequence[str], total: int) -> str:
    """Return "A, B and C", or "A, B, C and 4 more" of `total`."""
    named = list(names[:_MOST_NAMED])
    more = total - len(named)
    return joined([*named, f"{more} more"] if more else named)


def status_word(status: str) -> str:
    """Return a status as pages show it, within a sentence."""
    return face(status).word.lower()


def counted_statuses(counts: Mapping[str, int]) -> str:
    """Return "3 booked and 1 failed", the largest number first."""
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return joined([f"{count} {status_word(status)}" for status, count in ranked])


def moment_with_zone(at: datetime) -> str:
    """Return "Wed 18 Nov, 12:00 New York" in the viewer's zone."""
    return f"{text.moment(at)} {text.zone_name()}"


def sentences(*each: str) -> str:
    """Return the sentences that are not empty, as one text."""
    return " ".join(sentence for sentence in each if sentence)
