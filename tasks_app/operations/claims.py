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
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection

from tasks_app import clock
from tasks_app.ids import new_id
from tasks_app.lifecycle.prepared import prepared_rows
from tasks_app.operations.breaker import breaker_probe, breaker_room, breaker_unprobe
from tasks_app.operations.claim_statements import (
    AS_EVER,
    BREAKER_FIELDS,
    LET_PASS,
    LOOKS,
    PLANS,
    SELLER_FIELDS,
    SELLER_OF,
    SENDS,
    TO_CALL,
    Column,
)
from tasks_app.operations.lease import CallLease
from tasks_app.operations.leases import Lease, is_live, leases_release
from tasks_app.operations.models import Operation
from tasks_app.operations.turns import AGED
from tasks_app.sellers.models import SECRET_COLUMNS, Seller, SellerBreaker
from tasks_app.troubles.rows import each_row, held_back
from tasks_app.troubles.works import work_on

_LEFT = 8  # this part of a batch is never one seller's
_ANY = 2**31 - 1
WORK = work_on("calls", "operation")  # what of them raises is put back (tasks_app.troubles)
_PROBES = work_on("breakers_probed", "seller")
_SELLER_NAMES = frozenset(field.attname for field in SELLER_FIELDS)
_SECRETS = [(at, field) for at, field in enumerate(SELLER_FIELDS) if field.name in SECRET_COLUMNS]
_BREAKER_NAMES = [field.attname for field in BREAKER_FIELDS]
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
    passed: Collection[uuid.UUID] = frozenset()  # those that have a place although their seller is off
    probes: frozenset[uuid.UUID] = frozenset()  # sellers whose probe was marked for one of these

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
        """Give back what is not called for, the probe of a seller that none of it is called at too; `called`:
        operations among them, each once."""
        if len(called) == len(self.due):
            return
        kept = set(called)
        leases_release([self.lease(one.id) for one in self.due if one.id not in kept])
        for seller_id in self.probes - {one.seller_id for one in self.due if one.id in kept}:
            breaker_unprobe(self.breakers[seller_id])


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
        columns = self.columns[len(SELLER_FIELDS) :]
        return SellerBreaker.from_db(connection.alias, _BREAKER_NAMES, columns) if columns[0] else None

    @property
    def seller(self) -> Seller:
        """Of what `prepared_rows` answers: JSON is decoded, but what is encrypted is not opened."""
        values = list(self.columns[: len(SELLER_FIELDS)])
        for at, field in _SECRETS:
            values[at] = field.to_python(values[at])
        return Seller.from_db(connection.alias, _SELLER_NAMES, values)


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
        prepared_rows(SELLER_OF, [only])
    _plan(PLANS[column])
    held = _hold(column, due)
    if not held:
        _plan(AS_EVER)
        return _NOTHING
    breakers = {pk: breaker for pk, one in held.items() if (breaker := one.breaker) is not None}
    slots = {pk: one.slots for pk, one in held.items()}
    read = next(iter(held.values()))
    rooms = _rooms(slots, breakers, out, now=read.now)
    due |= {"at": read.now, "ran_out": read.ran_out}
    off = {pk: rooms[pk] for pk, one in held.items() if column == "send_at" and not one.active}
    passed, waiting = _let_pass(due, _left_by_all(off, slots)) if off else (frozenset(), ())
    due["mine"] = [*mine, *waiting]
    # The rest that is due to a seller that is off is refused, which takes no place.
    slots |= dict.fromkeys(off, _ANY)
    rooms |= dict.fromkeys(off, _ANY)
    with _planned_anew(column, partial(_looks if column == "next_poll_at" else _sends, due, slots)) as take:
        if batch is None:
            free = {pk: min(room, limit) for pk, room in rooms.items() if room > 0}
            taken = take(free) if free else []
        else:
            taken = _in_turn(column, take, rooms, slots, out, limit=limit, batch=batch)
    sellers = {pk: held[pk].seller for pk in {one.seller_id for one in taken}}
    leased = Claimed(call=call, due=taken, sellers=sellers, breakers=breakers, passed=passed)
    return _probed(leased, but=off)


def _let_pass(
    due: Mapping[str, Any], rooms: Mapping[uuid.UUID, int]
) -> tuple[frozenset[uuid.UUID], list[uuid.UUID]]:
    """Of what is due to sellers that are off, and people let pass: what has a place, within slots and breaker
    as at any other seller, and what waits for one. `rooms`: of each such seller, over all processes."""
    left = Counter(rooms)
    passed, waiting = set(), []
    for pk, seller_id in prepared_rows(LET_PASS, {**due, "off": list(rooms)}):
        if left[seller_id] > 0:
            left[seller_id] -= 1
            passed.add(pk)
        else:
            waiting.append(pk)
    return frozenset(passed), waiting


