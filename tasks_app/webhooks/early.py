"""Deliveries that wait: for the reply they belong to (early), or for a worker (received in a burst)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import connection

from tasks_app import clock, stopping
from tasks_app.ids import first_id_at
from tasks_app.lanes import WorkerLane
from tasks_app.operations.converge import on_bound
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish_many, publish_or_leave
from tasks_app.operations.sharing import rows_in_shares
from tasks_app.operations.sweep import chore_register
from tasks_app.session_locks import session_lock, session_unlock
from tasks_app.troubles.rows import each_row, held_back, together
from tasks_app.troubles.works import work_on
from tasks_app.waking import wake_workers
from tasks_app.webhooks.apply import received_apply_many, waiting_apply
from tasks_app.webhooks.models import WebhookDelivery
from tasks_app.webhooks.nonces import nonces_forget
from tasks_app.webhooks.rates import tallies_forget
from tasks_app.webhooks.retention import deliveries_forget

Verdict = WebhookDelivery.Verdict
# A delivery of a task that nobody knows after this time is of none of ours (AdCP: retry horizon).
LOOK_BACK = timedelta(hours=24)
_AT_ONCE = 100
_SLICE_S = 20  # a task of the queue takes no more after so long; the next one does
_LOCK = 0xF117_3B57
DRAIN = "tasks_app.webhooks.early.received_drain"
_TOGETHER = 25  # in one commit
_OF_ONE = 25  # of one operation: whoever applies them holds up every call's lease and answer meanwhile
# Operations that were seen, or made, since (only these can have learned their task), or put back before. It
# begins there whatever the planner knows of how many deliveries wait: each step is made row by row. Where
# more wait than a look takes, sellers take turns.
_BOUND = """
with seen as materialized (
  select b.operation_id as id from tasks_app_observation b where b.id >= %(since)s
  union select n.id from tasks_app_operation n where n.id >= %(since)s
  union select t.row from tasks_app_rowtrouble t where t.work = %(work)s)
