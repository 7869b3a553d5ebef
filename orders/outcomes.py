"""What the end of a purchase does to its deal: once, in the commit that publishes the operation."""

from __future__ import annotations

import uuid

from django.db.models import Exists, OuterRef, Q

from orders import questions
from orders.booking import confirmed_by, deal_confirm
from orders.calling_off import deals_call_off
from orders.models import CONFIRMED, Deal, DealStatus, UnclaimedBuy
from orders.seller_state import deal_refresh
from orders.services import bought_by, deal_locked
from orders.successors import live_relative, other_holder
from orders.unclaimed.unclaimed_buys import record_unclaimed
from tasks_app import clock
from tasks_app.jobs.models import Job
from tasks_app.jobs.over import job_ender, on_job_ended, step_skipper
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.converge import on_late_result
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.publish import on_settled
from tasks_app.people.roles import STEER_JOB, SUBMIT_CAMPAIGN

_ENDS_JOBS = (STEER_JOB, SUBMIT_CAMPAIGN)  # a job, or the campaign that it is of


def register() -> None:
    """Called when the application starts."""
    on_settled(_settled)
    on_late_result(_take_late_result)
    on_job_ended(booking_ended, recipe="book_deal")


def booking_ended(job: Job) -> None:
    """Cancel a deal whose booking job ended before the purchase was sent, and withdraw its approvals."""
    reason = job.error or f"{job.reference} has ended without buying it"
    deal = uuid.UUID(job.inputs["deal_id"])
    actor = step_skipper(job, "buy") or job_ender(job)
    deals_call_off([deal], reason=reason, actor=actor, rights=_ENDS_JOBS)


def _settled(operation: Operation) -> None:
    if _is_purchase(operation) and operation.subject_id is not None:
        _purchase_ended(deal_locked(operation.subject_id), operation)


def _take_late_result(operation: Operation) -> None:
    """Take a purchase's result that came after its end was published.

    A deal that holds the media buy without a name learns the name. Otherwise the media buy is unclaimed,
    unless a deal holds it.
    """
    named = bought_by(operation)
    if not _is_purchase(operation) or operation.subject_id is None or not named:
        return
    own_purchase = Operation.objects.filter(subject_id=OuterRef("pk"), task_type="create_media_buy")
    whose = Q(pk=operation.subject_id) | (Q(follows=operation.subject_id) & ~Exists(own_purchase))
    unnamed = Deal.objects.filter(whose, status__in=CONFIRMED, media_buy_id="").order_by("pk").first()
    if unnamed is not None:
        deal_refresh(deal_id=unnamed.pk, buy=operation.result or {}, asked_at=clock.now(), whole=True)
        return
    deal = deal_locked(operation.subject_id)
    if operation.status == O.COMPLETED and deal.media_buy_id != named:
        record_unclaimed(deal, operation.result or {}, source=_source(deal))


def _source(deal: Deal) -> UnclaimedBuy.Source:
    return UnclaimedBuy.Source.SECOND if deal.status in CONFIRMED else UnclaimedBuy.Source.LATE


def _is_purchase(operation: Operation) -> bool:
    return operation.subject_type == "deal" and operation.task_type == "create_media_buy"


def _purchase_ended(deal: Deal, operation: Operation) -> None:
    if operation.attempts == 0:
        questions.withdraw_booking_question(deal, "Its purchase was withdrawn")
    is_late = operation.overdue_at is not None or deal.status != DealStatus.BOOKING
    if operation.status != O.COMPLETED:
        if deal.status == DealStatus.BOOKING:
            _purchase_lost(deal, operation)
    elif is_late or other_holder(deal, bought_by(operation)) or live_relative(deal):
        record_unclaimed(deal, operation.result or {}, source=_source(deal))
    else:
        deal_confirm(deal=deal, operation=operation)


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
