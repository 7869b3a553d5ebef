"""Which calls may go out now: what is due, within each seller's slots, which all processes share.

A lease is a call that is out (`leases.py`). Claims of one seller follow one another (its row is locked while
its leases are counted), those of different sellers do not wait for each other. No row is looked at that is
not due, and none but leases is written: what is claimed is known to be so by its lease.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Any, Literal, NamedTuple

from django.conf import settings
from django.db import connection

from tasks_app import clock
from tasks_app.database_clock import DATABASE_NOW
from tasks_app.operations.breaker import breaker_probe, breaker_room
from tasks_app.operations.leases import Lease, leases_release
from tasks_app.operations.models import Operation
from tasks_app.operations.turns import AGED
from tasks_app.sellers.models import Seller, SellerBreaker
from tasks_app.troubles.rows import each_row, held_back
from tasks_app.troubles.works import work_on

Column = Literal["send_at", "next_poll_at"]
_LEFT = 8  # this part of a batch is never one seller's
WORK = work_on("calls", "operation")  # what of them raises is put back (tasks_app.troubles)
_PROBES = work_on("breakers_probed", "seller")
_DUE = f"""t.{{column}} <= %(by)s and t.status = any(%(statuses)s)
        and t.id not in (select l.id from tasks_app_calllease l where l.until >= {DATABASE_NOW})
        and t.id not in (select r.row from tasks_app_rowtrouble r
                          where r.work = %(work)s and r.again_at > %(now)s)
        and (%(only)s::uuid is null or t.id = %(only)s) and t.id <> all(%(mine)s::uuid[])"""  # noqa: S608
_SELLER = ", ".join(f"s.{f.column}" for f in Seller._meta.concrete_fields if f.name != "capabilities")
# Until the next ANALYZE the planner may take a crowd that became due for a few rows, and then it prefers a
# bitmap of all of them to the index's own order, of which only the first are read.
_BITMAPS = "select set_config('enable_bitmapscan', %s, true)"
# Lateral with a limit: one look into the index for each seller, however much is due.
_SELLERS = f"""
select {_SELLER} from tasks_app_seller s cross join lateral (
    select from tasks_app_operation t where t.seller_id = s.id and {_DUE} limit 1) o
 order by s.id for no key update of s {{skip}}
"""  # noqa: S608 - names of ours
_BREAKER = ", ".join(f"b.{f.column}" for f in SellerBreaker._meta.concrete_fields)
_ROOMS = f"""
select s.id, (select count(*) from tasks_app_calllease l
               where l.seller_id = s.id and l.until >= {DATABASE_NOW}),
       {DATABASE_NOW}, {_BREAKER}
  from unnest(%(sellers)s::uuid[]) s (id) left join tasks_app_sellerbreaker b on b.seller_id = s.id
"""  # noqa: S608
_WAITING = f"""
select s.seller_id, count(o.id) from unnest(%(sellers)s::uuid[], %(free)s::int[]) s (seller_id, free)
 cross join lateral (select t.id from tasks_app_operation t
                      where t.seller_id = s.seller_id and {_DUE} limit s.free) o
 group by 1
"""  # noqa: S608
_COLUMNS = "t.id, t.seller_id, t.task_id, t.task_type, t.webhook_token, t.account_id"
# Looks come in the index's own order, so that no more of them are read than there is room for. Nothing locks
# them: a look may as well find that somebody has moved its operation.
_LOOKS = f"""
with due as (
  select o.* from unnest(%(sellers)s::uuid[], %(free)s::int[]) s (seller_id, free)
   cross join lateral (
     select {_COLUMNS}, t.next_poll_at as place from tasks_app_operation t
      where t.seller_id = s.seller_id and {_DUE}
      order by t.next_poll_at limit s.free) o
   order by o.place limit %(limit)s),
"""  # noqa: S608
# What is sent is locked. Aged work, by its turn, has so many of a seller's slots; the others, and what it
# leaves, go by priority, then turn. Both take turns in the order of calls too, which the limit cuts.
_SENDS = f"""
with aged as (
  select o.* from unnest(%(sellers)s::uuid[], %(for_aged)s::int[]) s (seller_id, free)
   cross join lateral (
     select {_COLUMNS}, t.turn_at from tasks_app_operation t
      where t.seller_id = s.seller_id and {_DUE} and t.turn_at <= %(aged)s
      order by t.turn_at, t.id limit s.free for no key update skip locked) o),
rest as (
  select o.* from unnest(%(sellers)s::uuid[], %(free)s::int[]) s (seller_id, free)
   cross join lateral (
     select {_COLUMNS}, t.turn_at, t.priority from tasks_app_operation t
      where t.seller_id = s.seller_id and {_DUE} and t.id not in (select a.id from aged a)
      order by t.priority, t.turn_at, t.id
      limit s.free - (select count(*) from aged a where a.seller_id = s.seller_id)
        for no key update skip locked) o),
