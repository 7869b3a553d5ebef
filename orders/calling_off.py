"""What becomes of a deal whose job or campaign was called off: it is called off too, as long as certainly
nothing of it was had at its seller. What may have been stays there, and is followed to its end.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from orders.models import UNDECIDED, UNSETTLED, Deal, DealStatus
from orders.services import deal_locked, deal_withdraw_held, purchase_purpose
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import approval_void
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.ordering import order_refusal, order_withdraw
from tasks_app.operations.resend import had_no_effect, may_have_acted

_UNSENT = (*UNDECIDED, DealStatus.ACCEPTED)
_WITHDRAWN = (OperationStatus.CANCELED, OperationStatus.FAILED)


def deals_call_off(
    deals: Collection[uuid.UUID],
    *,
    reason: str,
    actor: str,
    rights: Sequence[str],
    told: Mapping[str, Any] | None = None,
) -> None:
    """Call off those of `deals` of which nothing was had, with what people are asked about them, in the
    caller's commit. `actor`: whose act that follows from, by one of `rights`; `told`: kept with the end."""
    rows = Deal.objects.filter(pk__in=deals, status__in=UNSETTLED).order_by("pk")
    unsent = [deal.pk for deal in rows if _is_unsent(deal)]
    asked = Approval.objects.filter(subject_type="deal", subject_id__in=unsent, status=ApprovalStatus.OPEN)
    # Before the deals are held: who decides holds the question first.
    for approval in asked.order_by("pk").select_for_update(no_key=True):
        approval_void(approval=approval, reason=reason[:500], actor=actor, rights=rights)
    for pk in unsent:
        _call_off(deal_locked(pk), reason[:500], actor, rights, dict(told or {}))


def _call_off(deal: Deal, reason: str, actor: str, rights: Sequence[str], told: dict[str, Any]) -> None:
    if deal.status == DealStatus.BOOKING and not _taken_off(deal, reason, actor):
        return
    if deal.status not in (*_UNSENT, DealStatus.BOOKING):
        return
    refused = order_refusal(purchase_purpose(deal))
    metadata = {**told, **({"approval": refused.reference} if refused else {})}
    transition(
        deal, DealStatus.CANCELLED, actor=actor, reason=reason, metadata=metadata or None, rights=rights
    )
    deal_withdraw_held(deal=deal, reason=reason, actor=actor, rights=rights)


def _taken_off(deal: Deal, reason: str, actor: str) -> bool:
    """Take the purchase of a deal in booking off its way; False where something of it may have been had."""
    purchase = _purchase(deal)
    if purchase is None:
        return False
    return _is_withdrawn(purchase) or order_withdraw(
        operation=purchase, reason=reason, actor=actor, unsent_only=True
    )


def _is_unsent(deal: Deal) -> bool:
    if deal.status != DealStatus.BOOKING:
        return True
    purchase = _purchase(deal)
    return purchase is not None and (_is_withdrawn(purchase) or had_no_effect(purchase))


def _is_withdrawn(purchase: Operation) -> bool:
    """Whether it was taken off its way with the step that waited for it, and nobody was told of it yet."""
    ours = purchase.status in _WITHDRAWN and not purchase.settled_by and purchase.published_at is None
    return ours and not may_have_acted(purchase)


def _purchase(deal: Deal) -> Operation | None:
    return Operation.objects.filter(purpose=purchase_purpose(deal)).first()
