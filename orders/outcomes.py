"""What the end of an operation does to its deal: once, in the commit that publishes the operation."""

from __future__ import annotations

import uuid
from typing import Any

from orders import questions
from orders.booking import confirmed_by, deal_confirm
from orders.confirmation import mirror
from orders.conflicts import second_buy
from orders.models import LIVE, Deal, DealStatus
from orders.services import deal_locked, deal_withdraw_held, purchase_of
from tasks_app.jobs.models import Job, JobStatus
from tasks_app.jobs.over import on_job_ended
from tasks_app.lifecycle.transitions import transition
from tasks_app.notifications.services import About, notify
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.conflicts import conflict_reopen
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.publish import on_settled
from tasks_app.people.actors import SYSTEM


def register() -> None:
    """Called when the application starts."""
    on_settled(_settled)
    on_job_ended(_booking_ended, recipe="book_deal")


def _booking_ended(job: Job) -> None:
    """Nothing was sent for a deal whose booking failed: the approved deal is called off, with the reason."""
    if job.status == JobStatus.COMPLETED:
        return
    deal = deal_locked(uuid.UUID(job.inputs["deal_id"]))
    if deal.status == DealStatus.ACCEPTED:
        transition(deal, DealStatus.CANCELLED, actor=SYSTEM, reason=job.error[:500])
        deal_withdraw_held(deal=deal, reason=job.error[:500])


def _settled(operation: Operation) -> None:
    if operation.subject_type != "deal" or operation.subject_id is None:
        return
    deal = deal_locked(operation.subject_id)
    if operation.task_type == "create_media_buy":
        _purchase_ended(deal, operation)
    elif operation.task_type == "update_media_buy" and operation.status == O.COMPLETED:
        _change_done(deal, operation)
    elif operation.request.get("canceled") is True:
        _still_there(deal, operation)


def _purchase_ended(deal: Deal, operation: Operation) -> None:
    if operation.status == O.COMPLETED and (operation.overdue_at or deal.status != DealStatus.BOOKING):
        questions.ask_late_completion(deal, operation)
    elif deal.status != DealStatus.BOOKING:
        return
    elif operation.status == O.COMPLETED:
        deal_confirm(deal=deal, operation=operation)
    else:
        _purchase_lost(deal, operation)


def _purchase_lost(deal: Deal, operation: Operation) -> None:
    to = DealStatus.CANCELLED if operation.status == O.CANCELED else DealStatus.FAILED
    why = operation.message or operation.status
    if operation.status == O.TIMED_OUT:
        why = "Given up: the seller has not answered in time"
    transition(
        deal,
        to,
        actor=confirmed_by(operation),
        reason=f"{deal.seller}: {why}"[:500],
        metadata={"operation": operation.reference, "operation_status": operation.status},
    )


def _is_anothers(deal: Deal, operation: Operation) -> bool:
    """Whether it cancels a media buy that is not the one the deal holds."""
    return bool(deal.media_buy_id) and operation.request.get("media_buy_id") != deal.media_buy_id


def _still_there(deal: Deal, operation: Operation) -> None:
    """The seller has not cancelled what we asked it to cancel: the question is open again."""
    if _is_anothers(deal, operation):
        _not_cancelled(deal, operation)
    elif deal.status in LIVE and deal.differences:
        Deal.objects.filter(pk=deal.pk).update(differs=True)
        questions.ask_booked_differently(deal)
    elif deal.status in (DealStatus.BOOKING, DealStatus.FAILED):
        questions.ask_late_completion(deal, purchase_of(deal))
    elif deal.status != DealStatus.CANCELLED:
        _not_cancelled(deal, operation)


def _not_cancelled(deal: Deal, operation: Operation) -> None:
    """A media buy that nobody wants stays at the seller, and costs money until somebody there ends it."""
    named = operation.request.get("media_buy_id")
    notify(
        kind="buy_not_cancelled",
        title=f"{deal.seller} has not cancelled {named}",
        body=f"Write to the seller. {deal.reference}, {operation.reference}: "
        f"{operation.message or operation.status}",
        level="alarm",
        about=About(type="deal", id=deal.pk),
        team=deal.team,
        key=f"buy_not_cancelled:{operation.pk}",
    )
    contradicted = Conflict.objects.filter(operation__subject_id=deal.pk, resolved_at__isnull=False)
    for conflict in contradicted:
        if named in (second_buy(conflict), deal.media_buy_id):
            conflict_reopen(conflict_id=conflict.pk, why=f"{named} was not cancelled")


def _change_done(deal: Deal, operation: Operation) -> None:
    result: dict[str, Any] = operation.result or {}
    told = mirror(result)
    told.pop("media_buy_id", None)
    if operation.request.get("canceled") is True and _is_anothers(deal, operation):
        return
    if operation.request.get("canceled") is True and DealStatus.CANCELLED in deal.declared().targets(
        deal.status
    ):
        transition(
            deal,
            DealStatus.CANCELLED,
            actor=confirmed_by(operation),
            reason="The seller cancelled it as asked",
            metadata={"operation": operation.reference},
            changes={**told, "differs": False},
        )
        return
    Deal.objects.filter(pk=deal.pk).update(**told)