def _hold(column: Column, due: Mapping[str, Any]) -> dict[uuid.UUID, _Held]:
    """The sellers of whom something is due, locked until the commit; none that somebody else holds."""
    rows = prepared_rows(TO_CALL[column], due)
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
            _plan(PLANS[column])
        in_order = False
        return take(free)

    yield taken
    if in_order:
        _plan(AS_EVER)


def _plan(how: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"select {how}")


def _probed(leased: Claimed, *, but: Collection[uuid.UUID]) -> Claimed:
    """Those of them that may go out: where one is a probe and that cannot be marked, its seller waits. `but`:
    sellers that are off, of whom only what people let pass goes out."""
    breakers = {pk: one for pk, one in leased.breakers.items() if _is_open(one)}
    if not breakers:
        return leased
    calls = [one for one in leased.due if one.seller_id not in but or one.id in leased.passed]
    asked = {one.seller_id for one in calls if one.seller_id in breakers}
    marked: set[uuid.UUID] = set()

    def mark(seller_id: uuid.UUID) -> int:
        if breaker_probe(breakers[seller_id]):
            marked.add(seller_id)
        return 1

    each_row(_PROBES, asked, mark)
    late = {one.id for one in calls if one.seller_id in asked - marked}
    left = [one for one in leased.due if one.id not in late]
    leased.release_but([one.id for one in left])
    return replace(leased, due=left, probes=frozenset(marked))


def _is_open(breaker: SellerBreaker) -> bool:
    return breaker.state != SellerBreaker.State.CLOSED


def _longest_not_called(column: Column, rooms: Mapping[uuid.UUID, int]) -> dict[uuid.UUID, int]:
    """By when this process last claimed of each: where there is room for few, all sellers have it in turn."""
    return {pk: rooms[pk] for pk in sorted(rooms, key=lambda pk: _called.get((column, pk), 0))}


def _in_turn(
    column: Column,
    take: Take,
    rooms: Mapping[uuid.UUID, int],
    slots: Mapping[uuid.UUID, int],
    out: Mapping[uuid.UUID, int],
    *,
    limit: int,
    batch: int,
) -> list[Due]:
    """What `take` takes of each seller's share of `limit`; what is left by one of whom less was due, or whose
    slots others have, is shared out among the others. So no more is read than there is a place for."""
    taken: list[Due] = []
    out = Counter(out)
    rooms = _longest_not_called(column, rooms)
    given = shares(rooms, out, limit=limit, batch=batch)
    is_first = True
    while given:
        found = take(given)
        taken += found
        counts = Counter(one.seller_id for one in found)
        out += counts
        _called.update({(column, pk): next(_turns) for pk in counts})
        rooms = {pk: room - counts[pk] for pk, room in rooms.items() if counts[pk] == given.get(pk, 0)}
        given = shares(rooms, out, limit=limit - len(taken), batch=batch)
        if given and is_first:
            # Else each whose slots others have would be given a place, and found to have none, by itself.
            rooms = _left_by_all(rooms, slots)
            given = shares(rooms, out, limit=limit - len(taken), batch=batch)
        is_first = False
    return taken


def _left_by_all(rooms: Mapping[uuid.UUID, int], slots: Mapping[uuid.UUID, int]) -> dict[uuid.UUID, int]:
    """What of the rooms the calls of all processes leave, in the same order."""
    live = CallLease.objects.filter(is_live(), seller__in=rooms)
    out = Counter(live.values_list("seller_id", flat=True))
    return {pk: min(room, slots[pk] - out[pk]) for pk, room in rooms.items()}


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
        put_back = held_back(_PROBES).filter(row__in=list(slots))
        rooms |= dict.fromkeys(put_back.values_list("row", flat=True), 0)
    return rooms


def _looks(
    due: Mapping[str, Any], slots: Mapping[uuid.UUID, int], free: Mapping[uuid.UUID, int]
) -> list[Due]:
    """What is to be looked at, of each seller so much."""
    return _taken(LOOKS, due, _places(slots, free))


def _sends(
    due: Mapping[str, Any], slots: Mapping[uuid.UUID, int], free: Mapping[uuid.UUID, int]
) -> list[Due]:
    """What is to be sent, of each seller so much; of its places every second is for aged work first."""
    parts = {
        "aged": due["now"] - AGED,
        "odd": [_claimed[pk] % 2 for pk in free],
        "aged_first": sum(_claimed[pk] for pk in free) % 2 == 0,
    }
    taken = _taken(SENDS, due, {**_places(slots, free), **parts})
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
