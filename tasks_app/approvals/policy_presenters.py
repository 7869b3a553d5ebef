"""What the page of a question and the queue say of its policies."""

from __future__ import annotations

from typing import Any

from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.policy_models import OnExpiry
from tasks_app.approvals.policy_words import people_words
from tasks_app.approvals.presenters import effects_of
from tasks_app.desk import text
from tasks_app.desk.items import joined


def policies_data(approval: Approval) -> dict[str, Any]:
    """What desk/approval_policies.html is given: what is demanded, what was escalated, and what happens if
    nobody decides."""
    return {
        "demands": people_words(approval.quorum, approval.roles),
        "escalations": list(approval.escalations.order_by("id")) if approval.escalated_at else [],
        "nothing": nothing_words(approval),
    }


def nothing_words(approval: Approval) -> str:
    """What becomes of it if nobody decides: when it is escalated, then what its kind says, or that it waits
    on."""
    effect = effects_of(approval).get("nothing", "")
    if approval.status != ApprovalStatus.OPEN:
        return effect
    to = joined(approval.escalate_to)
    escalates = ""
    if approval.escalate_at and approval.escalated_at is None:
        escalates = f"It is put to the role {to} {text.moment(approval.escalate_at)}. "
    if approval.on_expiry == OnExpiry.WAIT:
        until = ", until shortly before the seller’s hold ends" if approval.hold_until else ""
        return f"{escalates}At the deadline it keeps waiting{until}. Waiting never approves."
    return f"{escalates}{effect}"
