"""What one call more does to a seller's breaker, as pybreaker decides (see `breaker`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pybreaker
import structlog

from tasks_app import clock
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About, notify
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.models import SellerBreaker
from tasks_app.sellers.timing import timing

log = structlog.get_logger(__name__)
_State = SellerBreaker.State


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


def breaker_count(row: SellerBreaker, *, failed: bool) -> None:
    """Count one call's outcome on `row`, which the caller holds locked and saves."""
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
