"""Forgetting old reports: what still waits is kept, however old."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import connection

from tasks_app import clock
from tasks_app.reconciliation.models import ReconciliationRun

_AT_ONCE = 500
_SLACK = timedelta(hours=1)


def reports_prune() -> int:
    """Delete runs, and resolved findings that are found no more, older than settings.RECONCILE_KEEP, some in
    each call, in steps of an hour. The latest run stays. Answers how many rows."""
    before = clock.now() - settings.RECONCILE_KEEP
    oldest = ReconciliationRun.objects.order_by("id").values_list("asked_at", flat=True).first()
    if oldest is None or oldest >= before - _SLACK:
        return 0
    with connection.cursor() as cursor:
        cursor.execute("select fd_reconciliation_forget(%s, %s)", [before, _AT_ONCE])
        return int(cursor.fetchone()[0])