due as (
  select id, seller_id, task_id, task_type, webhook_token, account_id,
         2 * row_number() over (order by turn_at, id) - %(aged_first)s::int as place from aged
  union all
  select id, seller_id, task_id, task_type, webhook_token, account_id,
         2 * row_number() over (order by priority, turn_at, id) - 1 + %(aged_first)s::int from rest
   order by place limit %(limit)s),
"""  # noqa: S608
# A lease that ran out is taken over, for this call: the older one's answer gives nothing of it back.
_LEASE = f"""leased as (
  insert into tasks_app_calllease (id, seller_id, call, until)
      select id, seller_id, gen_random_uuid(), {DATABASE_NOW} + make_interval(secs => %(lease_s)s) from due
      on conflict (id) do update set call = excluded.call, until = excluded.until
   returning id, call)
select d.id, l.call, d.seller_id, d.task_id, d.task_type, d.webhook_token, a.reference::text
  from due d join leased l on l.id = d.id left join tasks_app_account a on a.id = d.account_id
 order by d.place
"""  # noqa: S608
# Sends that this process has claimed of each seller: every second slot goes to aged work first, also where
# slots come free one at a time.
_claimed: Counter[uuid.UUID] = Counter()


class Due(NamedTuple):
    """One operation leased for a call; what a look at it needs."""

    id: uuid.UUID
    call: uuid.UUID
    seller_id: uuid.UUID
    task_id: str
    task_type: str
    sealed_token: str | None  # our webhook's, still encrypted
    account: str | None  # the account's reference, JSON

    @property
    def lease(self) -> Lease:
        return Lease(self.id, self.call)


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """Operations leased for a call, in their order, with their sellers and breakers by id."""

    due: Sequence[Due]
    sellers: Mapping[uuid.UUID, Seller]
    breakers: Mapping[uuid.UUID, SellerBreaker]

    @cached_property
    def leases(self) -> Mapping[uuid.UUID, Lease]:
        """By operation."""
        return {one.id: one.lease for one in self.due}

    def operations(self, wanted: Sequence[uuid.UUID]) -> list[Operation]:
        """Those of them, in their order, each with its seller."""
        found = Operation.objects.select_related("account").in_bulk(wanted) if wanted else {}
        for operation in found.values():
            operation.seller = self.sellers[operation.seller_id]
        return [found[pk] for pk in wanted]


_NOTHING = Claimed(due=[], sellers={}, breakers={})


@contextmanager
def _in_order() -> Iterator[None]:
    """What is read within walks indexes in their own order; what the transaction reads later need not."""
    with connection.cursor() as cursor:
        cursor.execute(_BITMAPS, ["off"])
        yield
        cursor.execute(_BITMAPS, ["on"])


@_in_order()
def claim_due(
    *,
    column: Column,
    statuses: Sequence[str],
    due_by: datetime,
    limit: int,
    out: Counter[uuid.UUID] | None = None,
    only: uuid.UUID | None = None,
    batch: int | None = None,
    mine: Collection[uuid.UUID] = (),
) -> Claimed:
    """Lease what is due by `column` in one of `statuses`, within slots and breakers; in a transaction. What
    is due to be sent is locked too.

    `out`: calls of this process by seller, which count even where their lease has run out. With `only` that
    operation alone is taken, and its seller waited for; else a seller that somebody claims from is left out.
    `batch`: how many calls this process makes at once; of them no seller has more than its share while others
    are due, nor ever all (`shares`). `mine`: what this process is calling for, which is not due to it though
    its lease ran out.
    """
    now = clock.now()
    due = {
        "by": due_by,
        "statuses": list(statuses),
        "now": now,
        "only": only,
        "mine": list(mine),
        "work": WORK,
        "frozen": clock.frozen(),
    }
    sellers = _sellers(column, due)
    if not sellers:
        return _NOTHING
    rooms, breakers = _rooms(sellers, out or Counter())
    if column == "send_at":
        # Nothing goes out to a seller that is off: what is due is refused, whatever its slots.
        rooms |= {pk: limit for pk, seller in sellers.items() if not seller.active}
    free = _places_free(rooms, out or Counter(), limit=limit, batch=batch)
    if not free:
        return _NOTHING
    if batch is not None and sum(free.values()) >= limit:
        free = shares(_waiting(column, {**due, **_places(free)}), out or Counter(), limit=limit, batch=batch)
    if not free:
        return _NOTHING
    rooms_left = {**_places(free), "limit": limit, "lease_s": settings.OPERATION_LEASE_S}
    taken = (
        _sends({**due, **rooms_left}, free) if column == "send_at" else _taken(_LOOKS, {**due, **rooms_left})
    )
    return Claimed(due=_probed(taken, breakers), sellers=sellers, breakers=breakers)


def _probed(taken: Sequence[Due], breakers: Mapping[uuid.UUID, SellerBreaker]) -> Sequence[Due]:
    """Those of them that may go out: where one is a probe and that cannot be marked, its seller waits."""
    asked = {
        one.seller_id for one in taken if one.seller_id in breakers and _is_open(breakers[one.seller_id])
    }
    marked: set[uuid.UUID] = set()

    def mark(seller_id: uuid.UUID) -> int:
        breaker_probe(breakers[seller_id])
        marked.add(seller_id)
        return 1

    each_row(_PROBES, asked, mark)
    left = asked - marked
    if not left:
        return taken
    leases_release([one.lease for one in taken if one.seller_id in left])
    return [one for one in taken if one.seller_id not in left]


def _is_open(breaker: SellerBreaker) -> bool:
    return breaker.state != SellerBreaker.State.CLOSED


def shares(
    waiting: Mapping[uuid.UUID, int], out: Mapping[uuid.UUID, int], *, limit: int, batch: int
) -> dict[uuid.UUID, int]:
    """How many of `limit` new calls each seller gets of those that wait: one after the other for who has the
    fewest out, so that a slow seller with many slots keeps nobody waiting. A part of the batch is left by
    each, for those that become due meanwhile."""
    most = _most(batch)
    given = dict.fromkeys(waiting, 0)
    heap = [(out.get(pk, 0), place, pk) for place, pk in enumerate(waiting) if waiting[pk]]
    heapify(heap)
    for _ in range(limit):
        if not heap or heap[0][0] >= most:
            break
        taken, place, pk = heappop(heap)
        given[pk] += 1
        if given[pk] < waiting[pk]:
            heappush(heap, (taken + 1, place, pk))
    return {pk: number for pk, number in given.items() if number}


def _most(batch: int) -> int:
    """How many calls of a batch may be one seller's."""
    return batch - batch // _LEFT


