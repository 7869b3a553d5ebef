"""What came after its deadline is a person's: a purchase is kept or cancelled, a change taken or compared.

Giving up fails the deal for good; what is kept afterwards is a new deal that follows it (document 000).
"""

from __future__ import annotations

import json
from typing import Any

from orders.booking import deal_adopt, deal_confirm
from orders.changes import CHANGES, change_compare, change_take, is_change
from orders.evidence import deal_evidence
from orders.models import Deal, DealStatus
from orders.questions import LATE, LATE_CHANGE, ask_late_completion
from orders.services import deal_cancel_at_seller, deal_locked, purchase_of
from tasks_app.approvals.kinds import Kind, Outcome, kind_register
from tasks_app.approvals.models import Approval
from tasks_app.approvals.plain import as_text
from tasks_app.approvals.services import DecisionRefusedError, approval_open
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.publish import on_settled
from tasks_app.operations.questions import operation_question
from tasks_app.operations.services import OperationRefusedError
from tasks_app.people.actors import SYSTEM


def register() -> None:
    """Called when the application starts."""
    on_settled(_settled)
    kind_register(
        Kind(
            name=LATE,
            label="Late completion",
            apply=_purchase_decided,
            version=_deal_version,
            reopen=_reopen,
            effects={
                "approve": "Keeps the media buy the seller made after its deadline; "
                "where its deal was given up, as a new deal that follows it.",
                "reject": "Asks the seller to cancel it.",
                "nothing": "It exists at the seller and is not ours. It is asked about again.",
            },
        )
    )
    kind_register(
        Kind(
            name=LATE_CHANGE,
            label="Late change",
            apply=_change_decided,
            version=_change_version,
            reopen=_reopen_change,
            effects={
                "approve": "Takes the change as it was approved.",
                "reject": "Keeps what was approved before; the seller's change is shown as a departure, "
                "to be accepted or cancelled.",
                "nothing": "The media buy is changed at the seller and not here. It is asked about again.",
            },
        )
    )


def change_ask(operation: Operation) -> Approval:
    """Ask people whether a change that the seller made after its deadline is still wanted."""
    deal = deal_locked(_deal_id(operation))
    question = operation_question(
        operation,
        kind=LATE_CHANGE,
        team=deal.team,
        title=f"{deal.seller} changed {deal.reference} after its deadline",
        evidence={
            **deal_evidence(deal),
            "media_buy_id": deal.media_buy_id,
            "change": as_text(operation.request),
            "answered": as_text(operation.result or {}),
            "change_in_words": json.dumps(_changed(operation), ensure_ascii=False),
        },
        policy="Completed after its deadline",
    )
    return approval_open(question=question, requested_by=SYSTEM)


def _settled(operation: Operation) -> None:
    if is_change(operation) and operation.status == OperationStatus.COMPLETED and operation.overdue_at:
        change_ask(operation)


def _purchase_decided(approval: Approval, outcome: Outcome) -> None:
    deal = deal_locked(approval.subject_id)
    operation = purchase_of(deal)
    if outcome.answer == "approved" and deal.status == DealStatus.BOOKING:
        deal_confirm(deal=deal, operation=operation)
    elif outcome.answer == "approved":
        deal_adopt(lost=deal, operation=operation, actor=outcome.actor, approval=approval)
    elif outcome.answer == "rejected":
        _cancel(deal, operation, outcome)
    else:
        _ask_again(deal)


def _cancel(deal: Deal, operation: Operation, outcome: Outcome) -> None:
    named = (operation.result or {}).get("media_buy_id")
    try:
        deal_cancel_at_seller(
            deal=deal,
            actor=outcome.actor,
            reason=outcome.comment,
            media_buy_id=named if isinstance(named, str) else "",
        )
    except OperationRefusedError as error:
        raise DecisionRefusedError("impossible", f"It cannot be cancelled: {error}") from error


def _ask_again(deal: Deal) -> Approval:
    return ask_late_completion(deal, purchase_of(deal))


def _reopen(approval: Approval) -> None:
    _ask_again(deal_locked(approval.subject_id))


def _deal_version(approval: Approval) -> int | None:
    """The deal's version, held still until the decision's commit."""
    deals = Deal.objects.filter(pk=approval.subject_id).select_for_update(no_key=True)
    return deals.values_list("version", flat=True).first()


def _change_decided(approval: Approval, outcome: Outcome) -> None:
    operation = Operation.objects.get(pk=approval.subject_id)
    if outcome.answer == "approved":
        change_take(operation)
    elif outcome.answer == "rejected":
        change_compare(deal_locked(_deal_id(operation)), operation)
    else:
        change_ask(operation)


def _reopen_change(approval: Approval) -> None:
    change_ask(Operation.objects.get(pk=approval.subject_id))


def _change_version(approval: Approval) -> int | None:
    found = Operation.objects.filter(pk=approval.subject_id)
    return found.values_list("version", flat=True).first()


def _changed(operation: Operation) -> dict[str, Any]:
    """What the change asks for, without what every request carries."""
    return {name: operation.request[name] for name in CHANGES if name in operation.request}


def _deal_id(operation: Operation) -> Any:
    return operation.subject_id
