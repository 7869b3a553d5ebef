"""What is kept of deliveries, and how long.

A key stays bound to its body, and the body stays, for the seller's horizon from the first delivery. Then the
body goes and the key is cut; who sent what when, its digest and what became of it stay. Contradictions keep
their body: a person may still have to look. Refused and repeated deliveries go after settings.WEBHOOK_KEEP.
"""

from __future__ import annotations

from django.conf import settings
from django.db.models.functions import Left

from tasks_app import clock
from tasks_app.webhooks.bind import KEY_CHARS
from tasks_app.webhooks.models import WebhookDelivery

Verdict = WebhookDelivery.Verdict
_AT_ONCE = 1000


def deliveries_forget() -> int:
    """Let go of what is past its time, so many at once. Answers how many rows were changed or removed."""
    now = clock.now()
    past = WebhookDelivery.objects.filter(bound_until__lte=now).exclude(verdict=Verdict.RECEIVED)
    ids = list(past.order_by("bound_until").values_list("pk", flat=True)[:_AT_ONCE])
    if ids:
        rows = WebhookDelivery.objects.filter(pk__in=ids)
        rows.exclude(verdict=Verdict.CONFLICT).update(body=None)
        rows.update(bound_until=None, key=Left("key", KEY_CHARS))
    old = WebhookDelivery.objects.filter(
        verdict__in=(Verdict.REFUSED, Verdict.DUPLICATE), at__lt=now - settings.WEBHOOK_KEEP
    )
    gone = list(old.order_by("at").values_list("pk", flat=True)[:_AT_ONCE])
    if gone:
        WebhookDelivery.objects.filter(pk__in=gone).delete()
    return len(ids) + len(gone)
