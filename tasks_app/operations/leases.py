"""Leases of calls that are out: what counts as a seller's taken slot, and who renews and returns it.

Crash safety: a lease is committed before its call leaves and returned in the commit that observes the answer.
A killed worker's runs out, and with it its call and its slot.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef

from tasks_app import clock
from tasks_app.operations.lease import CallLease

# Long enough that a slow worker which renews too late still finds its own.
_KEPT = timedelta(hours=1)


def lease_end() -> datetime:
    """Until when a call that begins now, or is still out, is taken."""
    return clock.now() + timedelta(seconds=settings.OPERATION_LEASE_S)


def is_out() -> Exists:
    """A condition on operations: a call of theirs is out now."""
    return Exists(CallLease.objects.filter(pk=OuterRef("pk"), until__gte=clock.now()))


def operation_is_out(operation_id: uuid.UUID) -> bool:
    """Whether a call of one operation is out now."""
    return CallLease.objects.filter(pk=operation_id, until__gte=clock.now()).exists()


def leases_renew(ids: Iterable[uuid.UUID]) -> None:
    """Keep the calls that are still out; one that was given back meanwhile is left so."""
    CallLease.objects.filter(pk__in=list(ids)).update(until=lease_end())


def leases_release(ids: Iterable[uuid.UUID]) -> None:
    """Give back slots whose calls have ended, or were cut off: then the same bytes and key are due again."""
    CallLease.objects.filter(pk__in=list(ids)).delete()


def leases_forget() -> int:
    """Remove what killed workers left long ago; answers how many."""
    return CallLease.objects.filter(until__lt=clock.now() - _KEPT).delete()[0]
