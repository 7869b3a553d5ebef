"""The end of a change of a media buy: it counts when the seller's answer, or a read back, shows it.

A task that "completed" may have changed nothing. What the answer does not show is read back at once, before
anything is compared; what that does not show either, unless the seller never states it, is put to a person,
and the media buy is mirrored on: where it shows the change later, the question is gone. A media buy that no
deal here holds is cancelled by the same rule, or an alarm.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from orders import questions
from orders.awaited import awaited_kept
from orders.booking import compare, confirmed_by
from orders.changes import is_change
from orders.changes_left import is_nothing
from orders.changes_taken import change_refused, change_take
from orders.conflicts import second_buy
from orders.doubt import (
    READ_BACK,
    answer_of,
    buy_in,
    cancels,
    change_left,
    changes_awaited,
    is_done,
    is_own,
    line_standing,
    shown,
    shown_keep,
    shown_late,
    unshown,
)
from orders.effects import Miss
from orders.following import bought_by
from orders.lifetimes import late_ask
from orders.models import LIVE, Deal, DealStatus
from orders.not_shown import (
    deals_in_doubt,
    doubt_ask,
    missed_now,
    next_in_line,
    open_of,
    operation_of,
    question_again,
    read_anew,
    shown_by,
    version_of,
    withdraw_decided,
)
from orders.questions import CHANGE_NOT_SHOWN
from orders.running_on import is_gone
from orders.seller_state import columns_if_newest, deal_follow, deal_refresh, is_outdated
from orders.services import deal_locked, purchase_of, purchases_of
from tasks_app import clock
from tasks_app.adcp import requests
from tasks_app.approvals.kinds import Kind, Outcome, kind_register
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import approval_void
from tasks_app.lifecycle.transitions import note, transition
from tasks_app.notifications.services import About, notify
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.conflicts import conflict_reopen
from tasks_app.operations.converge import on_late_result
from tasks_app.operations.deadlines import on_overdue
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.news import result_at
from tasks_app.operations.publish import on_settled
from tasks_app.operations.reads import read_ensure
from tasks_app.operations.services import OperationRefusedError, Subject
from tasks_app.people.actors import SYSTEM

_TOOL = "get_media_buys"


def register() -> None:
    """Called when the application starts."""
    on_settled(_settled)
    on_late_result(_learnt)
    on_overdue(_awaited_no_more)
    kind_register(
        Kind(
            name=CHANGE_NOT_SHOWN,
            label="Change the seller does not show",
            apply=_decided,
            version=version_of,
            asks=question_again,
            reopen=_ask_again,
            effects={
                "approve": "Takes the change as done, by your word for the seller’s; a cancelled deal is "
                "over here and its media buy no longer read. Nothing is sent.",
                "reject": "Keeps what stood before. The media buy is read on; the change may be asked for "
                "anew.",
                "nothing": "The media buy is as the seller shows it, and is read on. It is asked about "
                "again.",
            },
            outlives_job=True,
            decided={"approved": "the change is taken as done", "rejected": "what stood before is kept"},
        )
    )


def change_prove(operation: Operation) -> None:
    """Let a completed change count where its answer shows it, else read the media buy back; in the caller's
    transaction."""
    deal, answer = deal_locked(_deal_id(operation)), answer_of(operation)
    if is_nothing(change_left(deal, operation)):
        _compare_anew(deal, operation)
        return
    missed = unshown(deal, operation, answer, whole=False)
    stated = not any(miss.unstated for miss in missed)
    if stated and _shows(deal, operation, answer, missed, asked_at=result_at(operation)):
        _by_its_answer(deal, operation)
        return
    reading = _reading(deal, operation)
    if reading is None:
        _by_its_answer(deal, operation)
    elif reading.published_at is not None:
        _read_back(reading)


def _compare_anew(deal: Deal, operation: Operation) -> None:
    """Newer changes have decided all of it: what its seller does now is compared, and read."""
    _refresh(deal, operation)
    read_anew(deal, [])


def _by_its_answer(deal: Deal, operation: Operation) -> None:
    """The answer shows it, or is all there is, in which the seller leaves out what it never states."""
    answer, asked_at = answer_of(operation), result_at(operation)
    missed = unshown(deal, operation, answer, whole=False)
    if not _shows(deal, operation, answer, missed, asked_at=asked_at):
        _not_shown(deal, operation, missed)
        return
    _done(deal, operation, answer, actor=confirmed_by(operation), asked_at=asked_at, missed=missed)
    _refresh(deal, operation)


def _shows(
    deal: Deal, operation: Operation, buy: Mapping[str, Any], missed: list[Miss], *, asked_at: datetime
) -> bool:
    """Whether a record, of which a change leaves `missed`, shows that it was done. One that is older than
    what is known of the deal's media buy shows nothing."""
    outdated = is_own(deal, operation) and is_outdated(deal, buy, asked_at=asked_at)
    return is_done(missed) and not outdated


