"""Whether a question is somebody's to decide, found by trying it."""

from __future__ import annotations

from django.db import transaction

from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.people.models import User


def decides(question: Approval, user: User) -> bool:
    """Whether the person's word would be taken; everything is as before afterwards."""
    with transaction.atomic():
        try:
            approval_decide(approval_id=question.pk, user=user, verdict="reject", comment="So.")
        except DecisionRefusedError as refused:
            return refused.code == "impossible"  # it was theirs to decide
        finally:
            transaction.set_rollback(True)
    return True
