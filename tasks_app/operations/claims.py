"""Which calls may go out now: what is due, within each seller's slots, which all processes share.

A lease is a call that is out (`leases.py`). Claims of one seller follow one another (its row is locked while
its leases are counted), those of different sellers do not wait for each other. No row is looked at that is
not due, and none but leases is written: what is claimed is known to be so by its lease.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import count
from typing import Any, Literal, NamedTuple

from django.conf import settings
from django.db import connection

from tasks_app import clock
from tasks_app.database_clock import DATABASE_NOW
from tasks_app.ids import new_id
from tasks_app.lifecycle.prepared import prepared_rows
from tasks_app.operations.breaker import breaker_probe, breaker_room
from tasks_app.operations.leases import Lease, leases_release
from tasks_app.operations.models import Operation
from tasks_app.operations.turns import AGED
from tasks_app.sellers.models import SECRET_COLUMNS, Seller, SellerBreaker
from tasks_app.troubles.rows import each_row, held_back
from tasks_app.troubles.works import work_on

Column = Literal["send_at", "next_poll_at"]
_LEFT = 8  # this part of a batch is never one seller's
WORK = work_on("calls", "operation")  # what of them raises is put back (tasks_app.troubles)
_PROBES = work_on("breakers_probed", "seller")
_IS_DUE = f"""t.{{column}} <= %(by)s and t.status = any(%(statuses)s)
        and t.id not in (select l.id from tasks_app_calllease l where l.until >= {DATABASE_NOW})
        and t.id not in (select r.row from tasks_app_rowtrouble r
                          where r.work = %(work)s and r.again_at > %(now)s)
        and t.id <> all(%(mine)s::uuid[])"""  # noqa: S608
_TO_LOOK_AT = _IS_DUE.format(column="next_poll_at")
_TO_SEND = _IS_DUE.format(column="send_at") + " and (%(only)s::uuid is null or t.id = %(only)s)"
_READ = [field for field in Seller._meta.concrete_fields if field.name != "capabilities"]
_SELLER = ", ".join(f"s.{field.column}" for field in _READ)
# Until the next ANALYZE the planner may take a crowd that became due for a few rows, and then it prefers a
# bitmap of all of them to the index's own order, of which only the first are read. And each claim is planned
# for its moment: one plan for all takes a third of everything for due, and walks all that a seller ever had.
_PLANNED = "select set_config('enable_bitmapscan', %s, true), set_config('plan_cache_mode', %s, true)"
# Lateral with a limit: one look into the index for each seller, however much is due.
_SELLERS = """
select s.id from tasks_app_seller s cross join lateral (
    select from tasks_app_operation t where t.seller_id = s.id and {due} limit 1) o
 order by s.id for no key update of s {skip}
"""
# Also for what is out, or waits after trouble: past that the walk goes once, for the looks themselves.
_TO_ASK = _SELLERS.format(due="t.next_poll_at <= %(by)s", skip="skip locked")
_TO_SEND_TO = _SELLERS.format(due=_TO_SEND, skip="skip locked")
_TO_SEND_ONE_TO = _SELLERS.format(due=_TO_SEND, skip="")
_BREAKER = ", ".join(f"b.{f.column}" for f in SellerBreaker._meta.concrete_fields)
_BREAKER_NAMES = [f.attname for f in SellerBreaker._meta.concrete_fields]
_ROOMS = f"""
select (select count(*) from tasks_app_calllease l where l.seller_id = s.id and l.until >= {DATABASE_NOW}),
       {DATABASE_NOW}, {_SELLER}, {_BREAKER}
  from tasks_app_seller s left join tasks_app_sellerbreaker b on b.seller_id = s.id
 where s.id = any(%(sellers)s::uuid[]) order by s.id
