"""What must hold before money is spent: an active account, a person's approval, and nothing bought for the
same already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q

from orders.accounts import deal_account
from orders.following import twice_bought
from orders.models import Deal, DealStatus
from orders.questions import DEAL, LATE
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.lifecycle.guards import guard_register
from tasks_app.operations.conflicts import KIND as CONFLICT
from tasks_app.sellers.columns import Row
from tasks_app.sellers.models import Account
from tasks_app.sellers.trust import use_register


def register() -> None:
    """Called when the application starts."""
    for guard in (has_active_account, is_approved, is_bought_once):
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
    """No approval, no spend: the deal's own, or the decision that keeps a purchase made late or told of in a
    contradiction (`approval_id`)."""
    kept = Q(pk=context.get("approval_id"))
    own = Q(subject_type="deal", subject_id=deal_id, kind=DEAL) | (kept & Q(kind=LATE))
    # To reject what came first is to take what came second.
    second = kept & Q(kind=CONFLICT, status=ApprovalStatus.REJECTED)
    approved = Approval.objects.filter((own & Q(status=ApprovalStatus.APPROVED)) | second)
    return approved.exists() or "nobody has approved it"


def is_bought_once(_id: str, _from: str, _to: str, context: Mapping[str, Any]) -> bool | str:
    """What is asked for in the place of a lost deal is bought by one deal."""
    return twice_bought(context["entity"]) or True