def _places_free(
    rooms: Mapping[uuid.UUID, int], out: Mapping[uuid.UUID, int], *, limit: int, batch: int | None
) -> dict[uuid.UUID, int]:
    """How many new calls each seller may get; who may get none is left out."""
    free = {pk: min(room, limit) for pk, room in rooms.items()}
    if batch is not None:
        free = {pk: min(number, _most(batch) - out.get(pk, 0)) for pk, number in free.items()}
    return {pk: number for pk, number in free.items() if number > 0}


def _places(free: Mapping[uuid.UUID, int]) -> dict[str, Any]:
    return {"sellers": list(free), "free": list(free.values())}


def _waiting(column: Column, due: Mapping[str, Any]) -> dict[uuid.UUID, int]:
    """How much of each seller is due, up to its free slots."""
    with connection.cursor() as cursor:
        cursor.execute(_WAITING.format(column=column), due)
        return dict(cursor.fetchall())


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
    rooms, breakers = {}, {}
    with connection.cursor() as cursor:
        cursor.execute(_ROOMS, {"frozen": clock.frozen(), "sellers": list(sellers)})
        found = cursor.fetchall()
    for pk, leased, now, *breaker in found:
        if breaker[0] is not None:
            breakers[pk] = SellerBreaker(*breaker)
        left = sellers[pk].slots - max(leased, out[pk])
        allowed = breaker_room(breakers.get(pk), now=now)
        rooms[pk] = left if allowed is None else min(allowed, left)
    if any(_is_open(breaker) for breaker in breakers.values()):
        rooms |= dict.fromkeys(held_back(_PROBES).values_list("row", flat=True), 0)
    return rooms, breakers


def _sends(due: Mapping[str, Any], free: Mapping[uuid.UUID, int]) -> list[Due]:
    """What is to be sent; of each seller's free slots every second is for aged work first."""
    shares = {
        "aged": due["now"] - AGED,
        "for_aged": [(slots + 1 - _claimed[pk] % 2) // 2 for pk, slots in free.items()],
        "aged_first": sum(_claimed[pk] for pk in free) % 2 == 0,
    }
    taken = _taken(_SENDS, {**due, **shares})
    _claimed.update(one.seller_id for one in taken)
    return taken


def _taken(picks: str, due: Mapping[str, Any]) -> list[Due]:
    """In the order in which they are to be called."""
    column = "next_poll_at" if picks is _LOOKS else "send_at"
    with connection.cursor() as cursor:
        cursor.execute((picks + _LEASE).format(column=column), due)
        return [Due(*row) for row in cursor.fetchall()]
