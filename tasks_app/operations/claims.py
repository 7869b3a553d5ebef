"""Which calls may go out now: what is due, within each seller's slots, which all processes share.

A lease on an operation is a call that is out; a killed worker's lease ends, and with it its call and its
slot. Claims of one seller follow one another (its row is locked while its leases are counted), those of
different sellers do not wait for each other. No row is looked at that is not due.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from django.conf import settings
from django.db import connection
from django.db.models import Count, Exists, OuterRef, Q

from tasks_app import clock
from tasks_app.operations.breaker import breaker_probe, breaker_room
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller, SellerBreaker

Column = Literal["send_at", "next_poll_at"]
# What is sent takes turns (turns.py); a look puts an operation behind all others that are due.
_ORDER: dict[Column, str] = {"send_at": "turn_at", "next_poll_at": "next_poll_at"}
_CLOCKS_APART = timedelta(minutes=1)

_DUE = """
select o.id, s.seller_id from unnest(%s::uuid[], %s::int[]) s (seller_id, free)
 cross join lateral (
   select t.id, t.{order} as due from tasks_app_operation t
    where t.seller_id = s.seller_id and t.{column} <= %s and t.status = any(%s)
      and (t.lease_until is null or t.lease_until < %s) and (%s::uuid is null or t.id = %s)
    order by t.{order}, t.id limit s.free
    for no key update skip locked) o
 order by o.due limit %s
"""


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """Ids of operations locked for a call, the longest due first, with their sellers and breakers by id."""

    ids: Sequence[uuid.UUID]
    sellers: Mapping[uuid.UUID, Seller]
    breakers: Mapping[uuid.UUID, SellerBreaker]

    def operations(self, ids: Sequence[uuid.UUID] | None = None) -> list[Operation]:
        """All of them, or those named, in their order, each with its seller."""
        wanted = self.ids if ids is None else ids
        found = Operation.objects.select_related("account").in_bulk(wanted) if wanted else {}
        for operation in found.values():
            operation.seller = self.sellers[operation.seller_id]
        return [found[pk] for pk in wanted]


_NOTHING = Claimed(ids=[], sellers={}, breakers={})


def lease() -> datetime:
    """Until when a call that begins now, or is still out, is taken."""
    return clock.now() + timedelta(seconds=settings.OPERATION_LEASE_S)


def claim_due(
    *,
    column: Column,
    statuses: Sequence[str],
    due_by: datetime,
    limit: int,
    out: Counter[uuid.UUID] | None = None,
    only: uuid.UUID | None = None,
) -> Claimed:
    """Lock what is due by `column` in one of `statuses`, within slots and breakers; in a transaction.

    `out`: calls of this process by seller, which count even where their lease has run out. With `only` that
    operation alone is taken, and its seller waited for; else a seller that somebody claims from is left out.
    """
    sellers = _sellers(column, statuses, due_by, only)
    if not sellers:
        return _NOTHING
    breakers = {row.pk: row for row in SellerBreaker.objects.filter(pk__in=sellers)}
    rooms = _rooms(sellers, breakers, out or Counter())
    if column == "send_at":
        # Nothing goes out to a seller that is off: what is due is refused, whatever its slots.
        rooms |= {pk: limit for pk, seller in sellers.items() if not seller.active}
    free = {pk: min(room, limit) for pk, room in rooms.items() if room > 0}
    if not free:
        return _NOTHING
    taken = _locked(column, statuses, due_by, limit, free, only)
    for seller_id in set(taken.values()) & breakers.keys():
        breaker_probe(breakers[seller_id], until=lease())
    return Claimed(ids=list(taken), sellers=sellers, breakers=breakers)


def _sellers(
    column: Column, statuses: Sequence[str], due_by: datetime, only: uuid.UUID | None
) -> dict[uuid.UUID, Seller]:
    """The sellers with something due, locked until the claim's commit."""
    idle = Q(lease_until__isnull=True) | Q(lease_until__lt=clock.now())
    due = Operation.objects.filter(
        idle, seller=OuterRef("pk"), status__in=statuses, **{f"{column}__lte": due_by}
    )
    if only is not None:
        due = due.filter(pk=only)
    wanted = Seller.objects.filter(Exists(due)).order_by("pk")
    rows = wanted.defer("capabilities").select_for_update(no_key=True, skip_locked=only is None)
    return {seller.pk: seller for seller in rows}


def _rooms(
    sellers: Mapping[uuid.UUID, Seller],
    breakers: Mapping[uuid.UUID, SellerBreaker],
    out: Counter[uuid.UUID],
) -> dict[uuid.UUID, int]:
    """How many more calls each seller may get. Counted after its lock, so that no other claim is missed."""
    now = clock.now()
    # A call that is out stays due until it is observed: only what is due is looked at (by any process's
    # clock). Leases have no index of their own, which every claim would have to write.
    soon = now + _CLOCKS_APART
    due = Q(send_at__lte=soon) | Q(next_poll_at__lte=soon)
    leased = Operation.objects.filter(due, seller__in=sellers, lease_until__gt=now).order_by()
    taken = dict(leased.values_list("seller").annotate(Count("pk")))
    rooms: dict[uuid.UUID, int] = {}
    for pk, seller in sellers.items():
        busy = max(taken.get(pk, 0), out[pk])
        allowed = breaker_room(breakers.get(pk), now=now)
        rooms[pk] = seller.slots - busy if allowed is None else min(allowed, seller.slots - busy)
    return rooms


def _locked(
    column: Column,
    statuses: Sequence[str],
    due_by: datetime,
    limit: int,
    free: Mapping[uuid.UUID, int],
    only: uuid.UUID | None,
) -> dict[uuid.UUID, uuid.UUID]:
    """Operation to seller, the longest due first."""
    with connection.cursor() as cursor:
        cursor.execute(
            _DUE.format(column=column, order=_ORDER[column]),  # names of ours
            [list(free), list(free.values()), due_by, list(statuses), clock.now(), only, only, limit],
        )
        return dict(cursor.fetchall())
