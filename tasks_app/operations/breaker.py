"""One circuit breaker per seller, its state shared by all processes: pybreaker decides, a row remembers.

After so many failures in a row a seller is left alone; then one call at a time probes whether it is back.
What counts is the network and the server, never what a seller says: an AdCP error is an answer. Source:
document 000 ("Error Recovery").
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

import pybreaker
import structlog
from django.conf import settings
from django.db import transaction

from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About, notify
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.models import SellerBreaker
from tasks_app.sellers.timing import timing

log = structlog.get_logger(__name__)
_State = SellerBreaker.State
_UNWELL = frozenset({"SERVICE_UNAVAILABLE"})
_REASON_CHARS = 500


class _CallFailedError(Exception):
    """A call that failed, as pybreaker wants to be told of it."""


class _Row(pybreaker.CircuitBreakerStorage):
    """pybreaker's storage on a row that the caller holds locked and saves."""

    def __init__(self, row: SellerBreaker) -> None:
        super().__init__("seller")
        self.row = row

    @property
    def state(self) -> str:
        return self.row.state

    @state.setter
    def state(self, state: str) -> None:
        # A probe that failed is part of the same time of being left alone.
        if _State.CLOSED in (state, self.row.state) and state != self.row.state:
            self.row.since = clock.now()
        self.row.state = state

    @property
    def counter(self) -> int:
        return self.row.failures

    def increment_counter(self) -> None:
        self.row.failures += 1

    def reset_counter(self) -> None:
        self.row.failures = 0

    @property
    def success_counter(self) -> int:
        return self.row.successes

    def increment_success_counter(self) -> None:
        self.row.successes += 1

    def reset_success_counter(self) -> None:
        self.row.successes = 0

    @property
    def opened_at(self) -> datetime | None:
        return self.row.opened_at

    @opened_at.setter
    def opened_at(self, _moment: datetime) -> None:
        # By our clock, not by pybreaker's.
        self.row.opened_at = clock.now()


class _Tell(pybreaker.CircuitBreakerListener):
    """Ad Ops hear of a seller that is left alone, once, and that it is back."""

    def __init__(self, row: SellerBreaker) -> None:
        self._row = row

    def state_change(self, cb: Any, old_state: Any, new_state: Any) -> None:
        seller, row = self._row.seller, self._row
        log.info("seller_breaker", seller=seller.slug, before=old_state.name, now=new_state.name)
        if new_state.name == _State.OPEN and old_state.name == _State.CLOSED:
            notify(
                kind="seller_unreachable",
                title=f"{seller.name} does not answer and is left alone",
                body=f"After {row.failures} failures in a row. The last: {row.reason}. "
                "It is tried again by single calls; nothing is lost meanwhile.",
                level=Notification.Level.WARNING,
                about=About(type="seller", id=seller.pk),
                right=STEER_OPERATION,
            )
        elif new_state.name == _State.CLOSED:
            notify(
                kind="seller_back",
                title=f"{seller.name} answers again",
                about=About(type="seller", id=seller.pk),
                right=STEER_OPERATION,
            )


def breaker_room(row: SellerBreaker | None, *, now: datetime) -> int | None:
    """How many calls a seller's breaker lets out now: None for any number, 1 for a probe, 0 while left alone.
    `row` is the seller's, None where it never failed."""
    if row is None or row.state == _State.CLOSED:
        return None
    return 1 if row.probe_at is None or row.probe_at <= now else 0


def breaker_probe(row: SellerBreaker, *, until: datetime) -> None:
    """Mark that a probe is out; another may follow at `until` if nobody hears of it. Called by who holds the
    seller's lock, so that there is one."""
    probed = SellerBreaker.objects.filter(pk=row.pk).exclude(state=_State.CLOSED)
    probed.update(state=_State.HALF_OPEN, probe_at=until)


def breaker_is_clean(row: SellerBreaker | None) -> bool:
    """Whether a further success would change nothing."""
    return row is None or (row.state == _State.CLOSED and row.failures == 0)


@transaction.atomic
def breaker_record(*, seller_id: uuid.UUID, seen: Seen) -> None:
    """Count what came of one call to a seller, and tell Ad Ops when that changes whether it is called."""
    failed = is_failure(seen)
    if failed:
        SellerBreaker.objects.bulk_create([SellerBreaker(seller_id=seller_id)], ignore_conflicts=True)
    locked = SellerBreaker.objects.select_related("seller").select_for_update(of=("self",))
    row = locked.filter(pk=seller_id).first()
    if row is None or row.state == _State.OPEN:
        return  # one that was out before it opened
    if failed:
        row.reason = _words(seen)[:_REASON_CHARS]
    _count(row, failed)
    reset = timedelta(seconds=timing(row.seller, "breaker_reset_s") * settings.POLL_SCALE)
    row.probe_at = clock.now() + reset if row.state != _State.CLOSED else None
    row.save()


def _count(row: SellerBreaker, failed: bool) -> None:
    storage = _Row(row)
    breaker = pybreaker.CircuitBreaker(
        fail_max=int(timing(row.seller, "breaker_failures")),
        state_storage=storage,
        listeners=[_Tell(row)],
        name=row.seller.slug,
    )
    try:
        breaker.call(_outcome, failed)
    except (_CallFailedError, pybreaker.CircuitBreakerError):
        return  # counted: the caller knows what came of the call


def _outcome(failed: bool) -> None:
    if failed:
        raise _CallFailedError


def is_failure(seen: Seen) -> bool:
    """Whether a call shows a seller that is not well: no connection, no answer, no AdCP, or its own word."""
    if seen.kind != "answer":
        return seen.error is None or seen.error.code != "RATE_LIMITED"
    return seen.error is not None and seen.error.code in _UNWELL


def _words(seen: Seen) -> str:
    return (seen.error.message or seen.error.code) if seen.error else seen.message or seen.kind
