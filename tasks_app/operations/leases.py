"""Leases of calls that are out: what counts as a seller's taken slot, and who renews and returns it.

Crash safety: a lease is committed before its call leaves and returned in the commit that observes the answer.
A killed worker's runs out, and with it its call and its slot. What ran out is called again though the older
call may still be out somewhere: a lease is renewed and returned by its own call alone, neither by an older
one's late answer nor by news that answers no call (a webhook, what reconciliation finds, a person's word).
An operation that has ended keeps the slots of its calls until they end: nothing of it is sent again.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import timedelta
from functools import reduce
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet

from tasks_app.database_clock import database_in, database_now
from tasks_app.operations.lease import CallLease

# Long enough that a slow worker which renews too late still finds its own.
_KEPT = timedelta(hours=1)


class Lease(NamedTuple):
    """What one call holds; both together are in the whole database no other call's."""

    id: uuid.UUID  # the operation's, or a reading's
    call: uuid.UUID  # calls that were claimed together share it


def lease_end() -> Any:
    """Until when a call that begins now, or is still out, is taken: by the database's clock."""
    return database_in(settings.OPERATION_LEASE_S)


def is_live() -> Q:
    """A condition on leases: they have not run out."""
    return Q(until__gte=database_now())


def is_out() -> Exists:
    """A condition on operations: a call of theirs is out now."""
    return Exists(CallLease.objects.filter(is_live(), pk=OuterRef("pk")))


def operations_out(operation_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Those of them of which a call is out now."""
    live = CallLease.objects.filter(is_live(), pk__in=operation_ids)
    return set(live.values_list("pk", flat=True)) if operation_ids else set()


def operation_is_out(operation_id: uuid.UUID) -> bool:
    """Whether a call of one operation is out now."""
    return bool(operations_out([operation_id]))


def leases_renew(leases: Iterable[Lease]) -> None:
    """Keep the calls that are still out; what was given back, or is another call's now, is left so."""
    _of(leases).update(until=lease_end())


def leases_release(leases: Iterable[Lease]) -> None:
    """Give back slots whose calls have ended, or were cut off: then the same bytes and key are due again."""
    _of(leases).delete()


def leases_forget() -> int:
    """Remove what killed workers left long ago; answers how many."""
    return CallLease.objects.filter(until__lt=database_in(-_KEPT.total_seconds())).delete()[0]


def _of(leases: Iterable[Lease]) -> QuerySet[CallLease]:
    """Those that stand as they were given: what was claimed again since is another call's."""
    claims: defaultdict[uuid.UUID, list[uuid.UUID]] = defaultdict(list)
    for one in leases:
        claims[one.call].append(one.id)
    theirs = (Q(call=call, pk__in=ids) for call, ids in claims.items())
    return CallLease.objects.filter(reduce(Q.__or__, theirs, Q(pk__in=[])))
