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
from typing import Any, Literal, NamedTuple

from django.db import connection

from tasks_app import clock
from tasks_app.operations.breaker import breaker_probe, breaker_room
from tasks_app.operations.leases import lease_end
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller, SellerBreaker

Column = Literal["send_at", "next_poll_at"]
# What is sent takes turns (turns.py); a look puts an operation behind all others that are due.
_ORDER: dict[Column, str] = {"send_at": "turn_at", "next_poll_at": "next_poll_at"}
# Looks come in the index's own order, so that no more of them are read than there is room for.
_TIE: dict[Column, str] = {"send_at": ", t.id", "next_poll_at": ""}
# A send moves its operation; a look may as well find that somebody has moved it.
_LOCK: dict[Column, str] = {"send_at": "for no key update skip locked", "next_poll_at": ""}
_DUE = """t.{column} <= %(by)s and t.status = any(%(statuses)s)
        and t.id not in (select l.id from tasks_app_calllease l where l.until >= %(now)s)
        and (%(only)s::uuid is null or t.id = %(only)s)"""
_SELLER = ", ".join(f"s.{f.column}" for f in Seller._meta.concrete_fields if f.name != "capabilities")
# Lateral with a limit: one look into the index for each seller, however much is due.
_SELLERS = f"""
select {_SELLER} from tasks_app_seller s cross join lateral (
    select from tasks_app_operation t where t.seller_id = s.id and {_DUE} limit 1) o
 order by s.id for no key update of s {{skip}}
"""  # noqa: S608 - names of ours
_BREAKER = ", ".join(f"b.{f.column}" for f in SellerBreaker._meta.concrete_fields)
_ROOMS = f"""
select s.id, (select count(*) from tasks_app_calllease l where l.seller_id = s.id and l.until >= %s),
       {_BREAKER}
  from unnest(%s::uuid[]) s (id) left join tasks_app_sellerbreaker b on b.seller_id = s.id
"""  # noqa: S608
_TAKE = f"""
with due as (
  select o.*, s.seller_id from unnest(%(sellers)s::uuid[], %(free)s::int[]) s (seller_id, free)
   cross join lateral (
     select t.id, t.{{order}} as due, t.task_id, t.webhook_token, t.account_id from tasks_app_operation t
      where t.seller_id = s.seller_id and {_DUE}
      order by t.{{order}}{{tie}} limit s.free {{lock}}) o
   order by o.due limit %(limit)s),
leased as (
  insert into tasks_app_calllease (id, seller_id, until) select id, seller_id, %(until)s from due
      on conflict (id) do update set until = excluded.until)
select d.id, d.seller_id, d.task_id, d.webhook_token, a.reference::text
  from due d left join tasks_app_account a on a.id = d.account_id order by d.due
"""  # noqa: S608


class Due(NamedTuple):
    """One operation leased for a call; what a look at it needs."""

    id: uuid.UUID
    seller_id: uuid.UUID
    task_id: str
    sealed_token: str | None  # our webhook's, still encrypted
    account: str | None  # the account's reference, JSON


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """Operations leased for a call, the longest due first, with their sellers and breakers by id."""

    due: Sequence[Due]
    sellers: Mapping[uuid.UUID, Seller]
    breakers: Mapping[uuid.UUID, SellerBreaker]

    def operations(self, due: Sequence[Due] | None = None) -> list[Operation]:
        """All of them, or those named, in their order, each with its seller."""
        wanted = [one.id for one in (self.due if due is None else due)]
        found = Operation.objects.select_related("account").in_bulk(wanted) if wanted else {}
        for operation in found.values():
            operation.seller = self.sellers[operation.seller_id]
        return [found[pk] for pk in wanted]


_NOTHING = Claimed(due=[], sellers={}, breakers={})


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
    rooms, breakers = _rooms(sellers, out or Counter())
    if column == "send_at":
        # Nothing goes out to a seller that is off: what is due is refused, whatever its slots.
        rooms |= {pk: limit for pk, seller in sellers.items() if not seller.active}
    free = {pk: min(room, limit) for pk, room in rooms.items() if room > 0}
    if not free:
        return _NOTHING
    rooms_left = {"sellers": list(free), "free": list(free.values()), "limit": limit, "until": lease_end()}
    taken = _taken(column, {**due, **rooms_left})
    for seller_id in {one.seller_id for one in taken} & breakers.keys():
        breaker_probe(breakers[seller_id], until=lease_end())
    return Claimed(due=taken, sellers=sellers, breakers=breakers)


def _sellers(column: Column, due: Mapping[str, Any]) -> dict[uuid.UUID, Seller]:
    """The sellers with something due, locked until the claim's commit."""
    skip = "skip locked" if due["only"] is None else ""
    return {
        seller.pk: seller for seller in Seller.objects.raw(_SELLERS.format(column=column, skip=skip), due)
    }


def _rooms(
    sellers: Mapping[uuid.UUID, Seller], out: Counter[uuid.UUID]
) -> tuple[dict[uuid.UUID, int], dict[uuid.UUID, SellerBreaker]]:
    """How many more calls each seller may get, and the breakers of those that have failed. Read after the
    sellers' lock, so that no other claim is missed."""
    now = clock.now()
    rooms, breakers = {}, {}
    with connection.cursor() as cursor:
        cursor.execute(_ROOMS, [now, list(sellers)])
        found = cursor.fetchall()
    for pk, leased, *breaker in found:
        if breaker[0] is not None:
            breakers[pk] = SellerBreaker(*breaker)
        left = sellers[pk].slots - max(leased, out[pk])
        allowed = breaker_room(breakers.get(pk), now=now)
        rooms[pk] = left if allowed is None else min(allowed, left)
    return rooms, breakers


def _taken(column: Column, due: Mapping[str, Any]) -> list[Due]:
    """The longest due first."""
    order = {"order": _ORDER[column], "tie": _TIE[column], "lock": _LOCK[column]}
    with connection.cursor() as cursor:
        cursor.execute(_TAKE.format(column=column, **order), due)
        return [Due(*row) for row in cursor.fetchall()]