def _reading(deal: Deal, operation: Operation) -> Operation | None:
    """The read back of a change; None where the seller cannot be asked."""
    if not deal.seller.offers(_TOOL):
        return None
    try:
        return read_ensure(
            purpose=f"{operation.purpose}{READ_BACK}",
            task_type=_TOOL,
            seller=deal.seller,
            arguments=_question(deal, operation),
            actor=SYSTEM,
            team=deal.team,
            account=deal.account,
            subject=Subject(type="deal", id=deal.pk),
        )
    except OperationRefusedError:
        return None  # switched off: what its answer says is all there is


@transaction.atomic
def change_look_again(
    *, deal_id: uuid.UUID, buy: Mapping[str, Any], asked_at: datetime, whole: bool = True
) -> None:
    """A deal in doubt was told of: where `buy`, asked for at `asked_at`, shows a cancellation that people are
    asked about, or any change in doubt, and nothing newer is known, nobody needs to decide. `whole`: the
    record is the media buy's own, not an answer that names what changed."""
    deal = deal_locked(deal_id)
    if deal.status not in LIVE or is_outdated(deal, buy, asked_at=asked_at):
        return
    _cancellations_shown(deal, buy, asked_at, whole=whole)
    awaited = changes_awaited(deal) if deal.status in LIVE else []
    if any(shown_by(deal, one, buy, whole=whole) is not None for one in awaited):
        compare(deal, buy, whole=whole)


def _cancellations_shown(deal: Deal, buy: Mapping[str, Any], asked_at: datetime, *, whole: bool) -> None:
    """Of those that people are asked about. Who is deciding at this moment has the last word."""
    for approval in open_of(deal.pk).select_for_update(no_key=True, skip_locked=True):
        operation = operation_of(approval)
        missed = shown_by(deal, operation, buy, whole=whole) if cancels(operation) else None
        if missed is not None:
            approval_void(approval=approval, reason=f"{deal.seller} shows it now")
            seller = f"agent:{deal.seller.slug}"
            _done(deal, operation, buy, actor=seller, asked_at=asked_at, missed=missed)
            next_in_line(deal)


def change_compare(deal: Deal, operation: Operation) -> None:
    """Bring the mirror up to date with what a change came to."""
    deal_refresh(deal_id=deal.pk, buy=answer_of(operation), asked_at=result_at(operation))


def _compare_live(deal: Deal, buy: Mapping[str, Any], *, whole: bool) -> None:
    if deal.status in LIVE:
        compare(deal, buy, whole=whole)


def _settled(operation: Operation) -> None:
    if operation.subject_type != "deal" or operation.subject_id is None:
        return
    if operation.task_type == _TOOL and operation.purpose.endswith(READ_BACK):
        _read_back(operation)
    elif operation.task_type != "update_media_buy":
        return
    elif operation.status != O.COMPLETED:
        if cancels(operation):
            _still_there(deal_locked(operation.subject_id), operation)
        _awaited_no_more(operation)
    elif cancels(operation) or not operation.overdue_at:
        change_prove(operation)


