"""What must hold before money is spent: an active account, and a person's approval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q

from orders.models import DealStatus
from orders.questions import DEAL, LATE
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.lifecycle.guards import guard_register
from tasks_app.operations.conflicts import KIND as CONFLICT
from tasks_app.sellers.models import Account


def register() -> None:
    """Called when the application starts."""
    for guard in (has_active_account, is_approved):
        guard_register(
            entity="deal", from_status=DealStatus.ACCEPTED, to_status=DealStatus.BOOKING, guard=guard
        )


def has_active_account(_id: str, _from: str, _to: str, context: Mapping[str, Any]) -> bool | str:
    """Booking needs an active account of the advertiser with the seller."""
    deal = context["entity"]
    if deal.account is None:
        return f"{deal.advertiser} has no account with {deal.seller}"
    if deal.account.status != Account.Status.ACTIVE:
        return f"the account with {deal.seller} is {deal.account.status}"
    return True


def is_approved(deal_id: str, _from: str, _to: str, context: Mapping[str, Any]) -> bool | str:
    """No approval, no spend: the deal's own, or the decision that keeps a purchase made late or told of in a
    contradiction (`approval_id`)."""
    kept = Q(pk=context.get("approval_id"))
    own = Q(subject_type="deal", subject_id=deal_id, kind=DEAL) | (kept & Q(kind=LATE))
    # To reject what came first is to take what came second.
    second = kept & Q(kind=CONFLICT, status=ApprovalStatus.REJECTED)
    approved = Approval.objects.filter((own & Q(status=ApprovalStatus.APPROVED)) | second)
    return approved.exists() or "nobody has approved it"
