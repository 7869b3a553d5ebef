"""Whose turn it is at a seller: lower priority first (document 003), then those asked for together in turns.

What was asked for together (a job, or all jobs about one subject) takes turns with the rest of its priority,
so that one job with 500 operations does not keep another with one waiting. Start-time fair queueing: each
operation is given a moment of its own when it is asked for, those of one share apart from each other; of
equal priority the earliest is sent first. What is AGED past its moment has every second slot that comes free
at its seller, by its moment, whatever its priority: so no stream of urgent work keeps anything waiting for
ever, and no backlog, however old, holds back what is urgent by more than one call in two.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max

from tasks_app import clock
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller

_APART = timedelta(seconds=10)  # about the time of a slow call
AGED = timedelta(minutes=5)  # half of a read's deadline
_PRIORITY = 100
_sharing: ContextVar[tuple[uuid.UUID | None, int]] = ContextVar("sharing", default=(None, _PRIORITY))


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Where a new operation stands at its seller: its share (None: alone), priority and moment."""

    share: uuid.UUID | None
    priority: int
    at: datetime


@contextmanager
def sharing(share: uuid.UUID, *, priority: int = _PRIORITY) -> Iterator[None]:
    """What is asked for in this block takes turns as one, among what has that priority."""
    token = _sharing.set((share, priority))
    try:
        yield
    finally:
        _sharing.reset(token)


def turn_take(seller: Seller) -> Turn:
    """The turn of a new operation with `seller`: now, or behind the last of its share that still waits there.
    What nobody shares has its turn at once."""
    now, (share, priority) = clock.now(), _sharing.get()
    last = None
    if share is not None:
        waiting = Operation.objects.filter(seller=seller, share=share, send_at__isnull=False)
        last = waiting.aggregate(last=Max("turn_at"))["last"]
    return Turn(share=share, priority=priority, at=now if last is None else max(now, last + _APART))


def turns_prioritise(share: uuid.UUID, priority: int) -> int:
    """Give what a share has still to send another priority. Answers how many."""
    return Operation.objects.filter(share=share, send_at__isnull=False).update(priority=priority)
