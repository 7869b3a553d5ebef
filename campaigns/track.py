"""How long sellers take, out of real purchases."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from django.db.models import Q

from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.people.models import User
from tasks_app.people.scope import visible

_LATEST = 200


@dataclass(frozen=True, kw_only=True)
class Purchase:
    """One purchase that was answered or became overdue. `took`: from sending to its confirmation, None where
    it was not confirmed."""

    late: bool
    took: timedelta | None


def purchases(viewer: User, seller: uuid.UUID) -> list[Purchase]:
    """The seller's latest, as the viewer's teams know it, oldest first; one query."""
    rows = visible(Operation.objects.filter(seller=seller, task_type="create_media_buy"), viewer)
    rows = rows.filter(Q(settled_at__isnull=False) | Q(overdue_at__isnull=False)).order_by("-pk")
    found = rows.values_list("status", "sent_at", "settled_at", "overdue_at")[:_LATEST]
    return [
        Purchase(
            late=overdue is not None, took=end - sent if status == O.COMPLETED and sent and end else None
        )
        for status, sent, end, overdue in reversed(found)
    ]


def middle(spans: Sequence[timedelta]) -> timedelta | None:
    """The median, None of nothing."""
    return timedelta(seconds=median(span.total_seconds() for span in spans)) if spans else None