def _awaited_no_more(operation: Operation) -> None:
    """A change came to nothing, or is overdue: what its seller shows of it already departs from what was
    approved."""
    if operation.subject_type != "deal" or operation.task_type != "update_media_buy":
        return
    deal = deal_locked(_deal_id(operation))
    if awaited_kept(deal):
        _compare_live(deal, {}, whole=False)


def _learnt(operation: Operation) -> None:
    """The answer to a change came after its end was published: it may show what people are asked about."""
    completed = operation.task_type == "update_media_buy" and operation.status == O.COMPLETED
    if not completed or operation.subject_type != "deal" or operation.subject_id is None:
        return
    deal = deal_locked(operation.subject_id)
    told, told_at = answer_of(operation), result_at(operation)
    change_look_again(deal_id=deal.pk, buy=told, asked_at=told_at, whole=False)
    deal.refresh_from_db()
    _refresh(deal, operation)


def _read_back(reading: Operation) -> None:
    rows = Operation.objects.select_related("seller", "account")
    operation = rows.get(purpose=reading.purpose.removesuffix(READ_BACK))
    deal, buy = deal_locked(_deal_id(operation)), buy_in(reading, operation)
    if buy is None:
        if not _is_shown(deal, operation):
            _by_its_answer(deal, operation)
        return
    missed, asked_at = unshown(deal, operation, buy, whole=True), reading.sent_at or reading.created_at
    done = _shows(deal, operation, buy, missed, asked_at=asked_at)
    if done and not _is_shown(deal, operation):
        seller = f"agent:{deal.seller.slug}"
        _done(deal, operation, buy, actor=seller, asked_at=asked_at, missed=missed)
    if is_own(deal, operation):
        deal = deal_follow(deal_id=deal.pk, buy=buy, asked_at=asked_at)
    if not done and not _is_shown(deal, operation):
        _not_shown(deal, operation, missed)
        read_anew(deal, missed)


def _is_shown(deal: Deal, operation: Operation) -> bool:
    """Whether another record showed it already, and it counts."""
    return str(operation.pk) in shown(deal)


def _done(
    deal: Deal,
    operation: Operation,
    buy: Mapping[str, Any],
    *,
    actor: str,
    asked_at: datetime,
    missed: Collection[Miss] | None,
    reason: str = "",
) -> None:
    """The change counts: a cancelled deal is over, of another change what was asked is what was approved.
    `missed`: what the record that shows it does not show all the same; None where people say so."""
    if not cancels(operation):
        if is_change(operation):
            change_take(deal, operation, missed)
            shown_keep(deal, operation)
            if withdraw_decided(deal):
                next_in_line(deal)
        return
    if _is_anothers(deal, operation):
        return
    told = columns_if_newest(deal, buy, asked_at=asked_at)
    if DealStatus.CANCELLED not in deal.declared().targets(deal.status):
        Deal.objects.filter(pk=deal.pk).update(**told)
        return
    reason = (reason or "The seller cancelled it as asked")[:500]
    transition(
        deal,
        DealStatus.CANCELLED,
        actor=actor,
        reason=reason,
        metadata={"operation": operation.reference},
        changes={**told, "differs": False},
    )


def _refresh(deal: Deal, operation: Operation) -> None:
    """Bring the mirror of a deal that is not over up to date with what the answer says."""
    if deal.status in LIVE and is_own(deal, operation):
        change_compare(deal, operation)