"""  # noqa: S608
# A lease that ran out is taken over, for this call: the older one's answer gives nothing of it back.
_LEASE = f"""leased as (
  insert into tasks_app_calllease (id, seller_id, call, until)
      select id, seller_id, %(call)s::uuid, {DATABASE_NOW} + make_interval(secs => %(lease_s)s) from due
      on conflict (id) do update set call = excluded.call, until = excluded.until)
select d.id, d.seller_id, d.task_id, d.task_type, d.webhook_token, a.reference
  from due d left join tasks_app_account a on a.id = d.account_id
 order by d.place
"""  # noqa: S608
_COLUMNS = "t.id, t.seller_id, t.task_id, t.task_type, t.webhook_token, t.account_id"
# Looks come in the index's own order, so that no more of them are read than there is room for. Nothing locks
# them: a look may as well find that somebody has moved its operation.
_LOOKS = f"""
with due as (
  select o.* from unnest(%(sellers)s::uuid[], %(free)s::int[]) s (seller_id, free)
   cross join lateral (
     select {_COLUMNS}, t.next_poll_at as place from tasks_app_operation t
      where t.seller_id = s.seller_id and {_TO_LOOK_AT}
      order by t.next_poll_at limit s.free) o
   order by o.place limit %(limit)s),
{_LEASE}"""  # noqa: S608
# What is sent is locked. Aged work, by its turn, has so many of a seller's slots; the others, and what it
# leaves, go by priority, then turn. Both take turns in the order of calls too, which the limit cuts.
_SENDS = f"""
with aged as (
  select o.* from unnest(%(sellers)s::uuid[], %(for_aged)s::int[]) s (seller_id, free)
   cross join lateral (
     select {_COLUMNS}, t.turn_at from tasks_app_operation t
      where t.seller_id = s.seller_id and {_TO_SEND} and t.turn_at <= %(aged)s
      order by t.turn_at, t.id limit s.free for no key update skip locked) o),
