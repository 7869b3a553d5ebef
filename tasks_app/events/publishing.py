"""Publishing: committed outbox rows get their position, and whoever listens is woken once for all of them.

An id says nothing about the order of commits: a lower one may commit after a higher one. So nobody reads
by id. A row is without a position until a transaction that sees it committed gives it one; numberings take
turns (the stream's row lock, held until their commit), so positions become visible in their own order and a
reader that asks for what is beyond its position misses nothing.
"""

from __future__ import annotations

from django.db import connection, transaction

from tasks_app.events.bus import subscribers
from tasks_app.events.models import EventStream, EventSubscription
from tasks_app.lifecycle.models import OutboxEvent

CHANNEL = "fd_events"
_AT_ONCE = 1000
# Ids of one entity rise with its seq: an entry is only written after the one before it (fd_audit_append).
_NUMBER = """
with fresh as materialized (
  select id from tasks_app_outboxevent where position is null order by id limit %s
), numbered as (
  update tasks_app_outboxevent e set position = %s + f.n
    from (select id, row_number() over (order by id) as n from fresh) f where e.id = f.id
  returning e.type, e.position
), counted as (
  insert into tasks_app_eventcount as c (type, total)
  select type, count(*) from numbered group by type
  on conflict (type) do update set total = c.total + excluded.total
)
select count(*), max(position) from numbered
"""


def events_publish(*, limit: int = _AT_ONCE) -> int:
    """Number up to `limit` committed events, in one commit that also wakes listeners of `fd_events`.

    Subscribers seen for the first time begin here. Answers how many were numbered.
    """
    if not OutboxEvent.objects.filter(position__isnull=True).exists():
        return 0
    with transaction.atomic():
        stream = EventStream.objects.select_for_update().get(pk=1)
        EventSubscription.objects.bulk_create(
            [EventSubscription(name=one.name, position=stream.head) for one in subscribers()],
            ignore_conflicts=True,
        )
        with connection.cursor() as cursor:
            cursor.execute(_NUMBER, [limit, stream.head])
            count, head = cursor.fetchone()
            if not count:
                return 0
            EventStream.objects.filter(pk=1).update(head=head)
            cursor.execute("select pg_notify(%s, %s)", [CHANNEL, str(head)])
    return int(count)
