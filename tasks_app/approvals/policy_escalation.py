"""What happens to a question that nobody decides: it is put to further roles, and where its policies say so
it keeps waiting after its deadline, as long as the seller holds it. Recorded; it never approves."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import F

from tasks_app import clock
from tasks_app.approvals.lapsing import waits_on
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.policies import before_hold
from tasks_app.approvals.policy_models import ApprovalEscalation
from tasks_app.desk.items import joined
from tasks_app.lifecycle.errors import StaleVersionError
from tasks_app.lifecycle.prepared import prepared_row
from tasks_app.notifications.models import Notification
from tasks_app.notifications.moments import moment_token
from tasks_app.notifications.services import About, notify
from tasks_app.people.roles import DECIDE
from tasks_app.tracing import trace_id
from tasks_app.troubles.rows import each_row, held_back
from tasks_app.troubles.works import work_on

_ESCALATE = "select fd_approval_escalate(%s, %s, %s, %s, %s, %s)"
_WORK = work_on("approval_escalation", "approval")


def approvals_escalate(*, limit: int = 200) -> int:
    """Put to further roles what nobody has decided by its time, each in a commit of its own, once; answers
    how many. One that raises is put back and stops no other."""
    due = Approval.objects.filter(
        status=ApprovalStatus.OPEN, escalated_at__isnull=True, escalate_at__lte=clock.now()
    )
    due = due.exclude(pk__in=held_back(_WORK)).order_by("escalate_at")
    return each_row(_WORK, due.values_list("pk", flat=True)[:limit], _escalate)


def approval_keep_waiting(approval: Approval) -> bool:
    """Where the policies of an open question that is due let it wait on: escalate it and give it as much time
    again, before the seller's hold ends; in the caller's transaction, its row locked. Answers whether."""
    now, held, margin = clock.now(), approval.hold_until, settings.APPROVAL_HOLD_MARGIN
    if not waits_on(approval, now):
        return False
    spans = approval.due_at - (_latest_start(approval) or approval.created_at)
    due_at = before_hold(now + spans, held, now, margin)
    _put(approval, due_at, "Nobody decided in time: it keeps waiting", now)
    return True


@transaction.atomic
def _escalate(approval_id: uuid.UUID) -> bool:
    approval = (
        Approval.objects.filter(pk=approval_id, status=ApprovalStatus.OPEN, escalated_at__isnull=True)
        .select_for_update(of=("self",), skip_locked=True, no_key=True)
        .select_related("team")
        .first()
    )
    if approval is None:
        return False
    _put(approval, approval.due_at, "Nobody had decided by then", clock.now())
    return True


def _put(approval: Approval, due_at: datetime, why: str, now: datetime) -> None:
    """Record it, let the roles decide, tell them."""
    roles = sorted({*approval.roles, *approval.escalate_to}) if approval.roles else []
    to = joined(approval.escalate_to)
    note = f"{why}; put to {to} as well" if to else why
    step = ApprovalEscalation.objects.create(
        approval=approval,
        at=now,
        roles=approval.escalate_to,
        due_before=approval.due_at,
        due_at=due_at,
        note=note,
    )
    longer = due_at != approval.due_at
    row = prepared_row(_ESCALATE, [approval.pk, approval.version, due_at, note, trace_id(), clock.frozen()])
    if row is None or row[0] is None:
        raise StaleVersionError(
            "approval",
            approval.pk,
            approval.status,
            approval.status,
            "it was changed by somebody else meanwhile",
        )
    if longer:
        Approval.objects.filter(pk=approval.pk).update(reminded_at=None)
    approval.refresh_from_db(fields=["version", "roles", "due_at", "escalated_at", "reminded_at"])
    notify(
        kind="approval_escalated",
        title=f"{approval.title}: nobody has decided",
        body=f"{approval.reference} has waited since {moment_token(approval.created_at)}. {note}. "
        f"It is due {moment_token(due_at)}.",
        level=Notification.Level.WARNING,
        about=About(type="approval", id=approval.pk),
        team=approval.team,
        right=DECIDE,
        roles=approval.escalate_to or roles,
        not_for=approval.requested_by,
        nor_for=approval.set_off_by,
        key=f"approval_escalated:{step.pk}",
    )


def _latest_start(approval: Approval) -> datetime | None:
    """When the present deadline was set, where it is not the first."""
    again = approval.escalations.exclude(due_at=F("due_before")).order_by("-id")
    return again.values_list("at", flat=True).first()
