"""Sellers' health from what was observed: one statement for each kind of evidence, for all sellers at once.

Each reads at most a fixed number of the seller's latest rows by an index, whatever else is stored.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import connection

from tasks_app import clock
from tasks_app.database_clock import DATABASE_NOW
from tasks_app.desk.items import plural
from tasks_app.ids import first_id_at
from tasks_app.operations import webhook_health
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.lookup import NOT_FOUND
from tasks_app.operations.models import READS
from tasks_app.sellers.health import Calls, Out, Outcomes, SellerHealth, breakers_of, health_register
from tasks_app.sellers.learnt import Learnt, learnt_register
from tasks_app.sellers.models import Seller

CALLS_WITHIN, CALLS_LATEST = timedelta(hours=24), 1000
SETTLED_WITHIN, SETTLED_LATEST = timedelta(days=30), 1000

IS_READ = "task_type in ({})".format(", ".join(f"'{task}'" for task in sorted(READS)))

_CALLS = """
select s.id, c.* from unnest(%(sellers)s::uuid[]) s(id) cross join lateral (
  select count(*) as count, count(*) filter (where kind <> 'answer' or error_code <> '') as errors,
         percentile_cont(array[0.5, 0.9, 1]) within group (order by duration_ms) as ms
    from (select kind, error_code, duration_ms from tasks_app_observation o
           where o.seller_id = s.id and o.duration_ms is not null and o.id >= %(first)s
           order by o.id desc limit %(latest)s) recent) c
"""
_CODES = """
select s.id, c.* from unnest(%(sellers)s::uuid[]) s(id) cross join lateral (
  select case when error_code <> '' then error_code else upper(kind) end as code, count(*) as count
    from (select kind, error_code from tasks_app_observation o
           where o.seller_id = s.id and o.duration_ms is not null and o.id >= %(first)s
           order by o.id desc limit %(latest)s) recent
   where kind <> 'answer' or error_code <> '' group by 1) c
 order by c.count desc, c.code
"""
# A word in the place of the task's status that is none of AdCP's.
_OWN_STATUSES = """
select raw_status as word, count(*) as count
  from (select kind, status, raw_status, error_code from tasks_app_observation o
         where o.seller_id = %(seller)s and o.duration_ms is not null and o.id >= %(first)s
         order by o.id desc limit %(latest)s) recent
 where kind = 'answer' and status = 'unknown' and error_code = ''
   and raw_status not in ('', 'unknown', %(nothing)s)
 group by 1 order by 2 desc, 1 limit 5
"""
_ENDED = """
    (select task_type, status, overdue_at, settled_by, settled_at, sent_at, {is_change} as is_change
       from tasks_app_operation o
      where o.seller_id = s.id and o.settled_at is not null and o.settled_at >= %(since)s
        and o.sent_at is not null and {only}
      order by o.settled_at desc limit %(latest)s)"""
# Of each kind so many: what is bought and changed does not go under in what is read.
_RECENT = " union all ".join(
    _ENDED.format(is_change=is_change, only=only)
    for is_change, only in (("true", f"not ({IS_READ})"), ("false", IS_READ))
)
_OUTCOMES = f"""
select s.id, c.* from unnest(%(sellers)s::uuid[]) s(id) cross join lateral (
  select task_type as task, bool_or(is_change) as is_change, count(*) as count,
         count(*) filter (where status = 'completed') as completed,
         count(*) filter (where status = 'rejected') as rejected,
         count(*) filter (where overdue_at is not null) as overdue,
         count(*) filter (where settled_by = 'webhook') as by_webhook,
         percentile_cont(array[0.5, 0.9]) within group (order by settled_at - sent_at) as took
    from ({_RECENT}) recent
   group by task_type) c
 order by c.task
"""  # noqa: S608 (our own words)
# Where our answer to what the seller asked was given and has not left, the seller waits for us.
_LATE = f"deadline_at <= {DATABASE_NOW} and not {Continuation.held_sql('o')}"
_OUT = f"""
select seller_id as id, count(*) as open,
       count(*) filter (where not ({IS_READ}) and sent_at is not null
                          and (status = 'timed_out' or ({_LATE}))) as overdue,
       (select count(*) from tasks_app_calllease l
         where l.seller_id = o.seller_id and l.until >= {DATABASE_NOW}) as calling,
       min(coalesce(sent_at, created_at)) as oldest_at
  from tasks_app_operation o where settled_at is null and seller_id = any(%(sellers)s) group by seller_id
"""  # noqa: S608 (our own words)


def register() -> None:
    """Called when the application starts."""
    health_register(sellers_health)
    learnt_register(statuses_of_its_own)


def sellers_health(sellers: Sequence[Seller]) -> dict[uuid.UUID, SellerHealth]:
    """Health by seller: calls of the last 24 hours, changes and reads settled in 30 days, the latest 1,000 of
    each; webhooks as they are judged; what is open now."""
    ids = [seller.pk for seller in sellers]
    calls, outcomes, out = _calls(ids), _outcomes(ids), _out(ids)
    rates, breakers = webhook_health.rates(sellers), breakers_of(sellers)
    return {
        seller.pk: SellerHealth(
            calls=calls.get(seller.pk, Calls()),
            outcomes=tuple(outcomes.get(seller.pk, ())),
            webhooks=rates[seller.pk],
            out=out.get(seller.pk, Out()),
            breaker=breakers.get(seller.pk),
        )
        for seller in sellers
    }


def statuses_of_its_own(seller: Seller) -> list[Learnt]:
    """What the seller called its tasks in the latest 1,000 calls of 24 hours, and AdCP does not."""
    given = {
        "seller": seller.pk,
        "first": first_id_at(clock.now() - CALLS_WITHIN),
        "latest": CALLS_LATEST,
        "nothing": NOT_FOUND,
    }
    return [
        Learnt(
            what=f"Called a task “{row['word']}”, which is no status of AdCP "
            f"({plural(row['count'], 'time')} in 24 h)",
            so="It is looked at on; reconcile calls it unclear, and a person settles it",
        )
        for row in _rows(_OWN_STATUSES, given)
    ]


def _calls(ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Calls]:
    given = {
        "sellers": list(ids),
        "first": first_id_at(clock.now() - CALLS_WITHIN),
        "latest": CALLS_LATEST,
    }
    codes: dict[uuid.UUID, list[tuple[str, int]]] = defaultdict(list)
    for row in _rows(_CODES, given):
        codes[row["id"]].append((row["code"], row["count"]))
    found = {}
    for row in _rows(_CALLS, given):
        median, ninetieth, slowest = row["ms"] or (None, None, None)
        found[row["id"]] = Calls(
            count=row["count"],
            errors=row["errors"],
            median_ms=median,
            ninetieth_ms=ninetieth,
            slowest_ms=slowest,
            codes=tuple(codes[row["id"]]),
        )
    return found


def _outcomes(ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, list[Outcomes]]:
    given = {"sellers": list(ids), "since": clock.now() - SETTLED_WITHIN, "latest": SETTLED_LATEST}
    found: dict[uuid.UUID, list[Outcomes]] = defaultdict(list)
    for row in _rows(_OUTCOMES, given):
        seller_id = row.pop("id")
        median, ninetieth = row.pop("took") or (None, None)
        found[seller_id].append(Outcomes(**row, median=median, ninetieth=ninetieth))
    return found


def _out(ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Out]:
    rows = _rows(_OUT, {"sellers": list(ids), "frozen": clock.frozen()})
    return {row.pop("id"): Out(**row) for row in rows}


def _rows(statement: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, given)
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
