"""What becomes of a question that nobody decides by its deadline: it expires, or its policies let it wait on.
The act that ends questions asks this, and so does every sentence about them."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings

from tasks_app import clock
from tasks_app.approvals.kinds import kind_of
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.policy_models import OnExpiry
from tasks_app.desk import text
from tasks_app.desk.items import joined


def waits_on(approval: Approval, at: datetime | None = None) -> bool:
    """Whether its deadline does not end it: its policies let it wait, and the seller still holds what it is
    about. `at`: when its deadline is looked at; otherwise when it is due, or now if that has passed."""
    if approval.on_expiry != OnExpiry.WAIT:
        return False
    held, looked = approval.hold_until, at or max(approval.due_at, clock.now())
    return held is None or held - settings.APPROVAL_HOLD_MARGIN > looked


def nothing_of(approval: Approval) -> str:
    """What nobody's answer does where its deadline ends it: the same for every question of a kind."""
    try:
        return kind_of(approval).effects["nothing"]
    except KeyError:
        return ""


def keeps_waiting(approval: Approval) -> str:
    """It keeps waiting, and until when, where its deadline does not end it; else empty."""
    if not waits_on(approval):
        return ""
    until = ", until shortly before the seller’s hold ends" if approval.hold_until else ""
    return f"it keeps waiting{until}"


def nothing_words(approval: Approval) -> str:
    """What becomes of it if nobody decides: when it is escalated, then what its kind says, or that it waits
    on."""
    effect = nothing_of(approval)
    if approval.status != ApprovalStatus.OPEN:
        return effect
    escalates, waits = "", keeps_waiting(approval)
    if approval.escalate_at and approval.escalated_at is None:
        to = joined(approval.escalate_to)
        escalates = f"It is put to the role {to} {text.moment(approval.escalate_at)}. "
    return f"{escalates}{f'At the deadline {waits}. Waiting never approves.' if waits else effect}"
