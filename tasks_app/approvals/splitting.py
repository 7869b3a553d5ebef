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
    at most `gap` from it, so that a row of short orders is one. In the order of their flights."""
    found: list[Neighbour] = []
    start, end, left = flight.start, flight.end, list(others)
    while True:
        near = [o for o in left if o.flight.start <= end + gap and o.flight.end >= start - gap]
        if not near:
            return tuple(sorted(found, key=lambda o: (o.flight.start, o.flight.end, o.reference)))
        found += near
        left = [o for o in left if o not in near]
        start = min(start, *(o.flight.start for o in near))
        end = max(end, *(o.flight.end for o in near))
