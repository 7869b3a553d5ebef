"""What becomes of a flight that has begun before it was bought: people take new dates, and decide on these,
or call it off. It is never sent as it was.

A deal that nobody has decided on is given its new dates. One that was approved is never put forward again
(document 002), and what an integrator asked for is bought as it is: these are called off, and a new deal with
the new dates follows.
"""

from __future__ import annotations

import uuid

from django.db import transaction

from orders.ask import Ask, AskConflictError, AskRefusedError
from orders.changes.send import change_passed_put
from orders.flights import (
    Flight,
    change_passed,
    deal_passed,
    line_flight,
    new_flight,
    new_start,
    purchase_redated,
    request_passed,
)
from orders.models import UNDECIDED, Deal, DealStatus
from orders.purchases import purchase_ask
from orders.questions import FLIGHT, ask_deal, ask_flight, flight_question
from orders.services import DealDraft, LineDraft, deal_amended, deal_locked, deal_quote, purchase_purpose
from tasks_app import clock
from tasks_app.approvals.kinds import Kind, Outcome, kind_register
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.desk.items import lowered
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.corrections import as_asked
from tasks_app.operations.leaving import Leaving, last_look_register
from tasks_app.operations.models import Operation
from tasks_app.operations.ordering import order_withdraw
from tasks_app.operations.pauses import answer_hold_back
from tasks_app.operations.resend import is_unsent, may_have_acted
from tasks_app.operations.services import OperationRefusedError
from tasks_app.people.actors import SYSTEM, actor_user

_KEPT = (
    "channel",
    "product_id",
    "product_name",
    "pricing_option_id",
    "pricing_model",
    "is_fixed",
    "guaranteed",
    "rate",
    "ceiling",
    "budget",
    "minimum",
    "units",
    "targeting",
    "forecast",
    "terms",
)


def register() -> None:
    """Called when the application starts."""
    last_look_register(looked_at)
    kind_register(
        Kind(
            name=FLIGHT,
            label="Flight begun",
            apply=_decided,
            version=_version,
            asks=_again,
            reopen=_reopen,
            effects={
                "approve": "Takes the new dates, and asks for approval again; nothing is bought yet.",
                "reject": "Calls the deal off and frees its budget.",
                "nothing": "It is not bought. What nobody has approved expires; else it is asked again.",
            },
            decided={
                "approved": "the new dates are taken, and approved again before anything is bought",
                "rejected": "the deal is called off",
                "expired": "the deal expires",
            },
        )
    )


def looked_at(leaving: Leaving) -> bool:
    """Whether what is about to leave is for a flight that is still ahead; else it is taken off the way, and
    people are asked. What an earlier attempt may have bought is looked up at the seller instead, and an
    answer to the seller may be given anew, with new dates."""
    operation = leaving.operation
    passed = request_passed(leaving.request)
    if not passed:
        return True
    deal = _deal_of(operation)
    is_purchase = operation.task_type == "create_media_buy"
    if deal is None or not (is_purchase or change_passed(deal, leaving.request)):
        return True
    if leaving.is_answer:
        answer_hold_back(operation, lowered(passed))
        return False
    looks = may_have_acted(operation)
    next_look = {"next_poll_at": clock.now()} if looks else {}
    Operation.objects.filter(pk=operation.pk).update(send_at=None, **next_look)
    if looks:
        return False
    operation.send_at = None
    if is_purchase:
        ask_flight(deal)
    else:
        change_passed_put(deal, operation)
    return False


@transaction.atomic
def flight_asked(deal_id: uuid.UUID) -> Approval | None:
    """The open question about an approved deal's flight that has begun, put now where it was not; None while
    it is still ahead."""
    deal = deal_locked(deal_id)
    if deal.status != DealStatus.ACCEPTED or not deal_passed(deal):
        return None
    return ask_flight(deal)


def ended_by_flight(deal: Deal) -> bool:
    """Whether people called it off, or put it forward anew, because its flight had begun."""
    decided = (ApprovalStatus.APPROVED, ApprovalStatus.REJECTED)
    about = Approval.objects.filter(kind=FLIGHT, subject_type="deal", subject_id=deal.pk, status__in=decided)
    return deal.status == DealStatus.CANCELLED and about.exists()


def _deal_of(operation: Operation) -> Deal | None:
    dated = operation.task_type in ("create_media_buy", "update_media_buy")
    if not dated or operation.subject_type != "deal":
        return None
    rows = Deal.objects.select_related("seller", "team", "account", "advertiser")
    return rows.filter(pk__in=[operation.subject_id]).first()


def _again(approval: Approval) -> Question:
    return flight_question(deal_locked(approval.subject_id), approval.evidence.get("new_start"))


