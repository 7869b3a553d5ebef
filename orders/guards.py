"""Guards of a purchase: an active account and a person's approval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q

from orders.accounts import deal_account
from orders.models import Deal, DealStatus
from orders.questions import DEAL
from orders.unclaimed.question import UNCLAIMED
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.lifecycle.guards import guard_register
from tasks_app.sellers.columns import Row
from tasks_app.sellers.models import Account
from tasks_app.sellers.trust import use_register


def register() -> None:
    """Called when the application starts."""
    for guard in (has_active_account, is_approved):
        guard_register(
            entity="deal", from_status=DealStatus.ACCEPTED, to_status=DealStatus.BOOKING, guard=guard
        )
    use_register(has_deals)


def has_deals(row: Row) -> bool:
    """An account and a seller are relied on from the first deal under it, whether it was put forward, adopted
    or imported: what its seller tells moves it."""
    own = {"account": row} if isinstance(row, Account) else {"seller": row}
    return Deal.objects.filter(**own).exists()


def has_active_account(_id: str, _from: str, _to: str, context: Mapping[str, Any]) -> bool | str:
    """Booking needs an active account of the advertiser with the seller, in the deal's currency where it is
    bound to one."""
    account = deal_account(context["entity"])
    return account.awaited or account.refused or True


def is_approved(deal_id: str, _from: str, _to: str, context: Mapping[str, Any]) -> bool | str:
    """Require the deal's own approval, or the one that keeps an unclaimed media buy (`approval_id`)."""
    own = Q(subject_type="deal", subject_id=deal_id, kind=DEAL)
    kept = Q(pk=context.get("approval_id"), kind=UNCLAIMED)
    approved = Approval.objects.filter(own | kept, status=ApprovalStatus.APPROVED)
    return approved.exists() or "nobody has approved it"
