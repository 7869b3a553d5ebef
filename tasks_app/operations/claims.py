"""Which calls may go out now: what is due, within each seller's slots, which all processes share.

A lease is a call that is out (`leases.py`). Claims of one seller follow one another (its row is locked while
its leases are counted), those of different sellers do not wait for each other. No row is looked at that is
not due, and none but leases is written: what is claimed is known to be so by its lease.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.db import connection

from tasks_app import clock
from tasks_app.operations.breaker import breaker_probe, breaker_room
from tasks_app.operations.leases import lease_end, leases_count
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller, SellerBreaker

Column = Literal["send_at", "next_poll_at"]
# What is sent takes turns (turns.py); a look puts an operation behind all others that are due.
_ORDER: dict[Column, str] = {"send_at": "turn_at", "next_poll_at": "next_poll_at"}
# A send moves its operation; a look may as well find that somebody has moved it.
_LOCK: dict[Column, str] = {"send_at": "for no key update skip locked", "next_poll_at": ""}
_DUE = """t.{column} <= %(by)s and t.status = any(%(statuses)s)
        and not exists (select from tasks_app_calllease l where l.id = t.id and l.until >= %(now)s)
        and (%(only)s::uuid is null or t.id = %(only)s)"""
_SELLER = ", ".join(f"s.{f.column}" for f in Seller._meta.concrete_fields if f.name != "capabilities")
# Lateral with a limit: one look into the index for each seller, however much is due.
_SELLERS = f"""
select {_SELLER} from tasks_app_seller s cross join lateral (
    select from tasks_app_operation t where t.seller_id = s.id and {_DUE} limit 1) o
 order by s.id for no key update of s {{skip}}
"""  # noqa: S608 - names of ours
_TAKE = f"""
with due as (
  select o.id, s.seller_id, o.due from unnest(%(sellers)s::uuid[], %(free)s::int[]) s (seller_id, free)
   cross join lateral (
     select t.id, t.{{order}} as due from tasks_app_operation t
      where t.seller_id = s.seller_id and {_DUE}
      order by t.{{order}}, t.id limit s.free {{lock}}) o
   order by o.due limit %(limit)s),
leased as (
  insert into tasks_app_calllease (id, seller_id, until) select id, seller_id, %(until)s from due
      on conflict (id) do update set until = excluded.until)
select id, seller_id from due order by due
"""  # noqa: S608


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """Ids of operations leased for a call, the longest due first, with their sellers and breakers by id."""

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


def claim_due(
    *,
    column: Column,
    statuses: Sequence[str],
    due_by: datetime,
    limit: int,
    out: Counter[uuid.UUID] | None = None,
    only: uuid.UUID | None = None,
) -> Claimed:
    """Lease what is due by `column` in one of `statuses`, within slots and breakers; in a transaction. What
    is due to be sent is locked too.

    `out`: calls of this process by seller, which count even where their lease has run out. With `only` that
    operation alone is taken, and its seller waited for; else a seller that somebody claims from is left out.
    """
    due = {"by": due_by, "statuses": list(statuses), "now": clock.now(), "only": only}
    sellers = _sellers(column, due)
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
    rooms_left = {"sellers": list(free), "free": list(free.values()), "limit": limit, "until": lease_end()}
    taken = _taken(column, {**due, **rooms_left})
    for seller_id in set(taken.values()) & breakers.keys():
        breaker_probe(breakers[seller_id], until=lease_end())
    return Claimed(ids=list(taken), sellers=sellers, breakers=breakers)


def _sellers(column: Column, due: Mapping[str, Any]) -> dict[uuid.UUID, Seller]:
    """The sellers with something due, locked until the claim's commit."""
    skip = "skip locked" if due["only"] is None else ""
    return {
        seller.pk: seller for seller in Seller.objects.raw(_SELLERS.format(column=column, skip=skip), due)
    }


def _rooms(
    sellers: Mapping[uuid.UUID, Seller],
    breakers: Mapping[uuid.UUID, SellerBreaker],
    out: Counter[uuid.UUID],
) -> dict[uuid.UUID, int]:
    """How many more calls each seller may get. Counted after its lock, so that no other claim is missed."""
    now = clock.now()
    taken = leases_count(sellers)
    rooms: dict[uuid.UUID, int] = {}
    for pk, seller in sellers.items():
        busy = max(taken.get(pk, 0), out[pk])
        allowed = breaker_room(breakers.get(pk), now=now)
        rooms[pk] = seller.slots - busy if allowed is None else min(allowed, seller.slots - busy)
    return rooms


def _taken(column: Column, due: Mapping[str, Any]) -> dict[uuid.UUID, uuid.UUID]:
    """Operation to seller, the longest due first."""
    with connection.cursor() as cursor:
        cursor.execute(_TAKE.format(column=column, order=_ORDER[column], lock=_LOCK[column]), due)
        return dict(cursor.fetchall())
