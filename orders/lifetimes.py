"""When nobody has to decide about a deal any more: its questions are looked at whenever it moves.

What its kinds ask stands while the deal is where they ask about it (their `version`). A late purchase is also
nobody's once another deal holds its media buy, or its seller has cancelled it.
"""

from __future__ import annotations

from orders.confirmation import mirror
from orders.following import OVER, holder_of, named_to
from orders.models import CONFIRMED, Deal, DealStatus
from orders.questions import LATE, LATE_CHANGE, ask_late_completion
from orders.services import MOVE_DEALS
from tasks_app.adcp.types import BUY_GONE
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.subjects import questions_review
from tasks_app.lifecycle.models import Stateful
from tasks_app.lifecycle.moved import on_moved
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.services import operation_withdraw
from tasks_app.people.actors import SYSTEM, is_login


def register() -> None:
    """Called when the application starts."""
    on_moved("deal", _moved)


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


def _moved(deal: Stateful, reason: str, actor: str) -> None:
    """What follows from a person's act is theirs; from what a seller says, the system's."""
    why = f"{deal} is {deal.status}{f': {reason}' if reason else ''}"
    by = actor if is_login(actor) else SYSTEM
    questions_review("deal", [deal.pk], reason=why, actor=by, rights=MOVE_DEALS)
    changes = Operation.objects.filter(
        subject_type="deal", subject_id=deal.pk, task_type="update_media_buy", overdue_at__isnull=False
    )
    late = list(changes.values_list("pk", flat=True))
    if late:
        questions_review("operation", late, reason=why, kinds=(LATE_CHANGE,), actor=by, rights=MOVE_DEALS)
    if deal.is_terminal and isinstance(deal, Deal):
        _withdraw_unsent(deal, why, by)


def _withdraw_unsent(deal: Deal, why: str, by: str) -> None:
    """What was to be changed or cancelled of its media buy, and is held here, is not wanted any more."""
    held = Operation.objects.filter(
        subject_type="deal",
        subject_id=deal.pk,
        task_type="update_media_buy",
        status=OperationStatus.REQUESTED,
        send_at__isnull=True,
    )
    for operation in held.select_for_update(no_key=True):
        if operation.request.get("media_buy_id") == deal.media_buy_id:
            operation_withdraw(operation=operation, actor=by, reason=why[:500], rights=MOVE_DEALS)
