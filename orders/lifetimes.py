"""Late purchases that need no decision: another deal holds the media buy, or its seller has cancelled it."""

from __future__ import annotations

from orders.confirmation import mirror
from orders.following import OVER, holder_of, named_to
from orders.models import CONFIRMED, Deal, DealStatus
from orders.questions import LATE, ask_late_completion
from tasks_app.adcp.types import BUY_GONE
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.subjects import questions_review
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.models import Operation
from tasks_app.people.actors import SYSTEM


def late_idle(deal: Deal, purchase: Operation) -> str:
    """Why nobody has to decide about a deal's late purchase; empty where somebody has."""
    told = mirror(purchase.result or {})
    named = told.get("media_buy_id", "")
    if deal.status in CONFIRMED:
        return f"{deal.reference} is {deal.status}"
    holder = _held_by(deal, purchase)
    if holder is not None:
        return f"{named} is what {named_to(deal, holder)} {_held_words(holder)}"
    is_same = deal.media_buy_id in ("", named)
    if told.get("media_buy_status") in BUY_GONE or (is_same and deal.media_buy_status in BUY_GONE):
        return f"{deal.seller} has cancelled it"
    return ""


def late_ask(deal: Deal, purchase: Operation) -> None:
    """Ask people what to do with a late purchase, where somebody has to; the caller holds the deal."""
    idle = late_idle(deal, purchase)
    if not idle:
        ask_late_completion(deal, purchase)
    elif deal.status == DealStatus.BOOKING:
        _end(deal, purchase, f"Bought after its deadline, and {idle}")


def ended_as_anothers(deal: Deal, purchase: Operation) -> bool:
    """End a deal whose purchase is answered with the media buy that another deal holds: it has none of its
    own, and what is held counts once. The caller holds the deal."""
    holder = _held_by(deal, purchase)
    if holder is not None:
        held = f"which {named_to(deal, holder)} {_held_words(holder)}"
        _end(deal, purchase, f"Answered with {holder.media_buy_id}, {held}")
    return holder is not None


def _end(deal: Deal, purchase: Operation, reason: str) -> None:
    """A deal whose purchase is nobody's has come to nothing."""
    transition(
        deal,
        DealStatus.FAILED if _held_by(deal, purchase) is not None else DealStatus.CANCELLED,
        actor=SYSTEM,
        reason=reason[:500],
        metadata={"operation": purchase.reference},
    )


def late_review(holder: Deal) -> None:
    """A deal holds a media buy from now on: whether another one keeps it is no question."""
    asked = Approval.objects.filter(
        kind=LATE, status=ApprovalStatus.OPEN, evidence__media_buy_id=holder.media_buy_id
    )
    others = asked.exclude(subject_id=holder.pk).values_list("subject_id", flat=True)
    for deal in Deal.objects.filter(pk__in=others if holder.media_buy_id else []):
        reason = f"{named_to(deal, holder)} holds {holder.media_buy_id}"
        questions_review("deal", [deal.pk], reason=reason, kinds=(LATE,))


def late_gone(deal: Deal) -> None:
    """A seller says how the media buy stands of a deal that it moves no further: what it has cancelled,
    nobody keeps."""
    if deal.media_buy_status in BUY_GONE:
        reason = f"{deal.seller} has cancelled it"
        questions_review("deal", [deal.pk], reason=reason, kinds=(LATE,))


def _held_by(deal: Deal, purchase: Operation) -> Deal | None:
    """The other deal that has the media buy which a purchase is answered with."""
    return holder_of(deal, mirror(purchase.result or {}).get("media_buy_id", ""))


def _held_words(holder: Deal) -> str:
    return f"held and {holder.seller} has cancelled" if holder.status in OVER else "holds"
