"""Refused deliveries: answered, logged, counted; so many of an hour are kept as rows, so that a flood fills
nothing."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import connection
from django.db.models import Sum

from tasks_app import clock, ids
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.answer import Answer
from tasks_app.webhooks.models import SenderTally, WebhookDelivery
from tasks_app.webhooks.rates import source_admit, window_start

log = structlog.get_logger(__name__)
_HOUR = timedelta(hours=1)
# Counted and, while there are few, kept: one round trip, one commit.
_RECORD = """
with counted as (
    insert into tasks_app_sendertally as t (sender, starts, used) values (%s, %s, 1)
    on conflict (sender, starts) do update set used = t.used + 1 returning used
)
insert into tasks_app_webhookdelivery
    (id, seller_id, at, source, key, fingerprint, verdict, reason, task_id, operation_ref, status, key_id)
select %s, %s, %s, %s, '', %s, %s, %s, '', '', '', '' from counted where used <= %s
"""


def delivery_refuse(
    *, seller: Seller | None, source: str, reason: str, status: int, fingerprint: str = ""
) -> Answer:
    """Refuse one delivery with HTTP `status`, and record it.

    A source that was refused too often of late is told so (429), whatever else is wrong. `fingerprint` is
    empty where the body was not read.
    """
    headers = {"WWW-Authenticate": f'Signature error="{reason}"'} if status == 401 else {}
    wait = source_admit(source)
    if wait is not None:
        status, headers = 429, {"Retry-After": str(wait)}
        reason = f"webhook_rate_limited: {reason}"
    log.warning(
        "webhook_refused", seller=seller.slug if seller else "", code=reason, status=status, source=source
    )
    _record(seller, source, reason, fingerprint)
    return Answer(status=status, word=reason, headers=headers)


def delivery_postpone(*, seller: Seller, source: str, wait: int, fingerprint: str) -> Answer:
    """Tell a seller who is beyond its own allowance when to come again."""
    log.warning("webhook_refused", seller=seller.slug, code="webhook_rate_limited", status=429, source=source)
    _record(seller, source, "webhook_rate_limited", fingerprint)
    return Answer(status=429, word="webhook_rate_limited", headers={"Retry-After": str(wait)})


def refused_count(*, since: datetime) -> int:
    """How many deliveries were refused in the hours since then, whether kept as rows or not."""
    counted = SenderTally.objects.filter(sender__startswith="refused:", starts__gte=since)
    return int(counted.aggregate(Sum("used"))["used__sum"] or 0)


def _record(seller: Seller | None, source: str, reason: str, fingerprint: str) -> None:
    now = clock.now()
    with connection.cursor() as cursor:
        cursor.execute(
            _RECORD,
            [
                f"refused:{seller.pk if seller else ''}",
                window_start(now, _HOUR),
                ids.new_id(),
                seller.pk if seller else None,
                now,
                source[:45],
                fingerprint,
                WebhookDelivery.Verdict.REFUSED,
                reason[:200],
                settings.WEBHOOK_REFUSED_ROWS,
            ],
        )
