"""What a seller's health is made of, and the seams through which rooms above tell it.

Figures are of the seller's agent, not of anybody's purchases: counts, shares and times, the same for every
viewer who may see sellers.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from tasks_app.sellers.models import Seller, SellerBreaker


@dataclass(frozen=True, kw_only=True)
class Calls:
    """The latest calls to a seller: `errors` ended without an AdCP answer or with an AdCP error, `codes` says
    which, most frequent first; times in milliseconds, None without calls."""

    count: int = 0
    errors: int = 0
    median_ms: float | None = None
    ninetieth_ms: float | None = None
    slowest_ms: float | None = None
    codes: tuple[tuple[str, int], ...] = ()

    @property
    def error_share(self) -> float | None:
        """0 to 1; None without calls."""
        return self.errors / self.count if self.count else None


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """How the latest operations of one task ended, and how long after sending; `overdue` were past their
    deadline, whatever became of them."""

    task: str
    is_change: bool  # it buys or changes something; else it only reads
    count: int
    completed: int
    rejected: int
    overdue: int
    by_webhook: int
    median: timedelta | None
    ninetieth: timedelta | None

    @property
    def success(self) -> int:
        """Completed, in percent."""
        return round(100 * self.completed / self.count)

    @property
    def webhook_percent(self) -> int:
        """Settled by webhook, in percent."""
        return round(100 * self.by_webhook / self.count)


class WebhookState(StrEnum):
    """Whether a seller's webhooks are waited for."""

    NONE = "none"  # it sends none
    TRUSTED = "trusted"
    PAUSED = "paused"  # too few came: polled for a while
    TRIAL = "trial"  # waited for again; not yet known whether they come


@dataclass(frozen=True, kw_only=True)
class WebhookRate:
    """Of `due` operations that could have been told of by webhook, `came` were; of `refused` what came did
    not verify. `until`: paused so long."""

    state: WebhookState
    due: int = 0
    came: int = 0
    refused: int = 0
    until: datetime | None = None

    @property
    def share(self) -> float | None:
        """0 to 1; None when nothing was due."""
        return self.came / self.due if self.due else None


@dataclass(frozen=True, kw_only=True)
class Out:
    """What is with the seller now: operations open, changes of them past their deadline, calls out, and since
    when the oldest is open."""

    open: int = 0
    overdue: int = 0
    calling: int = 0
    oldest_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Breaker:
    """The circuit breaker: `state` closed (it is called), open (left alone) or half-open (tried), after how
    many failures in a row, the last one's words, and when the next call is let through."""

    state: str
    since: datetime | None = None
    failures: int = 0
    reason: str = ""
    next_probe_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class SellerHealth:
    """One seller's health now."""

    calls: Calls
    webhooks: WebhookRate
    out: Out
    outcomes: tuple[Outcomes, ...] = field(default=())
    breaker: Breaker | None = None

    @property
    def settled(self) -> int:
        """How many changes ended; reads are not decided on."""
        return sum(one.count for one in self._changes)

    @property
    def _changes(self) -> list[Outcomes]:
        return [one for one in self.outcomes if one.is_change]

    def share(self, of: str) -> float | None:
        """completed, rejected or overdue among the changes that ended, 0 to 1; of `overdue` also among those
        that are overdue now. None where there are none."""
        now = self.out.overdue if of == "overdue" else 0
        among = self.settled + now
        return (sum(getattr(one, of) for one in self._changes) + now) / among if among else None


HealthReader = Callable[[Sequence[Seller]], dict[uuid.UUID, SellerHealth]]
_readers: list[HealthReader] = []


def health_register(reader: HealthReader) -> None:
    """Called by the room that has the evidence, when the application starts."""
    _readers[:] = [reader]


def health_of(sellers: Sequence[Seller]) -> dict[uuid.UUID, SellerHealth]:
    """The health of each seller, by id; a bounded number of rows is read for each. Nothing where no room has
    evidence."""
    return _readers[0](sellers) if _readers else {}


def breakers_of(sellers: Sequence[Seller]) -> dict[uuid.UUID, Breaker]:
    """The circuit breakers of those sellers that ever failed, by id."""
    rows = SellerBreaker.objects.filter(seller__in=sellers) if sellers else ()
    return {
        row.pk: Breaker(
            state=row.state,
            since=row.since,
            failures=row.failures,
            reason=row.reason,
            next_probe_at=row.probe_at,
        )
        for row in rows
    }
