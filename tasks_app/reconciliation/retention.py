"""Forgetting old reports: what still waits is kept, however old."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings

from tasks_app import clock
from tasks_app.reconciliation.models import ReconciliationFinding, ReconciliationRun

State = ReconciliationRun.State
_AT_ONCE = 500
_SLACK = timedelta(hours=1)


def reports_prune() -> int:
    """Delete runs and resolved findings older than settings.RECONCILE_KEEP, some in each call, in steps of an
    hour. The latest run stays. Answers how many rows."""
    before = clock.now() - settings.RECONCILE_KEEP
    oldest = ReconciliationRun.objects.order_by("id").values_list("asked_at", flat=True).first()
    if oldest is None or oldest >= before - _SLACK:
        return 0
    ended = ReconciliationRun.objects.filter(asked_at__lt=before, state__in=(State.ENDED, State.LOST))
    latest = ReconciliationRun.objects.order_by("-id").values_list("pk", flat=True)[:1]
    runs = list(ended.exclude(pk__in=latest).order_by("id").values_list("pk", flat=True)[:_AT_ONCE])
    findings = list(
        ReconciliationFinding.objects.filter(resolved_at__lt=before)
        .order_by("resolved_at")
        .values_list("pk", flat=True)[:_AT_ONCE]
    )
    ReconciliationFinding.objects.filter(pk__in=findings).delete()
    ReconciliationRun.objects.filter(pk__in=runs).delete()
    return len(runs) + len(findings)
