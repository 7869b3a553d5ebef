"""Publishing: committed outbox rows get their position, and whoever listens is woken once for all of them.

An id says nothing about the order of commits: a lower one may commit after a higher one. So nobody reads
by id. A row is without a position until a transaction that sees it committed gives it one; numberings take
turns (the stream's row lock, held until their commit), so positions become visible in their own order and a
reader that asks for what is beyond its position misses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import transaction

from tasks_app.events.bus import subscribers
from tasks_app.lifecycle.prepared import prepared_row

CHANNEL = "fd_events"
AT_ONCE = 1000
_ANY_NEW = "select exists (select from tasks_app_outboxevent where position is null)"
# A statement of its own before the numbering, which then sees all that the one before it committed.
_TURN = "select head from tasks_app_eventstream where id = 1 for update"
# Ids of one entity rise with its seq: an entry is only written after the one before it (fd_audit_append).
_NUMBER = """
with fresh as materialized (
  select id from tasks_app_outboxevent where position is null order by id limit %s
), numbered as (
  update tasks_app_outboxevent e set position = %s + f.n
    from (select id, row_number() over (order by id) as n from fresh) f where e.id = f.id
  returning e.type, e.position
), by_type as (
  select type, count(*) as events, max(position) as head from numbered group by type
), counted as (
  insert into tasks_app_eventcount as c (type, total) select type, events from by_type
  on conflict (type) do update set total = c.total + excluded.total
), in_all as (
  select coalesce(sum(events), 0)::bigint as events, max(head) as head, array_agg(type) as types from by_type
), moved as (
  update tasks_app_eventstream t set head = a.head from in_all a where t.id = 1 and a.events > 0
), begun as (
  insert into tasks_app_eventsubscription (name, position)
  select name, %s from unnest(%s::text[]) name on conflict do nothing
)
select events, types, case when events > 0 then pg_notify(%s, head::text) end from in_all
"""


@dataclass(frozen=True)
class Numbered:
    """How many events were given their position, and which types are among them."""

    events: int
    types: frozenset[str] = frozenset()


def events_publish(*, limit: int = AT_ONCE) -> int:
    """As `events_number`; answers how many were numbered."""
    return events_number(limit=limit).events


def events_number(*, limit: int = AT_ONCE) -> Numbered:
    """Number up to `limit` committed events, in one commit that also wakes listeners of `fd_events`.

    Subscribers seen for the first time begin here.
    """
    if prepared_row(_ANY_NEW, []) == (False,):
        return Numbered(0)
    with transaction.atomic():
        head = _row(_TURN)[0]
        names = [one.name for one in subscribers()]
        events, types, _ = _row(_NUMBER, limit, head, head, names, CHANNEL)
    return Numbered(events, frozenset(types or ()))


def _row(statement: str, *parameters: object) -> tuple[Any, ...]:
    row = prepared_row(statement, parameters)
    if row is None:  # the migration that made the table made its one row
        raise RuntimeError("The stream of events has no row")
    return row