def _not_shown(deal: Deal, operation: Operation, missed: list[Miss]) -> None:
    """Nothing shows that it was done: a person is asked, and what the seller did say is taken."""
    if is_nothing(change_left(deal, operation)):
        _compare_anew(deal, operation)
    elif deal.status in LIVE and is_own(deal, operation):
        _refresh(deal, operation)
        deal.refresh_from_db()
        if deals_in_doubt([deal.pk]):
            _wait_in_line(deal, operation, missed)
        else:
            doubt_ask(deal, operation, missed)
    elif cancels(operation):
        _still_there(deal, operation)


def _wait_in_line(deal: Deal, operation: Operation, missed: list[Miss]) -> None:
    """People are asked about one change of a media buy at a time; that it was not cancelled they hear at
    once."""
    if is_done(missed):
        shown_late(deal, operation)
    asked = open_of(deal.pk).filter(evidence__operation_id=str(operation.pk))
    if cancels(operation) and not asked.exists():
        _not_cancelled(deal, operation)


@line_standing()
def _decided(approval: Approval, outcome: Outcome) -> None:
    deal, operation = deal_locked(approval.subject_id), operation_of(approval)
    if outcome.answer == "approved":
        reason = f"Taken as done by {approval.reference}: {outcome.comment}"
        _done(deal, operation, {}, actor=outcome.actor, asked_at=clock.now(), missed=None, reason=reason)
        _compare_live(deal, {}, whole=False)
        next_in_line(deal)
    elif outcome.answer == "rejected":
        if cancels(operation) and not is_change(operation):
            _still_there(deal, operation)
        change_refused(deal, operation)
        _awaited_no_more(operation)
        next_in_line(deal)
    else:
        _ask_again(approval)


@line_standing()
def _ask_again(approval: Approval) -> None:
    deal, operation = deal_locked(approval.subject_id), operation_of(approval)
    doubt_ask(deal, operation, missed_now(deal, operation))


def _question(deal: Deal, operation: Operation) -> dict[str, Any]:
    reference = deal.account.reference if deal.account else None
    asked = requests.GetMediaBuys(
        media_buy_ids=[operation.request["media_buy_id"]],
        account=requests.Account.model_validate(reference) if reference else None,
    )
    return asked.model_dump(mode="json", exclude_none=True)


def _deal_id(operation: Operation) -> Any:
    return operation.subject_id


def _is_anothers(deal: Deal, operation: Operation) -> bool:
    """Whether it is about a media buy that is not the one the deal holds."""
    return bool(deal.media_buy_id) and operation.request.get("media_buy_id") != deal.media_buy_id


def _still_there(deal: Deal, operation: Operation) -> None:
    """The seller has not cancelled what we asked it to cancel: the question is open again."""
    if _is_anothers(deal, operation):
        _not_cancelled(deal, operation)
    elif deal.status in LIVE and _is_refused(deal, operation):
        why = "The seller has not cancelled it" if operation.attempts else operation.message
        note(deal, actor=SYSTEM, reason=why[:500], changes={"differs": True})
        questions.ask_booked_differently(deal)
    elif deal.status in (DealStatus.BOOKING, DealStatus.FAILED) and _is_of_its_purchase(deal, operation):
        late_ask(deal, purchase_of(deal))
    elif deal.status in LIVE or not is_gone(deal):
        _not_cancelled(deal, operation)


def _is_of_its_purchase(deal: Deal, operation: Operation) -> bool:
    """Whether it is about the media buy that the deal's purchase is answered with, and not one that only a
    contradiction named."""
    purchase = purchases_of(deal).first()  # what was imported or adopted has none
    return purchase is not None and operation.request.get("media_buy_id") == bought_by(purchase)


def _is_refused(deal: Deal, operation: Operation) -> bool:
    """Whether a cancellation was asked for because people did not accept what the seller booked."""
    asked = Approval.objects.filter(kind=questions.DIFFERENT, subject_type="deal", subject_id=deal.pk)
    latest = asked.order_by("-pk").values_list("status", flat=True).first()
    return bool(deal.differences) and not is_change(operation) and latest == ApprovalStatus.REJECTED


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
