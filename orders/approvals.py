"""What people's answers do to deals."""

from __future__ import annotations

from collections.abc import Callable

from orders.amending import deal_amend
from orders.models import LIVE, UNDECIDED, Deal, DealStatus
from orders.po_numbers import others_of
from orders.questions import (
    DEAL,
    DIFFERENT,
    PO_NUMBER,
    ask_booked_differently,
    ask_deal,
    ask_po_number,
)
from orders.services import deal_cancel_at_seller, deal_locked, deal_withdraw_held, purchase_of
from tasks_app.approvals.kinds import Kind, Outcome, kind_register
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.jobs.planning import job_start
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.services import OperationRefusedError
from tasks_app.people.actors import SYSTEM

_NO_VERSION = -1


def register() -> None:
    """Called when the application starts."""
    kind_register(
        Kind(
            name=DEAL,
            label="Recommendation",
            apply=_deal_decided,
            version=_undecided_version,
            reopen=lambda approval: _again(approval, ask_deal),
            effects={
                "approve": "Sends create_media_buy to the seller.",
                "reject": "Cancels the deal and frees its budget.",
                "nothing": "It expires at the deadline. Waiting never approves.",
            },
            amend=deal_amend,
        )
    )
    kind_register(
        Kind(
            name=PO_NUMBER,
            label="Purchase-order number",
            apply=_po_number_decided,
            version=_undecided_version,
            reopen=lambda approval: _again(approval, _ask_po_number_again),
            effects={
                "approve": "Puts the deal itself to people; nothing is bought yet.",
                "reject": "Cancels the deal and frees its budget.",
                "nothing": "It expires at the deadline. Waiting never approves.",
            },
        )
    )
    kind_register(
        Kind(
            name=DIFFERENT,
            label="Booked differently",
            apply=_difference_decided,
            version=_differing_version,
            reopen=lambda approval: _again(approval, ask_booked_differently),
            effects={
                "approve": "Accepts what the seller booked; the flag is taken off.",
                "reject": "Asks the seller to cancel the media buy.",
                "nothing": "It stays booked and flagged, and is asked about again.",
            },
        )
    )


def _deal_decided(approval: Approval, outcome: Outcome) -> None:
    deal = deal_locked(approval.subject_id)
    if deal.status not in UNDECIDED:
        return
    if outcome.answer == "approved":
        transition(
            deal,
            DealStatus.ACCEPTED,
            actor=outcome.actor,
            reason=outcome.comment,
            metadata={"approval": approval.reference},
        )
        if deal.campaign_id is None:
            job_start(
                recipe="book_deal",
                inputs={"deal_id": str(deal.pk)},
                team=deal.team,
                actor=SYSTEM,
                subject_type="deal",
                subject_id=deal.pk,
            )
        return
    _called_off(deal, approval, outcome)


def _called_off(deal: Deal, approval: Approval, outcome: Outcome) -> None:
    to = DealStatus.CANCELLED if outcome.answer == "rejected" else DealStatus.EXPIRED
    transition(
        deal, to, actor=outcome.actor, reason=outcome.comment, metadata={"approval": approval.reference}
    )
    deal_withdraw_held(deal=deal, reason=outcome.comment or outcome.answer)


def _po_number_decided(approval: Approval, outcome: Outcome) -> None:
    deal = deal_locked(approval.subject_id)
    if deal.status not in UNDECIDED:
        return
    if outcome.answer == "approved":
        ask_deal(deal)
    else:
        _called_off(deal, approval, outcome)


def _ask_po_number_again(deal: Deal) -> Approval:
    purchase = purchase_of(deal)
    return ask_po_number(deal, purchase, others_of(deal, purchase))


def _difference_decided(approval: Approval, outcome: Outcome) -> None:
    deal = deal_locked(approval.subject_id)
    if outcome.answer == "approved":
        Deal.objects.filter(pk=deal.pk).update(differs=False)
    elif outcome.answer == "rejected":
        try:
            deal_cancel_at_seller(deal=deal, actor=outcome.actor, reason=outcome.comment)
        except OperationRefusedError as error:
            raise DecisionRefusedError("impossible", f"It cannot be cancelled: {error}") from error
    else:
        ask_booked_differently(deal)


def _undecided_version(approval: Approval) -> int | None:
    return _locked_version(approval, status__in=UNDECIDED)


def _version(approval: Approval) -> int | None:
    return _locked_version(approval)


def _differing_version(approval: Approval) -> int | None:
    """None where the media buy is over; no version where the seller says something else than was shown."""
    version = _locked_version(approval, status__in=LIVE)
    shown = approval.evidence.get("differences")
    same = Deal.objects.filter(pk=approval.subject_id, differences=shown).exists()
    return version if version is None or same else _NO_VERSION


def _locked_version(approval: Approval, **wanted: object) -> int | None:
    """The deal's version, held still until the decision's commit."""
    deals = Deal.objects.filter(pk=approval.subject_id, **wanted).select_for_update(no_key=True)
    return deals.values_list("version", flat=True).first()


def _again(approval: Approval, ask: Callable[[Deal], Approval]) -> None:
    ask(deal_locked(approval.subject_id))