def _version(approval: Approval) -> int | None:
    """None where it is over, or was bought, or may have been."""
    deal = Deal.objects.select_for_update(no_key=True).get(pk=approval.subject_id)
    if deal.status in (*UNDECIDED, DealStatus.ACCEPTED):
        return deal.version
    purchase = _purchase(deal)
    is_held = purchase is not None and is_unsent(purchase) and purchase.send_at is None
    return deal.version if deal.status == DealStatus.BOOKING and is_held else None


def _reopen(approval: Approval) -> None:
    deal = deal_locked(approval.subject_id)
    ask_deal(deal) if deal.status in UNDECIDED else ask_flight(deal)


def _decided(approval: Approval, outcome: Outcome) -> None:
    deal = deal_locked(approval.subject_id)
    if outcome.answer == "approved":
        _redate(deal, approval, outcome)
    elif outcome.answer == "rejected":
        _call_off(deal, DealStatus.CANCELLED, outcome.comment, outcome.actor, approval)
    elif deal.status in UNDECIDED:
        _call_off(deal, DealStatus.EXPIRED, outcome.comment, outcome.actor, approval)
    else:
        ask_flight(deal)


def _redate(deal: Deal, approval: Approval, outcome: Outcome) -> None:
    after = new_flight(deal, new_start(deal, approval.evidence["new_start"]))
    purchase = _purchase(deal)
    if deal.status in UNDECIDED and purchase is None:
        _give(deal, after, approval)
        ask_deal(deal_locked(deal.pk))
        return
    why = f"Its flight had begun: put forward anew by {approval.reference}"
    _call_off(deal, DealStatus.CANCELLED, why, outcome.actor, approval)
    if purchase is not None and purchase.requested_by != SYSTEM:
        _purchase_anew(deal, purchase, after)
    else:
        ask_deal(_quote_anew(deal, after, approval))


def _give(deal: Deal, after: Flight, approval: Approval) -> None:
    """New dates for a deal, and for each of its lines within them."""
    before, lines = Flight(start=deal.start_at, end=deal.end_at), list(deal.lines.all())
    for line in lines:
        to = line_flight(Flight(start=line.start_at, end=line.end_at), before, after, deal.zone)
        line.start_at, line.end_at = to.start, to.end
    reason = f"New dates, for its flight had begun: {approval.reference}"
    changes = {"start_at": after.start, "end_at": after.end}
    deal_amended(deal, actor=SYSTEM, reason=reason, lines=lines, changes=changes)


def _quote_anew(lost: Deal, after: Flight, approval: Approval) -> Deal:
    """The same deal for the new dates, put forward."""
    before = Flight(start=lost.start_at, end=lost.end_at)
    lines = []
    for line in lost.lines.all():
        to = line_flight(Flight(start=line.start_at, end=line.end_at), before, after, lost.zone)
        kept = {name: getattr(line, name) for name in _KEPT}
        lines.append(LineDraft(**kept, start_at=to.start, end_at=to.end))
    draft = DealDraft(
        team=lost.team,
        advertiser=lost.advertiser,
        seller=lost.seller,
        account=lost.account,
        currency=lost.currency,
        start_at=after.start,
        end_at=after.end,
        zone=lost.zone,
        lines=lines,
        terms=lost.terms,
        reasons={**lost.reasons, "replaces": lost.reference},
        campaign_id=lost.campaign_id,
        follows=lost,
    )
    reason = f"{lost.reference} for new dates, by {approval.reference}"
    deal = deal_quote(draft=draft, actor=SYSTEM, requested_by=lost.requested_by, reason=reason)
    return deal_locked(deal.pk)


def _purchase_anew(lost: Deal, purchase: Operation, after: Flight) -> None:
    """The integrator's own request for the new dates, in their name. Raises DecisionRefusedError."""
    user = actor_user(purchase.requested_by)
    if user is None:
        raise DecisionRefusedError("impossible", "Who asked for it is gone: reject it, and ask anew.")
    arguments = purchase_redated(as_asked(purchase), lost, after.start)
    if arguments.get("po_number") == lost.reference:  # it was only the deal's own
        del arguments["po_number"]
    ask = Ask(user=user, task=purchase.task_type, seller=lost.seller, arguments=arguments)
    try:
        purchase_ask(ask, in_place_of=lost, opened_by=SYSTEM)
    except (AskRefusedError, AskConflictError, OperationRefusedError) as error:
        raise DecisionRefusedError("impossible", f"It cannot be asked for anew: {error}") from error


def _call_off(deal: Deal, to: DealStatus, why: str, actor: str, approval: Approval) -> None:
    transition(deal, to, actor=actor, reason=why, metadata={"approval": approval.reference})
    purchase = _purchase(deal)
    if purchase is not None and is_unsent(purchase):
        order_withdraw(operation=purchase, reason=why, actor=actor)


def _purchase(deal: Deal) -> Operation | None:
    return Operation.objects.select_related("seller").filter(purpose=purchase_purpose(deal)).first()
