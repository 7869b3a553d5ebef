"""Whether an order that is about to leave is what people approved; else it is held, and they are asked again.

Compared at the last moment, under the deal's lock, so that it holds however long the order waited: for its
account, for other questions, at a gate, or in its seller's queue. What is compared is the question itself, as
it was approved and as it would be asked now: the request, and who pays, at which terms, under which account.
"""

from __future__ import annotations

import uuid

import structlog

from orders.changes.send import CHANGE, change_ask_again, change_question, is_change, is_left_behind
from orders.models import Deal, DealStatus
from orders.questions import DEAL, ask_deal, booking_question
from orders.services import lock_deal_if_free
from tasks_app.approvals.changes import evidence_changes
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.question import is_as_shown
from tasks_app.commands.gates import Gate, gate_register
from tasks_app.commands.models import Command
from tasks_app.lifecycle.transitions import exact
from tasks_app.operations.leaving import Leaving, approved_register, last_look_register
from tasks_app.operations.models import Operation
from tasks_app.operations.ordering import PLACE
from tasks_app.operations.resend import had_no_effect, may_have_acted

log = structlog.get_logger(__name__)
_PURCHASE, _CHANGE = "create_media_buy", "update_media_buy"
GATE = "not_as_approved"
_WITH = ("seller", "team", "account", "advertiser")
_TOLD, _WHY = 3, 400


def register() -> None:
    """Called when the application starts."""
    last_look_register(_was_let_go)
    approved_register(is_as_approved)
    gate_register(Gate(name=GATE, label="Not as approved", why_closed=_why_not_again))


def _was_let_go(leaving: Leaving) -> bool:
    """Whether people let an order go at all, whatever made it due: a purchase leaves while its deal is being
    bought, a change that somebody asked for once a question of its own was approved. Else it stays held,
    with whatever question waits. What may have had an effect is sent again as it was, and an answer to the
    seller has a decision of its own."""
    operation = leaving.operation
    if leaving.is_answer or not had_no_effect(operation) or _has_let_go(operation):
        return True
    Operation.objects.filter(pk=operation.pk).update(send_at=None)
    log.warning("order_not_let_go", operation=operation.reference)
    return False


def _has_let_go(operation: Operation) -> bool:
    deal_id = operation.subject_id if operation.subject_type == "deal" else None
    if deal_id is None or operation.task_type not in (_PURCHASE, _CHANGE):
        return True
    if operation.task_type == _PURCHASE:
        return Deal.objects.filter(pk=deal_id, status=DealStatus.BOOKING).exists()
    return not is_change(operation) or _approved(operation) is not None


def is_as_approved(operation: Operation) -> bool:
    """Whether an order is what people approved. Where it is not, it is held and asked about again; while
    somebody else has the deal it is looked at later. What may have had an effect is sent again as it was; a
    purchase that is repeated has a gate of its own (`_why_not_again`)."""
    deal_id = operation.subject_id if operation.subject_type == "deal" else None
    if deal_id is None or operation.task_type not in (_PURCHASE, _CHANGE):
        return True
    if operation.attempts and (operation.task_type == _PURCHASE or not had_no_effect(operation)):
        return True
    approved = _approved(operation)
    if approved is None and operation.task_type == _PURCHASE:
        return True  # the deal is being bought, and its guard says when that takes an approval
    deal = lock_deal_if_free(deal_id)
    if deal is None:
        return False
    if approved is not None and operation.task_type == _PURCHASE:
        return _purchase_is(deal, operation, approved)
    return _change_is(deal, operation, approved)


def is_as_last_approved(deal: Deal, operation: Operation) -> bool:
    """Whether what an order came from still is what people approved; nothing is held or asked."""
    approved = _approved(operation)
    if operation.task_type == _PURCHASE:
        return approved is not None and is_as_shown(approved, booking_question(deal))
    return _change_stands(deal, operation, approved)


def _purchase_is(deal: Deal, operation: Operation, approved: Approval) -> bool:
    if is_as_shown(approved, booking_question(deal)):
        return True
    Operation.objects.filter(pk=operation.pk).update(send_at=None)
    ask_deal(deal, instead_of=approved)
    return False


def _change_is(deal: Deal, operation: Operation, approved: Approval | None) -> bool:
    stands = _change_stands(deal, operation, approved)
    if not stands:
        change_ask_again(deal, operation, approved)
    return stands


def _change_stands(deal: Deal, operation: Operation, approved: Approval | None) -> bool:
    """What no question of its own was asked about (a cancellation that follows from another decision) is for
    the revision that it names."""
    if approved is None:
        return not is_left_behind(deal, operation)
    return is_as_shown(approved, change_question(deal, operation))


def _why_not_again(command: Command) -> str:
    """Why a purchase that certainly had no effect is not what was approved any more; empty where it is. What
    may have had one is sent again as it was, for it may be bought already."""
    if command.kind != PLACE or command.subject_type != "deal":
        return ""
    operation = Operation.objects.get(pk=uuid.UUID(command.operation_id))
    approved = _approved(operation)
    if approved is None or operation.attempts == 0 or may_have_acted(operation):
        return ""
    now = booking_question(Deal.objects.select_related(*_WITH).get(pk=approved.subject_id))
    if is_as_shown(approved, now):
        return ""
    found = evidence_changes(approved.evidence, exact(now.evidence))
    departing = [one for one in found if one.keys[0] not in now.moving][:_TOLD]
    said = ", ".join(f"{one.path.replace('_', ' ')} {one.before}, now {one.after}" for one in departing)
    return f"It is not what {approved.reference} approved: {said or now.title}"[:_WHY]


def _approved(operation: Operation) -> Approval | None:
    """What people last approved of an order: the deal's own purchase, or that change."""
    if operation.subject_id is None:
        return None
    asked = Approval.objects.filter(
        subject_type="deal", subject_id=operation.subject_id, status=ApprovalStatus.APPROVED
    )
    if operation.task_type == _PURCHASE:
        return asked.filter(kind=DEAL).order_by("-pk").first()
    return asked.filter(kind=CHANGE, evidence__operation_id=str(operation.pk)).order_by("-pk").first()
