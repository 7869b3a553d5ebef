"""Ends a deal whose flight began before its purchase was sent, and a change whose dates have passed.

Nothing is sent for a flight that has begun. A new quote for other dates is a copy of the deal
(`deal_copies.py`).
"""

from __future__ import annotations

import uuid

from django.db import transaction

from orders.calling_off import deals_call_off
from orders.changes.send import give_up_change
from orders.flights import change_passed, deal_passed, request_passed
from orders.models import Deal, DealStatus
from orders.services import lock_deal_if_free
from tasks_app import clock
from tasks_app.desk.items import lowered
from tasks_app.lifecycle.transitions import transition
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About, notify
from tasks_app.operations.leaving import Leaving, last_look_register
from tasks_app.operations.models import Operation
from tasks_app.operations.ordering import order_withdraw
from tasks_app.operations.pauses import answer_hold_back
from tasks_app.operations.resend import may_have_acted
from tasks_app.people.actors import SYSTEM

_PURCHASE, _CHANGE = "create_media_buy", "update_media_buy"


def register() -> None:
    """Called when the application starts."""
    last_look_register(end_if_flight_began)


def end_if_flight_began(leaving: Leaving) -> bool:
    """End a call that is about to leave for dates that have passed. Return whether it may leave.

    The seller is asked what it has if an earlier attempt may have had an effect. An answer to the seller is
    held back, so that it can be given anew with other dates.
    """
    operation, passed = leaving.operation, request_passed(leaving.request)
    deal_id = operation.subject_id if operation.subject_type == "deal" else None
    if not passed or deal_id is None or operation.task_type not in (_PURCHASE, _CHANGE):
        return True
    deal = lock_deal_if_free(deal_id)
    if deal is None:
        return False
    if operation.task_type == _CHANGE and not change_passed(deal, leaving.request):
        return True
    if leaving.is_answer:
        answer_hold_back(operation, lowered(passed))
    elif may_have_acted(operation):
        Operation.objects.filter(pk=operation.pk).update(send_at=None, next_poll_at=clock.now())
    elif operation.task_type == _CHANGE:
        give_up_change(operation, f"{passed}: ask for it with other dates")
    else:
        _end_booking(deal, operation, passed)
    return False


def _end_booking(deal: Deal, purchase: Operation, passed: str) -> None:
    why = _reason(passed)
    if deal.status == DealStatus.BOOKING:
        transition(deal, DealStatus.FAILED, actor=SYSTEM, reason=why)
    order_withdraw(operation=purchase, reason=why, actor=SYSTEM)
    _tell(deal, passed)


@transaction.atomic
def end_if_begun(deal_id: uuid.UUID) -> bool:
    """Cancel an approved deal whose flight has begun. Return whether the deal is cancelled."""
    deal = Deal.objects.select_related("seller", "team").get(pk=deal_id)
    passed = deal_passed(deal) if deal.status == DealStatus.ACCEPTED else ""
    if passed:
        deals_call_off([deal.pk], reason=_reason(passed), actor=SYSTEM, rights=())
        deal.refresh_from_db(fields=["status"])
    if passed and deal.status == DealStatus.CANCELLED:
        _tell(deal, passed)
    return deal.status == DealStatus.CANCELLED


def _tell(deal: Deal, passed: str) -> None:
    notify(
        kind="flight_begun",
        title=f"{deal.reference} with {deal.seller} was not bought: {lowered(passed)}",
        body="Nothing was sent to the seller. Copy the deal with new dates if it is still wanted.",
        level=Notification.Level.WARNING,
        about=About(type="deal", id=deal.pk),
        team=deal.team,
        key=f"flight_begun:{deal.pk}",
    )


def _reason(passed: str) -> str:
    return f"{passed}, and nothing was sent. Copy it with new dates"
