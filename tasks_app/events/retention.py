"""Forgetting events that everybody has had: the audit trail is what is kept for good."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection
from django.db.models import Min, Q

from tasks_app import clock
from tasks_app.events.bus import subscribers
from tasks_app.events.models import EventStream, EventSubscription

_EVERY = timedelta(hours=1)
_AT_ONCE = 2000
_DELETE = """
delete from tasks_app_outboxevent where id in (
  select e.id from tasks_app_outboxevent e
   where e.position <= %s and e.at < %s
     and not exists (select from tasks_app_eventdelivery d where d.event_id = e.id)
   limit %s)
"""


def events_prune() -> int:
    """Once an hour: delete events older than settings.EVENT_KEEP that every subscriber of this version has
    passed and no delivery waits for, some in each call until none is left. Answers how many.

    A subscriber that is away from the code for longer than that continues with the oldest kept.
    """
    now = clock.now()
    due = EventStream.objects.filter(Q(pruned_at__isnull=True) | Q(pruned_at__lte=now - _EVERY))
    if not due.update(pruned_at=now):
        return 0
    deleted = _delete(passed=_passed_by_all(), before=now - settings.EVENT_KEEP)
    if deleted == _AT_ONCE:
        EventStream.objects.update(pruned_at=None)
    return deleted


def _passed_by_all() -> int:
    known = EventSubscription.objects.filter(pk__in=[one.name for one in subscribers()])
    least = known.aggregate(least=Min("position"))["least"]
    return int(EventStream.objects.get(pk=1).head if least is None else least)


def _delete(*, passed: int, before: datetime) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_DELETE, [passed, before, _AT_ONCE])
        return int(cursor.rowcount)
