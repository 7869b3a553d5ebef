"""What a seller's contradiction about a purchase can come to: the first kept, or the second taken.

Whatever is taken is a declared change: the deal called off, its mirror brought up to date, or a new deal that
follows the old one. A media buy that nobody wants is cancelled at the seller by an operation of its own.
"""

from __future__ import annotations

from typing import Any

from orders.booking import deal_adopt
from orders.models import CONFIRMED, Deal, DealStatus
from orders.seller_state import deal_refresh
from orders.services import deal_cancel_at_seller, deal_locked
from tasks_app.approvals.kinds import Outcome
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.conflicts import Taker, taker_register
from tasks_app.operations.models import SETTLED
from tasks_app.operations.services import OperationRefusedError

_OVER = (DealStatus.FAILED, DealStatus.CANCELLED, DealStatus.EXPIRED)
_ENDS = ("failed", "rejected", "canceled")


def register() -> None:
    """Called when the application starts."""
    taker_register("deal", Taker(why_not=_why_not, words=_words, keep=_keep, take=_take))


def second_buy(conflict: Conflict) -> str:
    """The media buy that the second claims was made; empty where it names none."""
    value = conflict.second.get("value")
    named = value.get("media_buy_id") if isinstance(value, dict) else None
    return named if _completed(conflict) and isinstance(named, str) and len(named) <= 255 else ""


def _completed(conflict: Conflict) -> bool:
    return bool(conflict.second.get("status") == "completed")


def _why_not(conflict: Conflict) -> str:
    deal = Deal.objects.get(pk=_subject(conflict))
    if _completed(conflict):
        return _why_not_bought(conflict, deal)
    if conflict.second.get("status") not in _ENDS:
        return "What came second is no end of the task: there is nothing to take."
    if conflict.operation.task_type != "create_media_buy":
        return "It is about a change, not a purchase: what the seller holds is read from it again."
    if conflict.operation.status != "completed":
        return "Neither bought anything: nothing would change."
    return "" if _end_of(deal) else f"{deal.reference} is {deal.status}: it cannot be called off."


def _why_not_bought(conflict: Conflict, deal: Deal) -> str:
    named = second_buy(conflict)
    if not named:
        return "What came second names no media buy."
    if deal.media_buy_id == named:
        return ""
    if conflict.operation.task_type != "create_media_buy":
        return "What came second is about another media buy."
    if deal.status not in (*_OVER, *CONFIRMED):
        return f"{deal.reference} is {deal.status}: decide about it first."
    holder = Deal.objects.filter(seller=deal.seller, media_buy_id=named).first()
    return f"{named} is the media buy of {holder.reference} already." if holder else ""


def _end_of(deal: Deal) -> str:
    """Where a deal goes that the seller does not hold: cancelled, from makegood_pending failed (model.md)."""
    targets = deal.declared().targets(deal.status)
    return next((to for to in (DealStatus.CANCELLED, DealStatus.FAILED) if to in targets), "")


def _words(conflict: Conflict) -> tuple[str, str]:
    deal = Deal.objects.get(pk=_subject(conflict))
    named, own = second_buy(conflict), deal.media_buy_id
    if conflict.operation.status not in SETTLED:
        return f"{conflict.operation.reference} goes on under the task it is bound to.", ""
    if not named:
        return (
            f"{deal.reference} stays {deal.status}.",
            f"{deal.reference} becomes {_end_of(deal) or deal.status}; its money returns to the budget.",
        )
    if named == own:
        return (
            f"{deal.reference} stays as it was confirmed first.",
            f"{deal.reference} takes over what came second; departures from the approved are asked about.",
        )
    cancelled = f" {own} is cancelled at the seller." if deal.status in CONFIRMED and own else ""
    return (
        f"{deal.reference} stays {deal.status}; the seller is asked to cancel {named}.",
        f"{named} is kept as a new deal that follows {deal.reference}.{cancelled}",
    )


def _keep(conflict: Conflict, approval: Approval, outcome: Outcome) -> None:
    """A media buy that only the second knows is nobody's: it is cancelled. While the operation is open it may
    still turn out to be its own."""
    if conflict.operation.status not in SETTLED:
        return
    deal = deal_locked(_subject(conflict))
    named = second_buy(conflict)
    of_others = Deal.objects.filter(seller=deal.seller, media_buy_id=named).exists()
    if named and named != deal.media_buy_id and not of_others and not _is_its_own(conflict, named):
        _cancel(deal, outcome, named)


def _is_its_own(conflict: Conflict, named: str) -> bool:
    """Whether it is the buy of the first as well (late, and not yet decided about)."""
    first = conflict.first.get("value")
    return isinstance(first, dict) and first.get("media_buy_id") == named


def _take(conflict: Conflict, approval: Approval, outcome: Outcome) -> None:
    deal = deal_locked(_subject(conflict))
    named = second_buy(conflict)
    if not named:
        transition(
            deal,
            _end_of(deal),
            actor=outcome.actor,
            reason=f"{deal.seller} says {conflict.second['status']}: {outcome.comment}"[:500],
            metadata={"approval": approval.reference, "conflict": conflict.reference},
        )
        return
    value: dict[str, Any] = conflict.second["value"]
    if named == deal.media_buy_id:
        deal_refresh(deal_id=deal.pk, buy=value, asked_at=conflict.at)
        return
    deal_adopt(lost=deal, operation=conflict.operation, actor=outcome.actor, approval=approval, result=value)
    if deal.status in CONFIRMED and deal.media_buy_id:
        _cancel(deal, outcome, deal.media_buy_id)


def _cancel(deal: Deal, outcome: Outcome, media_buy_id: str) -> None:
    try:
        deal_cancel_at_seller(
            deal=deal, actor=outcome.actor, reason=outcome.comment, media_buy_id=media_buy_id
        )
    except OperationRefusedError as error:
        raise DecisionRefusedError("impossible", f"It cannot be cancelled: {error}") from error


def _subject(conflict: Conflict) -> Any:
    return conflict.operation.subject_id
