"""What is kept of deliveries, and how long.

A key stays bound to its body, and the body stays, for the seller's horizon from the first delivery. Then the
body goes and the key is cut; who sent what when, its digest and what became of it stay. What contradicts a
settled result keeps its body, where it had room (`room`): a person may still have to look. What came under a
bound key with another body keeps it for the longest horizon (a conflict about an operation has its own copy).
Refused and repeated deliveries go after settings.WEBHOOK_KEEP.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Left

from tasks_app import clock
from tasks_app.database_clock import database_now
from tasks_app.sellers.models import LONGEST_HORIZON
from tasks_app.troubles.rows import held_back, together
from tasks_app.troubles.works import work_on
from tasks_app.webhooks.bind import KEY_CHARS
from tasks_app.webhooks.models import WebhookDelivery

Verdict = WebhookDelivery.Verdict
_WORK = work_on("deliveries_forgotten", "webhook_delivery")
_AT_ONCE = 1000


def deliveries_forget() -> int:
    """Let go of what is past its time, so many at once. Answers how many rows were changed or removed."""
    now = clock.now()
    changed = _keys_forget() + _contradictions_forget(now)
    with connection.cursor() as cursor:  # the owner's: none younger than a day goes
        cursor.execute("select fd_deliveries_forget(%s, %s)", [now - settings.WEBHOOK_KEEP, _AT_ONCE])
        return changed + int(cursor.fetchone()[0])


def _keys_forget() -> int:
    """By the database's clock, which refuses to let go of what is not past its time (`fd_delivery_said`)."""
    past = WebhookDelivery.objects.filter(bound_until__lte=database_now()).exclude(verdict=Verdict.RECEIVED)

    def forget(ids: Sequence[uuid.UUID]) -> list[int]:
        rows = WebhookDelivery.objects.filter(pk__in=ids)
        rows.exclude(verdict=Verdict.CONFLICT).update(body=None)
        return [rows.update(bound_until=None, key=Left("key", KEY_CHARS))]

    return sum(together(_WORK, _first(past.order_by("bound_until")), forget))


def _contradictions_forget(now: datetime) -> int:
    past = WebhookDelivery.objects.filter(
        verdict=Verdict.KEY_CONFLICT, body__isnull=False, at__lte=now - LONGEST_HORIZON
    )

    def forget(ids: Sequence[uuid.UUID]) -> list[int]:
        return [WebhookDelivery.objects.filter(pk__in=ids).update(body=None)]

    return sum(together(_WORK, _first(past.order_by("at")), forget))


def _first(past: QuerySet[WebhookDelivery]) -> QuerySet[WebhookDelivery, uuid.UUID]:
    return past.exclude(pk__in=held_back(_WORK)).values_list("pk", flat=True)[:_AT_ONCE]
