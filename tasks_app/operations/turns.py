"""Whose turn it is at a seller: what was asked for together (a job, or all jobs about one subject) takes
turns with the rest, so that one job with 500 operations does not keep another with one waiting.

Start-time fair queueing: each operation is given a moment of its own when it is asked for, those of one share
apart from each other; the earliest is sent first. Nothing is computed or written when it is claimed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta

from django.db.models import Max

from tasks_app import clock
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller

_APART = timedelta(seconds=10)  # about the time of a slow call
_share: ContextVar[uuid.UUID | None] = ContextVar("share", default=None)


@contextmanager
def sharing(share: uuid.UUID) -> Iterator[None]:
    """What is asked for in this block takes turns as one."""
    token = _share.set(share)
    try:
        yield
    finally:
        _share.reset(token)


def turn_take(seller: Seller) -> tuple[uuid.UUID | None, datetime]:
    """The share of a new operation with `seller` and its turn: now, or behind the last of its share that
    still waits there. What nobody shares has its turn at once."""
    now, share = clock.now(), _share.get()
    if share is None:
        return None, now
    waiting = Operation.objects.filter(seller=seller, share=share, send_at__isnull=False)
    last = waiting.aggregate(last=Max("turn_at"))["last"]
    return share, now if last is None else max(now, last + _APART)
