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
_ANY = 2**31 - 1
WORK = work_on("calls", "operation")  # what of them raises is put back (tasks_app.troubles)
_PROBES = work_on("breakers_probed", "seller")
_IS_DUE = """t.{column} <= %(by)s and t.status = any(%(statuses)s)
        and t.id not in (select l.id from {out})
        and t.id not in (select r.row from tasks_app_rowtrouble r
                          where r.work = %(work)s and r.again_at > %(now)s)
        and t.id <> all(%(mine)s::uuid[])"""
_DUE: dict[Column, str] = {
    "next_poll_at": _IS_DUE,
    "send_at": _IS_DUE + " and (%(only)s::uuid is null or t.id = %(only)s)",
}
_TO_LOOK_AT, _TO_SEND = (due.format(column=column, out="live l") for column, due in _DUE.items())
_READ = [field for field in Seller._meta.concrete_fields if field.name != "capabilities"]
_READ_NAMES = frozenset(field.attname for field in _READ)
_SECRETS = [(at, field) for at, field in enumerate(_READ) if field.name in SECRET_COLUMNS]
_SELLER = ", ".join(f"s.{field.column}" for field in _READ)
_BREAKER = ", ".join(f"b.{field.column}" for field in SellerBreaker._meta.concrete_fields)
_BREAKER_NAMES = [field.attname for field in SellerBreaker._meta.concrete_fields]


def _planning(**values: str | None) -> str:
    """What sets these until the transaction's end; None: as the session has it."""
    told = {name: "null" if value is None else f"'{value}'" for name, value in values.items()}
    return " || ' ' || ".join(f"set_config('{name}', {value}, true)" for name, value in told.items())


# Until the next ANALYZE the planner may take a crowd that became due for a few rows, and then it prefers to
# read and sort all of them to the index's own order, of which only the first are read. So looks are planned
# for that order whatever it knows, and once. Sends come in no index's order: each claim is planned for its
# moment, for one plan for all takes a third of everything for due, and walks all that a seller ever had.
# The same goes for the statement that holds the sellers. The claim sets it back, for what its transaction
# reads then. Nothing is compiled: before PostgreSQL 18 a sort that is forbidden and made all the same counts
# as a very long one.
_AS_EVER = _planning(enable_bitmapscan=None, enable_sort=None, jit=None, plan_cache_mode=None)
_PLANS: dict[Column, str] = {
    "next_poll_at": _planning(enable_sort="off", jit="off", plan_cache_mode="force_generic_plan"),
    "send_at": _planning(enable_bitmapscan="off", jit="off", plan_cache_mode="force_custom_plan"),
}
# Lateral with a limit: one look into the index for each seller, however much is due. The order says so to the
# planner whatever it knows. Whether a lease ran out is asked of anybody's: where one runs out between this
# statement and the claim, the claim fails, and the next one takes it over.
_HELD = f"""
select {DATABASE_NOW},
       exists (select from tasks_app_calllease l where l.until < {DATABASE_NOW}), held.*
  from (
    select s.id, s.slots, s.active, {_SELLER}, {_BREAKER}
      from tasks_app_seller s left join tasks_app_sellerbreaker b on b.seller_id = s.id
     cross join lateral (
       select from tasks_app_operation t where t.seller_id = s.id and {{due}}
        order by t.{{column}} limit 1) o
     order by s.id for no key update of s skip locked) held
"""  # noqa: S608
_OUT = f"tasks_app_calllease l where l.until >= {DATABASE_NOW}"
_TO_CALL = {
    column: _HELD.format(due=due.format(column=column, out=_OUT), column=column)
    for column, due in _DUE.items()
}
# Waited for, so that what is read of it then is read after whoever held it.
_SELLER_OF = """
select from tasks_app_seller where id = (select seller_id from tasks_app_operation where id = %s)
   for no key update
"""
# Calls that are out are counted when their sellers are held: the statement before may have missed a claim
# that ended as it began. `free`: how many more calls each seller gets, no more than its slots leave.
_FREE = """
with live as materialized (select l.id, l.seller_id from tasks_app_calllease l where l.until >= %(at)s),
free as materialized (
  select s.seller, s.seller_id, greatest(0, least(s.free, s.slots - coalesce(b.calls, 0))) as free
    from unnest(%(sellers)s::uuid[], %(free)s::int[], %(slots)s::int[])
           with ordinality s (seller_id, free, slots, seller)
    left join (select seller_id, count(*) as calls from live group by seller_id) b
      on b.seller_id = s.seller_id)"""
