"""Subscriber of the event bus that withdraws approvals and changes after their deal has moved."""

from __future__ import annotations

import uuid

from django.db import transaction
from django.db.models import Q

from orders.changes.open_changes import close_changes_of_ended_deal, withdraw_unsent
from orders.models import Deal
from orders.services import deal_locked
from orders.unclaimed.unclaimed_buys import review_after_transition
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.subjects import withdraw_if_obsolete
from tasks_app.events.bus import Event, subscribe
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.operations.models import SETTLED, Operation

_TYPES = ["deal.*", *(f"operation.{status}" for status in sorted(SETTLED))]


def register() -> None:
    """Called when the application starts."""
    subscribe("obsolete_approvals", _TYPES, _handle)


def _handle(event: Event) -> None:
    if event.imported:
        return
    if event.entity_type == "deal":
        close_changes(event.entity_id)
        review_after_transition(event.entity_id)
    withdraw_obsolete_approvals(event.entity_type, event.entity_id)


def withdraw_obsolete_approvals(subject_type: str, subject_id: uuid.UUID) -> None:
    """Withdraw the open approvals of a deal and its operations, or of one operation, that need no decision.

    Each approval is a transaction of its own that locks the approval before its subject, as a decision does.
    """
    about = Q(subject_type=subject_type, subject_id=subject_id)
    if subject_type == "deal":
        operations = Operation.objects.filter(subject_type="deal", subject_id=subject_id)
        about |= Q(subject_type="operation", subject_id__in=operations.values("pk"))
    asked = Approval.objects.filter(about, status=ApprovalStatus.OPEN).order_by("pk")
    ids = list(asked.values_list("pk", flat=True))
    reason = _last_reason(subject_type, subject_id) if ids else ""
    for approval_id in ids:
        withdraw_if_obsolete(approval_id, reason)


def _last_reason(subject_type: str, subject_id: uuid.UUID) -> str:
    entry = AuditEntry.objects.filter(entity_type=subject_type, entity_id=subject_id).latest("seq")
    return f"The {subject_type} is {entry.to_status}: {entry.reason}"


@transaction.atomic
def close_changes(deal_id: uuid.UUID) -> None:
    """Withdraw the unsent changes of an ended deal, and close those whose operation has ended."""
    if not Deal.objects.get(pk=deal_id).is_terminal:
        return
    deal = deal_locked(deal_id)
    reason = f"{deal.reference} is {deal.status}"
    withdraw_unsent(deal, reason)
    close_changes_of_ended_deal(deal)
