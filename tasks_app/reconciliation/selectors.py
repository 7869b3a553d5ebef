"""Reading runs and findings: each person sees those of their teams, operators also those of nobody's."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.people.scope import in_scope
from tasks_app.reconciliation.models import ReconciliationFinding


def findings_of(viewer: User) -> QuerySet[ReconciliationFinding]:
    """What `viewer` may see, newest first."""
    rows = ReconciliationFinding.objects.all()
    if viewer.is_superuser:
        return rows
    seen = in_scope(ReconciliationFinding, viewer)
    if viewer.has_perm(STEER_OPERATION):
        seen |= Q(team__isnull=True)
    return rows.filter(seen)