# A lease that ran out is taken over, for this call: the older one's answer gives nothing of it back. Where
# none has run out nobody looks for one, which is half of what it takes to write a lease.
_TAKEN_OVER = "on conflict (id) do update set call = excluded.call, until = excluded.until"
_LEASE = f"""leased as (
  insert into tasks_app_calllease (id, seller_id, call, until)
      select id, seller_id, %(call)s::uuid, {DATABASE_NOW} + make_interval(secs => %(lease_s)s) from due
      {{taken_over}})
select d.seller, d.id, d.task_id, d.task_type, d.webhook_token,
       (select a.reference from tasks_app_account a where a.id = d.account_id)
  from due d
 where (select {_AS_EVER}) is not null
 order by d.place
"""  # noqa: S608


def _leasing(picks: str) -> dict[bool, str]:
    """The statement that leases what it picks, by whether leases of its sellers have run out."""
    return {True: picks.replace("{taken_over}", _TAKEN_OVER), False: picks.replace("{taken_over}", "")}


_COLUMNS = "s.seller, t.id, t.seller_id, t.task_id, t.task_type, t.webhook_token, t.account_id"
# Looks come in the index's own order, so that no more of them are read than there is room for. Nothing locks
# them: a look may as well find that somebody has moved its operation.
_LOOKS = _leasing(f"""{_FREE},
due as (
  select o.* from free s cross join lateral (
     select {_COLUMNS}, t.next_poll_at as place from tasks_app_operation t
      where t.seller_id = s.seller_id and {_TO_LOOK_AT}
      order by t.next_poll_at limit s.free) o
   order by o.place limit %(limit)s),
{_LEASE}""")  # noqa: S608
# What is sent is locked. Aged work, by its turn, has so many of a seller's slots; the others, and what it
# leaves, go by priority, then turn. Both take turns in the order of calls too, which the limit cuts.
_SENDS = _leasing(f"""{_FREE},
aged as (
  select o.* from free s cross join lateral (
     select {_COLUMNS}, t.turn_at from tasks_app_operation t
      where t.seller_id = s.seller_id and {_TO_SEND} and t.turn_at <= %(aged)s
      order by t.turn_at, t.id limit (s.free + 1 - (%(odd)s::int[])[s.seller]) / 2
        for no key update skip locked) o),
rest as (
  select o.* from free s cross join lateral (
     select {_COLUMNS}, t.turn_at, t.priority from tasks_app_operation t
      where t.seller_id = s.seller_id and {_TO_SEND} and t.id not in (select a.id from aged a)
      order by t.priority, t.turn_at, t.id
      limit s.free - (select count(*) from aged a where a.seller_id = s.seller_id)
        for no key update skip locked) o),
due as (
  select seller, id, seller_id, task_id, task_type, webhook_token, account_id,
         2 * row_number() over (order by turn_at, id) - %(aged_first)s::int as place from aged
  union all
  select seller, id, seller_id, task_id, task_type, webhook_token, account_id,
         2 * row_number() over (order by priority, turn_at, id) - 1 + %(aged_first)s::int from rest
   order by place limit %(limit)s),
{_LEASE}""")  # noqa: S608
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


class _Held(NamedTuple):
    """A seller that this claim holds."""

    now: datetime
    ran_out: bool  # some lease has, anybody's
    id: uuid.UUID
    slots: int
    active: bool
    columns: Sequence[Any]  # of itself, then of its breaker

    @property
    def breaker(self) -> SellerBreaker | None:
        """None where it never failed."""
        columns = self.columns[len(_READ) :]
        return SellerBreaker.from_db(connection.alias, _BREAKER_NAMES, columns) if columns[0] else None

    @property
    def seller(self) -> Seller:
        """Of what `prepared_rows` answers: JSON is decoded, but what is encrypted is not opened."""
        values = list(self.columns[: len(_READ)])
        for at, field in _SECRETS:
            values[at] = field.to_python(values[at])
        return Seller.from_db(connection.alias, _READ_NAMES, values)


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
    if only is not None:
        prepared_rows(_SELLER_OF, [only])
    _plan(_PLANS[column])
    held = _hold(column, due)
    if not held:
        _plan(_AS_EVER)
        return _NOTHING
    breakers = {pk: breaker for pk, one in held.items() if (breaker := one.breaker) is not None}
    # Nothing new goes out to a seller that is off: what is due is refused, whatever its slots and breaker.
    off = {pk: _ANY for pk, one in held.items() if column == "send_at" and not one.active}
    slots = {pk: one.slots for pk, one in held.items()} | off
    read = next(iter(held.values()))
    rooms = _rooms(slots, breakers, out, now=read.now) | off
    due |= {"at": read.now, "ran_out": read.ran_out}
    with _planned_anew(column, partial(_looks if column == "next_poll_at" else _sends, due, slots)) as take:
        if batch is None:
            free = {pk: min(room, limit) for pk, room in rooms.items() if room > 0}
            taken = take(free) if free else []
        else:
            taken = _in_turn(column, take, rooms, out, limit=limit, batch=batch)
    sellers = {pk: held[pk].seller for pk in {one.seller_id for one in taken}}
    leased = Claimed(call=call, due=taken, sellers=sellers, breakers=breakers)
    return replace(leased, due=_probed(leased, but=off))


