"""What the end of a purchase does to its deal: once, in the commit that publishes the operation."""

from __future__ import annotations

import uuid

from django.db.models import Q

from orders import questions
from orders.booking import confirmed_by, deal_confirm
from orders.calling_off import deals_call_off
from orders.conflicts import another_bought, buys_another
from orders.following import OVER, bought_by, twice
from orders.lifetimes import ended_as_anothers, late_ask
from orders.models import CONFIRMED, Deal, DealStatus
from orders.seller_state import deal_refresh
from orders.services import deal_locked
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
    on_late_result(_learnt)
    on_job_ended(booking_ended, recipe="book_deal")


def booking_ended(job: Job) -> None:
    """A deal whose booking is over without having been sent is called off, with the reason, and so is what
    people are asked about it: nobody else books it."""
    reason = job.error or f"{job.reference} has ended without buying it"
    deal = uuid.UUID(job.inputs["deal_id"])
    actor = step_skipper(job, "buy") or job_ender(job)
    deals_call_off([deal], reason=reason, actor=actor, rights=_ENDS_JOBS)


def _settled(operation: Operation) -> None:
    if _is_purchase(operation) and operation.subject_id is not None:
        _purchase_ended(deal_locked(operation.subject_id), operation)


def _learnt(operation: Operation) -> None:
    """What was bought is named after the purchase's end was published: the deal that holds it, or that keeps
    it in its place, learns it. Where that one was refused meanwhile, or holds another, people say what
    becomes of it."""
    named = (operation.result or {}).get("media_buy_id")
    if not _is_purchase(operation) or operation.subject_id is None or not named:
        return
    whose = Q(pk=operation.subject_id) | Q(follows=operation.subject_id)
    nameless = Deal.objects.filter(whose, status__in=CONFIRMED, media_buy_id="").order_by("pk").first()
    if nameless is not None:
        deal_refresh(deal_id=nameless.pk, buy=operation.result or {}, asked_at=clock.now(), whole=True)
        return
    deal = deal_locked(operation.subject_id)
    if operation.status != O.COMPLETED:
        return
    if buys_another(deal, operation):
        another_bought(deal, operation)
    elif deal.status in OVER and questions.late_asked(deal) is None:
        late_ask(deal, operation)


def _is_purchase(operation: Operation) -> bool:
    return operation.subject_type == "deal" and operation.task_type == "create_media_buy"


def _purchase_ended(deal: Deal, operation: Operation) -> None:
    if operation.attempts == 0:
        questions.withdraw_booking_question(deal, "Its purchase was withdrawn")
    is_late = operation.overdue_at is not None or deal.status != DealStatus.BOOKING
    if operation.status == O.COMPLETED and is_late:
        late_ask(deal, operation)
    elif deal.status != DealStatus.BOOKING:
        return
    elif operation.status != O.COMPLETED:
        _purchase_lost(deal, operation)
    elif not ended_as_anothers(deal, operation):
        _bought(deal, operation)


def _bought(deal: Deal, operation: Operation) -> None:
    """Where what runs in its place was adopted meanwhile, and this is another media buy, there are two:
    people say which one is kept."""
    if twice(deal, bought_by(operation)):
        late_ask(deal, operation)
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
