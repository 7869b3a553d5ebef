"""What people are asked about changes of a media buy that nothing shows: one of them at a time, the others
wait in line; and what the newest record shows of any of them after all, asked about or not.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from orders.amounts import amount_after, deal_amounts
from orders.changes_left import is_nothing
from orders.changes_taken import change_take
from orders.departures import counted
from orders.doubt import (
    READ_BACK,
    answer_of,
    buy_in,
    cancels,
    change_left,
    changes_awaited,
    is_done,
    left_of,
    line_standing,
    missed_of,
    shown,
    shown_keep,
    unshown,
)
from orders.effects import Miss
from orders.evidence import as_text, deal_evidence
from orders.models import LIVE, Deal, DealMirror, lines_read_once
from orders.questions import CHANGE_NOT_SHOWN, deal_question
from orders.services import deal_locked
from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import approval_open, approval_void
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.people.actors import SYSTEM

_OLDER = "What shows it is older than what the seller told of the media buy since"


def changes_count(deal: Deal, buy: Mapping[str, Any], *, whole: bool) -> bool:
    """Let each change in doubt count that the newest record of a media buy shows, whichever way that came:
    one that people are asked about, that waits in line, or that is read back. Whether a question is gone by
    it, and the next may be asked (`next_in_line`). The caller holds the deal, and compares. A cancellation
    is none of these: the deal is over by it."""
    awaited = changes_awaited(deal) if deal.status in LIVE else []
    shown_now = [(one, shown_by(deal, one, buy, whole=whole)) for one in awaited]
    counting = [(one, missed) for one, missed in shown_now if missed is not None and not _is_held(deal, one)]
    for operation, missed in counting:
        change_take(deal, operation, missed)
    asked = [_close(deal, operation) for operation, _ in counting]
    return bool(counting) and (withdraw_decided(deal) or any(asked))


def shown_by(deal: Deal, operation: Operation, buy: Mapping[str, Any], *, whole: bool) -> list[Miss] | None:
    """What a record that shows a change does not state of it; None of one that does not show it: a record
    that says nothing of what was asked shows nothing."""
    missed = unshown(deal, operation, buy, whole=whole)
    silent = unshown(deal, operation, {}, whole=False)
    is_shown = all(miss.unstated for miss in missed) and len(missed) < len(silent)
    return missed if is_shown else None


def _is_held(deal: Deal, operation: Operation) -> bool:
    """Whether somebody decides about it at this moment, who has the last word."""
    asked = open_of(deal.pk).filter(evidence__operation_id=str(operation.pk))
    return asked.exists() and not list(asked.select_for_update(no_key=True, skip_locked=True))


def _close(deal: Deal, operation: Operation) -> bool:
    """Nobody needs to be asked about it any more; whether somebody was."""
    asked = open_of(deal.pk).filter(evidence__operation_id=str(operation.pk)).first()
    if asked is None:
        shown_keep(deal, operation)
        return False
    approval_void(approval=asked, reason=f"{deal.seller} shows it now")
    return True


def deals_in_doubt(deal_ids: Iterable[uuid.UUID]) -> set[uuid.UUID]:
    """Those of which people are asked whether a change was done."""
    asked = Approval.objects.filter(
        kind=CHANGE_NOT_SHOWN, subject_type="deal", subject_id__in=deal_ids, status=ApprovalStatus.OPEN
    )
    return set(asked.values_list("subject_id", flat=True))


def read_anew(deal: Deal, missed: list[Miss]) -> None:
    """Where only news older than ours shows a change: what holds now?"""
    if is_done(missed) and deal.status in LIVE:
        DealMirror.objects.filter(deal=deal).update(due_at=clock.now())


def withdraw_decided(deal: Deal) -> bool:
    """A newer change counts: people are asked no more about one of which it leaves nothing; whether they
    were. Who is deciding at this moment finds that it is moot."""
    asked = open_of(deal.pk).select_for_update(no_key=True, skip_locked=True)
    moot = [one for one in asked if is_nothing(change_left(deal, operation_of(one)))]
    for approval in moot:
        approval_void(approval=approval, reason="A newer change has decided what it is about")
    return bool(moot)


def doubt_ask(deal: Deal, operation: Operation, missed: list[Miss]) -> Approval:
    """Ask people whether a change was done of which nothing shows that."""
    question = _question_of(deal, operation, missed)
    return approval_open(question=question, requested_by=operation.requested_by, opened_by=SYSTEM)


@lines_read_once
def _question_of(deal: Deal, operation: Operation, missed: list[Miss]) -> Question:
    verb = "cancellation" if cancels(operation) else "change"
    asked = change_left(deal, operation)
    return deal_question(
        deal,
        kind=CHANGE_NOT_SHOWN,
        title=f"{deal.seller} does not show the {verb} of {deal.reference}",
        evidence={
            **deal_evidence(deal),
            "media_buy_id": deal.media_buy_id,
            "operation": operation.reference,
            "operation_id": str(operation.pk),
            "change": as_text(asked),
            "answered": as_text(operation.result or {}),
            "not_shown": as_text([miss.words for miss in missed]),
            "not_shown_in_words": _OLDER if is_done(missed) else "; ".join(map(_in_words, missed)),
            "seller_says": deal.media_buy_status,
        },
        policy="A change that neither the answer nor a read back shows",
        amount=counted(deal, amount_after(deal, asked)),
        approved=deal_amounts(deal).approved,
    )


def question_again(approval: Approval) -> Question:
    """The question as it would be asked now."""
    deal, operation = deal_locked(approval.subject_id), operation_of(approval)
    return _question_of(deal, operation, missed_now(deal, operation))


def missed_now(deal: Deal, operation: Operation) -> list[Miss]:
    """What the read back of a change does not show; where there is none, what its answer does not."""
    reading = Operation.objects.filter(
        purpose=f"{operation.purpose}{READ_BACK}", published_at__isnull=False
    ).first()
    buy = buy_in(reading, operation) if reading else None
    if buy is not None:
        return unshown(deal, operation, buy, whole=True)
    return unshown(deal, operation, answer_of(operation), whole=False)


@line_standing()
def next_in_line(deal: Deal) -> None:
    """Ask about the next change that nothing shows and nobody was asked about."""
    if deal.status not in LIVE:
        return
    asked = Approval.objects.filter(kind=CHANGE_NOT_SHOWN, subject_type="deal", subject_id=deal.pk)
    known = [*asked.values_list("evidence__operation_id", flat=True), *shown(deal)]
    since = asked.order_by("created_at").values_list("created_at", flat=True)[0]
    completed = Operation.objects.filter(
        subject_type="deal", subject_id=deal.pk, task_type="update_media_buy", status=O.COMPLETED
    )
    rows = list(completed.exclude(pk__in=known).select_related("seller", "account").order_by("id"))
    left = left_of(deal, rows)
    for operation in rows:
        missed = missed_of(deal, operation, since, left[operation.pk])
        if missed is not None:
            doubt_ask(deal, operation, missed)
            read_anew(deal, missed)
            return


def _in_words(miss: Miss) -> str:
    where = f"{miss.where} " if miss.where else ""
    unsaid = "the seller does not state it" if miss.unstated else "nothing said"
    shown = unsaid if miss.shown is None else _json(miss.shown)
    return f"{where}{miss.field}: asked for {_json(miss.asked)}, {shown}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def version_of(approval: Approval) -> int | None:
    """The deal's version, held still until the decision's commit; None where its media buy is over, or newer
    changes have decided all of it."""
    deals = Deal.objects.filter(pk=approval.subject_id, status__in=LIVE).select_for_update(no_key=True)
    deal = deals.first()
    if deal is None or is_nothing(change_left(deal, operation_of(approval))):
        return None
    return deal.version


def open_of(deal_id: uuid.UUID) -> Any:
    """What people are asked about a deal's changes now."""
    return Approval.objects.filter(
        kind=CHANGE_NOT_SHOWN, subject_type="deal", subject_id=deal_id, status=ApprovalStatus.OPEN
    )


def operation_of(approval: Approval) -> Operation:
    """The change that a question is about."""
    rows = Operation.objects.select_related("seller", "account")
    return rows.get(pk=approval.evidence["operation_id"], subject_id=approval.subject_id)
