"""Forgetting events that everybody has had: the audit trail is what is kept for good."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import connection
from django.db.models import Q

from tasks_app import clock
from tasks_app.events.bus import subscribers
from tasks_app.events.models import EventStream, EventSubscription

_EVERY = timedelta(hours=1)
_AT_ONCE = 2000
# The owner's: none younger than a day goes, none that a subscriber has not passed or a delivery waits for.
_FORGET = "select fd_events_forget(%s, %s)"

log = structlog.get_logger(__name__)


def events_prune() -> int:
    """Once an hour: delete events older than settings.EVENT_KEEP that every subscriber has passed and no
    delivery waits for, some in each call until none is left. Answers how many.

    Events are kept for a subscriber that is away from the code, too, until the owner deletes its row (a
    migration does, in the change that takes the subscriber away); the log names it.
    """
    now = clock.now()
    due = EventStream.objects.filter(Q(pruned_at__isnull=True) | Q(pruned_at__lte=now - _EVERY))
    if not due.update(pruned_at=now):
        return 0
    away = _away()
    if away:
        log.warning("events_kept_for_subscribers_away", subscribers=away)
    deleted = _delete(before=now - settings.EVENT_KEEP)
    if deleted == _AT_ONCE:
        EventStream.objects.update(pruned_at=None)
    return deleted


def _away() -> list[str]:
    here = [one.name for one in subscribers()]
    return list(EventSubscription.objects.exclude(pk__in=here).values_list("pk", flat=True))


def _delete(*, before: datetime) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_FORGET, [before, _AT_ONCE])
        return int(cursor.fetchone()[0])