rest as (
  select o.* from unnest(%(sellers)s::uuid[], %(free)s::int[]) s (seller_id, free)
   cross join lateral (
     select {_COLUMNS}, t.turn_at, t.priority from tasks_app_operation t
      where t.seller_id = s.seller_id and {_TO_SEND} and t.id not in (select a.id from aged a)
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
{_LEASE}"""  # noqa: S608
# Sends that this process has claimed of each seller: every second slot goes to aged work first, also where
# slots come free one at a time.
_claimed: Counter[uuid.UUID] = Counter()
# When this process last claimed of each seller, as a number that grows.
_called: dict[tuple[Column, uuid.UUID], int] = {}
_turns = count(1)


class Due(NamedTuple):
    """One operation leased for a call; what a look at it needs."""

    id: uuid.UUID
    seller_id: uuid.UUID
    task_id: str
    task_type: str
    sealed_token: str | None  # our webhook's, still encrypted
    account: dict[str, Any] | None  # the account's reference


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """Operations leased for a call, in their order, with their sellers and breakers by id."""

    call: uuid.UUID  # of each of their leases
    due: Sequence[Due]
    sellers: Mapping[uuid.UUID, Seller]
    breakers: Mapping[uuid.UUID, SellerBreaker]

    def lease(self, operation_id: uuid.UUID) -> Lease:
        """The lease of one of them."""
        return Lease(operation_id, self.call)

    def operations(self, wanted: Sequence[uuid.UUID]) -> list[Operation]:
        """Those of them, in their order, each with its seller."""
        found = Operation.objects.select_related("account").in_bulk(wanted) if wanted else {}
        for operation in found.values():
            operation.seller = self.sellers[operation.seller_id]
        return [found[pk] for pk in wanted]

    def release_but(self, called: Sequence[uuid.UUID]) -> None:
        """Give back what is not called for; `called`: operations among them, each once."""
        if len(called) < len(self.due):
            kept = set(called)
            leases_release([self.lease(one.id) for one in self.due if one.id not in kept])


_NOTHING = Claimed(call=uuid.UUID(int=0), due=[], sellers={}, breakers={})


@contextmanager
def _in_order() -> Iterator[None]:
    """What is read within walks indexes in their own order; what the transaction reads later need not."""
    with connection.cursor() as cursor:
        cursor.execute(_PLANNED, ["off", "force_custom_plan"])
    yield
    with connection.cursor() as cursor:
        cursor.execute(_PLANNED, ["on", "auto"])


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
    out = out or Counter()
    call = new_id()
    due = {
        "by": due_by,
        "statuses": [str(status) for status in statuses],
        "now": clock.now(),
        "only": only,
        "mine": list(mine),
        "work": WORK,
        "frozen": clock.frozen(),
        "limit": limit,
        "call": call,
        "lease_s": float(settings.OPERATION_LEASE_S),
    }
    one = _TO_SEND_TO if only is None else _TO_SEND_ONE_TO
    held = prepared_rows(_TO_ASK if column == "next_poll_at" else one, due)
    if not held:
        return _NOTHING
    sellers, breakers, rooms = _rooms([pk for (pk,) in held], out)
    if column == "send_at":
        # Nothing goes out to a seller that is off: what is due is refused, whatever its slots.
        rooms |= {pk: limit for pk, seller in sellers.items() if not seller.active}
    take = partial(_looks if column == "next_poll_at" else _sends, due)
    if batch is None:
        free = {pk: min(room, limit) for pk, room in rooms.items() if room > 0}
        taken = take(free) if free else []
    else:
        taken = _in_turn(column, take, rooms, out, limit=limit, batch=batch)
    leased = Claimed(call=call, due=taken, sellers=sellers, breakers=breakers)
    return replace(leased, due=_probed(leased))


def _probed(leased: Claimed) -> Sequence[Due]:
    """Those of them that may go out: where one is a probe and that cannot be marked, its seller waits."""
    breakers = {pk: breaker for pk, breaker in leased.breakers.items() if _is_open(breaker)}
    if not breakers:
        return leased.due
    asked = {one.seller_id for one in leased.due if one.seller_id in breakers}
    marked: set[uuid.UUID] = set()

    def mark(seller_id: uuid.UUID) -> int:
        breaker_probe(breakers[seller_id])
        marked.add(seller_id)
        return 1

    each_row(_PROBES, asked, mark)
    left = [one for one in leased.due if one.seller_id not in asked - marked]
    leased.release_but([one.id for one in left])
    return left


def _is_open(breaker: SellerBreaker) -> bool:
    return breaker.state != SellerBreaker.State.CLOSED


def _longest_not_called(column: Column, rooms: Mapping[uuid.UUID, int]) -> dict[uuid.UUID, int]:
    """By when this process last claimed of each: where there is room for few, all sellers have it in turn."""
    return {pk: rooms[pk] for pk in sorted(rooms, key=lambda pk: _called.get((column, pk), 0))}


def _in_turn(
    column: Column,
    take: Callable[[Mapping[uuid.UUID, int]], list[Due]],
    rooms: Mapping[uuid.UUID, int],
    out: Mapping[uuid.UUID, int],
    *,
    limit: int,
    batch: int,
) -> list[Due]:
    """What `take` takes of each seller's share of `limit`; what is left by one of whom less was due is shared
    out among the others. So no more is read than there is a place for."""
    taken: list[Due] = []
    out = Counter(out)
    rooms = _longest_not_called(column, rooms)
    while given := shares(rooms, out, limit=limit - len(taken), batch=batch):
        found = take(given)
        taken += found
        counts = Counter(one.seller_id for one in found)
        out += counts
        _called.update({(column, pk): next(_turns) for pk in counts})
        rooms = {pk: room - counts[pk] for pk, room in rooms.items() if counts[pk] == given.get(pk, 0)}
    return taken


def shares(
    rooms: Mapping[uuid.UUID, int], out: Mapping[uuid.UUID, int], *, limit: int, batch: int
) -> dict[uuid.UUID, int]:
    """How many of `limit` new calls each seller gets, of as many as it has room for: one after the other for
    who has the fewest out, among equals the first, so that a slow seller with many slots keeps nobody
    waiting. Of a batch a part is left by each, for those that become due meanwhile."""
    most = batch - batch // _LEFT
    had = {pk: out.get(pk, 0) for pk in rooms}

    def given(level: int) -> dict[uuid.UUID, int]:
        """Until each has `level` calls out, as far as it may."""
        return {pk: max(0, min(room, level - had[pk])) for pk, room in rooms.items()}

    level = bisect_right(range(most), limit, key=lambda level: sum(given(level + 1).values()))
    new, above = given(level), given(min(level + 1, most))
    left = limit - sum(new.values())
    for pk in [pk for pk in rooms if above[pk] > new[pk]][:left]:
        new[pk] += 1
    return {pk: number for pk, number in new.items() if number}


def _rooms(
    held: Sequence[uuid.UUID], out: Mapping[uuid.UUID, int]
) -> tuple[dict[uuid.UUID, Seller], dict[uuid.UUID, SellerBreaker], dict[uuid.UUID, int]]:
    """The sellers, the breakers of those that have failed, and how many more calls each may get. Read after
    the sellers' lock, so that no other claim is missed."""
    sellers: dict[uuid.UUID, Seller] = {}
    breakers: dict[uuid.UUID, SellerBreaker] = {}
    rooms: dict[uuid.UUID, int] = {}
    for leased, now, *read in prepared_rows(_ROOMS, {"frozen": clock.frozen(), "sellers": held}):
        seller, breaker = _seller(read), read[len(_READ) :]
        sellers[seller.pk] = seller
        if breaker[0] is not None:
            breakers[seller.pk] = SellerBreaker.from_db(connection.alias, _BREAKER_NAMES, breaker)
        left = seller.slots - max(leased, out.get(seller.pk, 0))
        allowed = breaker_room(breakers.get(seller.pk), now=now)
        rooms[seller.pk] = left if allowed is None else min(allowed, left)
    if any(_is_open(breaker) for breaker in breakers.values()):
        rooms |= dict.fromkeys(held_back(_PROBES).values_list("row", flat=True), 0)
    return sellers, breakers, rooms


def _seller(columns: Sequence[Any]) -> Seller:
    """Of what `prepared_rows` answers for `_READ`: JSON is decoded, but what is encrypted is not opened."""
    values = [
        field.to_python(value) if field.name in SECRET_COLUMNS else value
        for field, value in zip(_READ, columns, strict=False)
    ]
    return Seller.from_db(connection.alias, [field.attname for field in _READ], values)


def _looks(due: Mapping[str, Any], free: Mapping[uuid.UUID, int]) -> list[Due]:
    """What is to be looked at, of each seller so much."""
    return _taken(_LOOKS, {**due, **_places(free)})


def _sends(due: Mapping[str, Any], free: Mapping[uuid.UUID, int]) -> list[Due]:
    """What is to be sent, of each seller so much; of its places every second is for aged work first."""
    parts = {
        "aged": due["now"] - AGED,
        "for_aged": [(places + 1 - _claimed[pk] % 2) // 2 for pk, places in free.items()],
        "aged_first": sum(_claimed[pk] for pk in free) % 2 == 0,
    }
    taken = _taken(_SENDS, {**due, **_places(free), **parts})
    _claimed.update(one.seller_id for one in taken)
    return taken


def _places(free: Mapping[uuid.UUID, int]) -> dict[str, Any]:
    return {"sellers": list(free), "free": list(free.values())}


def _taken(picks: str, due: Mapping[str, Any]) -> list[Due]:
    """In the order in which they are to be called."""
    return list(map(Due._make, prepared_rows(picks, due)))
