"""How long a seller takes to answer, from what it did lately; with too few answers there is no estimate.

Source: document 000, "User Communication", without its invented "2-4 hours".
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import connection
from django.db.models import Count, DurationField, ExpressionWrapper, F

from tasks_app import clock
from tasks_app.desk import text
from tasks_app.operations.models import SEEN_LATER, SETTLED, Operation
from tasks_app.sellers.selectors import Percentile

_LATEST = 100
_RECENT = timedelta(days=90)
# The same rows as `estimate_of`, for several sellers: one range of the index each.
_OF_MANY = """
select s.id, count(*), percentile_cont(0.5) within group (order by o.took),
       percentile_cont(0.9) within group (order by o.took)
  from unnest(%s::uuid[]) as s (id) cross join lateral (
    select settled_at - sent_at as took from tasks_app_operation
     where seller_id = s.id and task_type = %s and settled_by = any(%s) and status = any(%s)
       and settled_at >= %s and sent_at is not null
     order by settled_at desc limit %s) o
 group by s.id
"""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Time from sending to settling, of `count` answers; the times are None below the minimum sample."""

    count: int
    median: timedelta | None
    ninetieth: timedelta | None


def estimate_of(*, seller_id: uuid.UUID, task_type: str) -> Estimate:
    """Median and 90th percentile of the seller's latest 100 answers to this task in 90 days.

    Only answers that did not come with the reply to the call count: what was answered at once tells nothing
    of one that was not. One index range, whatever else is stored.
    """
    later = Operation.objects.filter(
        seller_id=seller_id,
        task_type=task_type,
        settled_by__in=SEEN_LATER,
        status__in=SETTLED,
        settled_at__gte=clock.now() - _RECENT,
        sent_at__isnull=False,
    ).order_by("-settled_at")
    took = ExpressionWrapper(F("settled_at") - F("sent_at"), output_field=DurationField())
    found = Operation.objects.filter(pk__in=later.values("pk")[:_LATEST]).aggregate(
        count=Count("pk"),
        median=Percentile(took, fraction=0.5, output_field=DurationField()),
        ninetieth=Percentile(took, fraction=0.9, output_field=DurationField()),
    )
    if found["count"] < settings.ESTIMATE_SAMPLE:
        return Estimate(count=found["count"], median=None, ninetieth=None)
    return Estimate(**found)


def estimates_of(*, sellers: Collection[uuid.UUID], task_type: str) -> dict[uuid.UUID, Estimate]:
    """Seller to its estimate for a task, without those that have none; one query."""
    if not sellers:
        return {}
    since = clock.now() - _RECENT
    with connection.cursor() as cursor:
        cursor.execute(_OF_MANY, [list(sellers), task_type, list(SEEN_LATER), list(SETTLED), since, _LATEST])
        rows = cursor.fetchall()
    return {
        seller: Estimate(count=count, median=median, ninetieth=ninetieth)
        for seller, count, median, ninetieth in rows
        if count >= settings.ESTIMATE_SAMPLE
    }


def estimate_words(estimate: Estimate) -> str:
    """Half of its last 12 answers came within 3 h, nine in ten within 20 h; or that there is none yet."""
    if estimate.median is None or estimate.ninetieth is None:
        answers = (
            "no answer" if not estimate.count else f"{estimate.count} answer{'s' * (estimate.count != 1)}"
        )
        return f"No estimate yet: {answers} so far, {settings.ESTIMATE_SAMPLE} are needed."
    return (
        f"Half of its last {estimate.count} answers came within {text.duration(estimate.median)}, "
        f"nine in ten within {text.duration(estimate.ninetieth)}."
    )
