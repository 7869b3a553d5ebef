"""What follows when the operation of a change has ended.

A task that "completed" may have changed nothing. The answer proves the change, or the media buy is read for
ten minutes (`apply.settle_ended_changes`). What is not shown then, or is still open a day later, is a
difference that people are asked about.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction

from orders import questions
from orders.booking import compare, confirmed_by
from orders.changes.apply import apply_change
from orders.changes.open_changes import (
    cancels_all,
    close_change,
    close_changes_of_ended_deal,
    ended_changes,
)
from orders.changes.send import is_change
from orders.mirror import mirror_read_now
from orders.models import LIVE, Change, Deal, DealStatus
from orders.seller_state import columns_if_newest, deal_refresh, is_outdated
from orders.services import deal_locked
from orders.terms.stated import answer_as_record, is_canceled
from tasks_app import clock
from tasks_app.lifecycle.transitions import note, transition
from tasks_app.notifications.services import About, notify
from tasks_app.operations.converge import on_late_result
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.news import result_at
from tasks_app.operations.publish import on_settled
from tasks_app.operations.sweep import chore_register
from tasks_app.people.actors import SYSTEM
from tasks_app.troubles.rows import each_row, held_back
from tasks_app.troubles.works import work_on

_TOOL = "get_media_buys"
_NOT_MADE = (O.CANCELED, O.FAILED, O.REJECTED)
_UNPROVED = timedelta(days=1)
_AT_ONCE = 100
_WORK = work_on("changes_unproved", "deal")


def register() -> None:
    """Called when the application starts."""
    on_settled(_settled)
    on_late_result(_late_result)
    chore_register("changes_unproved", close_unproved_changes)


def close_unproved_changes(*, limit: int = _AT_ONCE) -> int:
    """Close changes that are open a day after their operation ended. Return how many deals had one."""
    late = Change.objects.filter(closed_at__isnull=True, operation__settled_at__lte=clock.now() - _UNPROVED)
    late = late.exclude(deal__in=held_back(_WORK))
    deals = dict.fromkeys(late.order_by("pk").values_list("deal_id", flat=True)[:limit])
    return each_row(_WORK, deals, _close_unproved)


@transaction.atomic
def _close_unproved(deal_id: uuid.UUID) -> int:
    deal = deal_locked(deal_id)
    if deal.status not in LIVE:
        close_changes_of_ended_deal(deal)
        return 1
    changes = list(ended_changes(deal))
    for change in changes:
        _close_not_shown(deal, change)
    return bool(changes)


def _settled(operation: Operation) -> None:
    if operation.subject_type != "deal" or operation.task_type != "update_media_buy":
        return
    deal = deal_locked(_deal_id(operation))
    change = _open_change_of(operation)
    if change is None:
        _settled_without_change(deal, operation)
    elif deal.status not in LIVE:
        close_changes_of_ended_deal(deal)
    elif operation.status in _NOT_MADE:
        _refused(deal, change)
    else:
        _prove(deal, change)


def _settled_without_change(deal: Deal, operation: Operation) -> None:
    """The change is closed: its deal has ended, or its operation was withdrawn before it was sent."""
    _take_answer(deal, operation)
    is_refused = operation.status in _NOT_MADE and cancels_all(operation.request)
    if is_refused and deal.status in LIVE and is_own(deal, operation):
        _cancellation_refused(deal, operation)


def _open_change_of(operation: Operation) -> Change | None:
    return Change.objects.select_related("operation").filter(operation=operation, closed_at=None).first()


def _prove(deal: Deal, change: Change) -> None:
    """The seller completed the change, or people gave up waiting for it."""
    _take_answer(deal, change.operation)
    if deal.status not in LIVE or not ended_changes(deal).filter(pk=change.pk).exists():
        return
    if deal.seller.offers(_TOOL):
        mirror_read_now(deal=deal)
    else:
        _close_not_shown(deal, change)


def _take_answer(deal: Deal, operation: Operation) -> None:
    """Take what the answer says of the deal's media buy; a cancellation that it shows ends the deal."""
    if operation.status != O.COMPLETED or not is_own(deal, operation):
        return
    answer, asked_at = answer_of(operation), result_at(operation)
    outdated = is_outdated(deal, answer, asked_at=asked_at)
    if cancels_all(operation.request) and is_canceled(answer, list(deal.lines.all())) and not outdated:
        _cancel_deal(deal, operation, answer)
    elif deal.status in LIVE:
        deal_refresh(deal_id=deal.pk, buy=answer, asked_at=asked_at)
        deal.refresh_from_db()


def _cancel_deal(deal: Deal, operation: Operation, answer: Mapping[str, Any]) -> None:
    change = _open_change_of(operation)
    if change is not None:
        close_change(change, Change.Outcome.MADE)
    told = columns_if_newest(deal, answer, asked_at=result_at(operation))
    if DealStatus.CANCELLED not in deal.declared().targets(deal.status):
        Deal.objects.filter(pk=deal.pk).update(**told)
        return
    transition(
        deal,
        DealStatus.CANCELLED,
        actor=confirmed_by(operation),
        reason="The seller cancelled it as asked",
        metadata={"operation": operation.reference},
        changes={**told, "differs": False},
    )


def _close_not_shown(deal: Deal, change: Change) -> None:
    """No record of the media buy will show the change: people are asked about the differences."""
    apply_change(deal, change, Change.Outcome.NOT_SHOWN)
    compare(deal, {}, whole=False)
    questions.ask_about_unshown_change(deal)


def _refused(deal: Deal, change: Change) -> None:
    close_change(change, Change.Outcome.REFUSED)
    compare(deal, {}, whole=False)
    if change.kind == Change.Kind.CANCELLATION:
        _cancellation_refused(deal, change.operation)


def _cancellation_refused(deal: Deal, operation: Operation) -> None:
    """People are asked again about what they did not accept; any other media buy costs money meanwhile."""
    if deal.differences and not is_change(operation):
        why = "The seller has not cancelled it" if operation.attempts else operation.message
        note(deal, actor=SYSTEM, reason=why[:500], changes={"differs": True})
        questions.ask_about_differences(deal)
    else:
        _notify(deal, operation, f"{deal.seller} has not cancelled {_buy_of(operation)}")


def _late_result(operation: Operation) -> None:
    """The result came after the operation's end was published: it is compared, a closed change stays so."""
    if operation.subject_type == "deal" and operation.task_type == "update_media_buy":
        _take_answer(deal_locked(_deal_id(operation)), operation)


def _notify(deal: Deal, operation: Operation, title: str) -> None:
    notify(
        kind="buy_not_cancelled",
        title=title,
        body=f"Write to the seller. {deal.reference}, {operation.reference}: "
        f"{operation.message or operation.status}",
        level="alarm",
        about=About(type="deal", id=deal.pk),
        team=deal.team,
        key=f"buy_not_cancelled:{operation.pk}",
    )


def _buy_of(operation: Operation) -> str:
    return str(operation.request.get("media_buy_id"))


def answer_of(operation: Operation) -> dict[str, Any]:
    """Return the answer to a change as a record of the media buy."""
    return answer_as_record(operation.result or {})


def is_own(deal: Deal, operation: Operation) -> bool:
    """Return whether an operation is about the media buy that the deal holds."""
    return bool(deal.media_buy_id) and operation.request.get("media_buy_id") == deal.media_buy_id


def _deal_id(operation: Operation) -> Any:
    return operation.subject_id
