"""A purchase that was completed after its deadline: people keep it or have it cancelled.

Giving up fails the deal for good; what is kept afterwards is a new deal that follows it (document 000).
"""

from __future__ import annotations

from orders.booking import deal_adopt, deal_confirm
from orders.following import bought_by, twice, twice_words
from orders.lifetimes import late_ask, late_idle
from orders.models import Deal, DealStatus
from orders.nameless import is_nameless, nameless_refused, nameless_words
from orders.po_numbers import NUMBER_USED
from orders.questions import LATE, late_question
from orders.rooms import BEYOND
from orders.services import deal_cancel_at_seller, deal_locked, purchase_of
from tasks_app.approvals.kinds import Kind, Outcome, kind_register, on_closed
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.operations.models import Operation
from tasks_app.operations.services import OperationRefusedError

_KEEPS = "Keeps the media buy the seller made; where its deal was given up, as a new deal that follows it"


def register() -> None:
    """Called when the application starts."""
    on_closed(_closed)
    kind_register(
        Kind(
            name=LATE,
            label="Late completion",
            apply=_purchase_decided,
            version=_deal_version,
            asks=_purchase_again,
            reopen=_reopen,
            effects={
                "approve": f"{_KEEPS}.",
                "reject": "Asks the seller to cancel it.",
                "nothing": "It exists at the seller and is not ours. It is asked about again.",
            },
            effects_for=_words,
            sends=frozenset({"reject"}),
            sends_unless=is_nameless,
            spends=True,
            outlives_job=True,
            decided={"approved": "the media buy is kept", "rejected": "the media buy is not kept"},
        )
    )


def _words(approval: Approval) -> dict[str, str]:
    said = [part for name in (BEYOND, NUMBER_USED) if (part := approval.evidence.get(name))]
    kept = {"approve": f"{_KEEPS}: {'; '.join(said)}."} if said else {}
    return {**kept, **twice_words(approval), **nameless_words(approval)}


def _closed(approval: Approval) -> None:
    """Nobody is needed for a late purchase any more: a deal that only waited for the answer is over."""
    if approval.kind != LATE or approval.status != ApprovalStatus.VOIDED:
        return
    deal = deal_locked(approval.subject_id)
    purchase = purchase_of(deal)
    if late_idle(deal, purchase):
        late_ask(deal, purchase)


def _purchase_decided(approval: Approval, outcome: Outcome) -> None:
    deal = deal_locked(approval.subject_id)
    operation = purchase_of(deal)
    if outcome.answer == "approved":
        _kept(deal, operation, approval, outcome)
    elif outcome.answer == "rejected":
        _refused(deal, operation, approval, outcome)
    else:
        late_ask(deal, operation)


def _kept(deal: Deal, operation: Operation, approval: Approval, outcome: Outcome) -> None:
    bought_twice = twice(deal, bought_by(operation))
    if bought_twice:
        raise DecisionRefusedError("impossible", bought_twice)
    if deal.status == DealStatus.BOOKING:
        deal_confirm(deal=deal, operation=operation)
    else:
        deal_adopt(lost=deal, operation=operation, actor=outcome.actor, approval=approval)


def _refused(deal: Deal, operation: Operation, approval: Approval, outcome: Outcome) -> None:
    named = bought_by(operation)
    if not named:
        nameless_refused(deal, approval, outcome)
        return
    try:
        deal_cancel_at_seller(deal=deal, actor=outcome.actor, reason=outcome.comment, media_buy_id=named)
    except OperationRefusedError as error:
        raise DecisionRefusedError("impossible", f"It cannot be cancelled: {error}") from error


def _purchase_again(approval: Approval) -> Question:
    deal = deal_locked(approval.subject_id)
    return late_question(deal, purchase_of(deal))


def _reopen(approval: Approval) -> None:
    deal = deal_locked(approval.subject_id)
    late_ask(deal, purchase_of(deal))


def _deal_version(approval: Approval) -> int | None:
    """The deal's; None where the purchase is nobody's to decide about any more."""
    deal = deal_locked(approval.subject_id)
    return None if late_idle(deal, purchase_of(deal)) else deal.version