def _hold(column: Column, due: Mapping[str, Any]) -> dict[uuid.UUID, _Held]:
    """The sellers of whom something is due, locked until the commit; none that somebody else holds."""
    rows = prepared_rows(_TO_CALL[column], due)
    return {row[2]: _Held._make((*row[:5], row[5:])) for row in rows}


Take = Callable[[Mapping[uuid.UUID, int]], list[Due]]


@contextmanager
def _planned_anew(column: Column, take: Take) -> Iterator[Take]:
    """`take`, planned in order however often it is called: who holds the sellers has said so for the first
    time, and each time sets it back."""
    in_order = True

    def taken(free: Mapping[uuid.UUID, int]) -> list[Due]:
        nonlocal in_order
        if not in_order:
            _plan(_PLANS[column])
        in_order = False
        return take(free)

    yield taken
    if in_order:
        _plan(_AS_EVER)


def _plan(how: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"select {how}")


def _probed(leased: Claimed, *, but: Collection[uuid.UUID]) -> Sequence[Due]:
    """Those of them that may go out: where one is a probe and that cannot be marked, its seller waits. Nobody
    probes `but`."""
    breakers = {pk: one for pk, one in leased.breakers.items() if _is_open(one) and pk not in but}
    if not breakers:
        return leased.due
    asked = {one.seller_id for one in leased.due if one.seller_id in breakers}
    marked: set[uuid.UUID] = set()

    def mark(seller_id: uuid.UUID) -> int:
        if breaker_probe(breakers[seller_id]):
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
    take: Take,
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
    slots: Mapping[uuid.UUID, int],
    breakers: Mapping[uuid.UUID, SellerBreaker],
    out: Mapping[uuid.UUID, int],
    *,
    now: datetime,
) -> dict[uuid.UUID, int]:
    """How many more calls each seller may get: what its slots leave beside this process's, and its breaker
    allows. What others have out is left to the claim's statement."""
    rooms = {pk: places - out.get(pk, 0) for pk, places in slots.items()}
    for pk, breaker in breakers.items():
        allowed = breaker_room(breaker, now=now)
        if allowed is not None:
            rooms[pk] = min(allowed, rooms[pk])
    if any(_is_open(breaker) for breaker in breakers.values()):
        rooms |= dict.fromkeys(held_back(_PROBES).values_list("row", flat=True), 0)
    return rooms


def _looks(
    due: Mapping[str, Any], slots: Mapping[uuid.UUID, int], free: Mapping[uuid.UUID, int]
) -> list[Due]:
    """What is to be looked at, of each seller so much."""
    return _taken(_LOOKS, due, _places(slots, free))


def _sends(
    due: Mapping[str, Any], slots: Mapping[uuid.UUID, int], free: Mapping[uuid.UUID, int]
) -> list[Due]:
    """What is to be sent, of each seller so much; of its places every second is for aged work first."""
    parts = {
        "aged": due["now"] - AGED,
        "odd": [_claimed[pk] % 2 for pk in free],
        "aged_first": sum(_claimed[pk] for pk in free) % 2 == 0,
    }
    taken = _taken(_SENDS, due, {**_places(slots, free), **parts})
    _claimed.update(one.seller_id for one in taken)
    return taken


def _places(slots: Mapping[uuid.UUID, int], free: Mapping[uuid.UUID, int]) -> dict[str, Any]:
    return {"sellers": list(free), "free": list(free.values()), "slots": [slots[pk] for pk in free]}


def _taken(picks: Mapping[bool, str], due: Mapping[str, Any], places: Mapping[str, Any]) -> list[Due]:
    """In the order in which they are to be called. Their sellers come as numbers: an id is 20 times as much
    to read, and these are here already."""
    sellers = places["sellers"]
    rows = prepared_rows(picks[due["ran_out"]], {**due, **places})
    return [Due(pk, sellers[seller - 1], *look) for seller, pk, *look in rows]