select id from (
select o.id, row_number() over (partition by o.seller_id order by o.id) as turn from seen
 cross join lateral (
   select o.id, o.seller_id, o.task_id from tasks_app_operation o where o.id = seen.id limit 1) o
 where o.task_id <> '' and o.id not in (
     select r.row from tasks_app_rowtrouble r where r.work = %(work)s and r.again_at > %(now)s)
   and (select true from tasks_app_webhookdelivery d
         where d.seller_id = o.seller_id and d.task_id = o.task_id and d.verdict = 'early'
           and d.body is not null limit 1)
) due order by turn, id limit %(most)s
"""
_OVERLAP = timedelta(minutes=3)  # clocks of hosts differ, and a transaction takes up to two
_looked_at: datetime | None = None
_EARLY = work_on("early_applied", "operation")
_RECEIVED = work_on("received_applied", "operation")


def register() -> None:
    """Called when the application starts."""
    on_bound(_early_bound)
    chore_register("early_applied", early_apply_due)
    chore_register("received_woken", received_wake)
    chore_register("nonces_forgotten", nonces_forget)
    chore_register("tallies_forgotten", tallies_forget)
    chore_register("deliveries_forgotten", deliveries_forget)


def early_apply(operation: Operation, *, most: int = _AT_ONCE) -> int:
    """Observe the first of the deliveries that waited for this operation's task_id, in the order they came.
    Answers how many."""
    waiting = WebhookDelivery.objects.filter(
        seller=operation.seller, task_id=operation.task_id, verdict=Verdict.EARLY, body__isnull=False
    )
    return _apply(operation.pk, list(waiting.order_by("id").values_list("pk", flat=True)[:most]))


def received_apply(operation: Operation) -> int:
    """Observe what was received of this operation in a burst. Answers how many deliveries."""
    waiting = WebhookDelivery.objects.filter(operation=operation.pk, verdict=Verdict.RECEIVED)
    return _apply(operation.pk, list(waiting.order_by("id").values_list("pk", flat=True)))


def early_apply_due() -> int:
    """Apply what still waits although its task is known: delivery and reply were committed in the same
    moment, or the worker that bound the task was killed. Answers how many.

    What was seen since the last look is gone through, not what waits: strangers' tasks may be many. What was
    put back is tried again when its own time has come, and holds the next look of nobody else. A seller may
    have sent thousands about one task: of each operation so many are applied at once (`_OF_ONE`), of all
    together about `_AT_ONCE`; what is left is the next look's.
    """
    global _looked_at
    now = clock.now()
    begin = now - LOOK_BACK
    if _looked_at is not None and _looked_at <= now:
        begin = max(begin, _looked_at - _OVERLAP)
    with connection.cursor() as cursor:
        cursor.execute(_BOUND, {"since": first_id_at(begin), "work": _EARLY, "now": now, "most": _AT_ONCE})
        ids = [pk for (pk,) in cursor.fetchall()]
    left, all_done = _AT_ONCE, len(ids) < _AT_ONCE

    def apply(operation_id: uuid.UUID) -> int:
        nonlocal left, all_done
        most = max(1, min(left, _OF_ONE))  # or one that had trouble would pass as handled
        applied = _early_apply(operation_id, most)
        left, all_done = left - applied, all_done and applied < most
        return applied

    applied = each_row(_EARLY, ids, apply, commits=True)
    if all_done:
        _looked_at = now
    return applied


def _early_bound(operation: Operation) -> None:
    """One that cannot be applied is put back: what was observed beside it stands."""
    each_row(_EARLY, [operation.pk], lambda _: early_apply(operation, most=_OF_ONE), commits=True)


def _early_apply(operation_id: uuid.UUID, most: int) -> int:
    return early_apply(Operation.objects.select_related("seller").get(pk=operation_id), most=most)


def received_wake() -> int:
    """A chore of the sweep: wake a worker of the lane where a burst waits. Answers 1 when it did."""
    if not WebhookDelivery.objects.filter(verdict=Verdict.RECEIVED).exists():
        return 0
    return wake_workers(DRAIN, lane=WorkerLane.WEBHOOKS)


def received_drain() -> int:
    """Apply what was received in bursts until nothing waits, for a while; one process at a time, as two would
    wait for each other's rows. A task of the queue. Answers how many deliveries."""
    if not session_lock(_LOCK):
        return 0
    until, applied = time.monotonic() + _SLICE_S, 0
    try:
        while time.monotonic() < until and not stopping.asked():
            now = received_apply_due()
            if not now:
                break
            applied += now
    finally:
        session_unlock(_LOCK)
    return applied


def received_apply_due() -> int:
    """Apply the oldest of what was received in bursts, of each seller its share. Answers how many
    deliveries."""
    waiting = WebhookDelivery.objects.filter(verdict=Verdict.RECEIVED, operation__isnull=False)
    waiting = waiting.exclude(operation__in=held_back(_RECEIVED))
    shared = rows_in_shares(waiting, seller="seller", since="at", limit=_AT_ONCE)
    due = list(shared.values_list("operation_id", "pk"))
    return sum(_apply_together(dict(due[i : i + _TOGETHER])) for i in range(0, len(due), _TOGETHER))


def _apply_together(waiting: dict[uuid.UUID, uuid.UUID]) -> int:
    """In one commit where that goes well, else one by one: one that raises stops no other."""

    def apply(ids: Sequence[uuid.UUID]) -> list[uuid.UUID]:
        return received_apply_many({pk: waiting[pk] for pk in ids})

    done = together(_RECEIVED, waiting, apply)
    publish_many(operation_ids=done)
    return len(done)


def _apply(operation_id: uuid.UUID, ids: list[uuid.UUID]) -> int:
    applied = sum(waiting_apply(operation_id=operation_id, delivery_id=one) for one in ids)
    if applied:
        publish_or_leave(operation_id=operation_id)
    return applied
