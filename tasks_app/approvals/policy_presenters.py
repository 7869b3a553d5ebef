"""What the page of a question and the queue say of its policies."""

from __future__ import annotations

from typing import Any

from tasks_app.approvals.lapsing import nothing_words
from tasks_app.approvals.models import Approval
from tasks_app.approvals.policy_words import people_words


def policies_data(approval: Approval) -> dict[str, Any]:
    """What desk/approval_policies.html is given: what is demanded, what was escalated, and what happens if
    nobody decides."""
    return {
        "demands": people_words(approval.quorum, approval.roles),
        "escalations": list(approval.escalations.order_by("id")) if approval.escalated_at else [],
        "nothing": nothing_words(approval),
    }
