"""Orders that are parts of one: the same advertiser and seller, flights that overlap or follow each other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal


@dataclass(frozen=True, kw_only=True)
class Flight:
    """[start, end), aware."""

    start: datetime
    end: datetime


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """Another open or booked order of the same advertiser with the same seller; `amount` gross."""

    reference: str
    flight: Flight
    amount: Decimal
    currency: str


def parts_beside(flight: Flight, others: Collection[Neighbour], gap: timedelta) -> tuple[Neighbour, ...]:
    """Those of `others` that belong to one chain with `flight`: each overlaps the chain, or begins or ends
    at most `gap` from it, so that a row of short orders is one. In the order of their flights; n log n."""
    own = Neighbour(reference="", flight=flight, amount=Decimal(0), currency="")
    chain: list[Neighbour] = []
    until = flight.start
    for one in sorted([own, *others], key=lambda o: (o.flight.start, o.flight.end, o.reference)):
        if chain and one.flight.start > until + gap:
            if own in chain:
                break
            chain = []
        until = max(until, one.flight.end) if chain else one.flight.end
        chain.append(one)
    return tuple(one for one in chain if one is not own)
