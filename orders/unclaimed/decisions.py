"""What people decide about an unclaimed media buy: keep it as a deal, or have the seller cancel it."""

from __future__ import annotations

from orders.booking import deal_adopt, deal_confirm
from orders.models import Deal, DealStatus, UnclaimedBuy
from orders.po_numbers import NUMBER_USED
from orders.rooms import lock_budget
from orders.services import deal_cancel_at_seller, deal_locked, purchases_of
from orders.terms.stated import status_of
from orders.unclaimed.question import (
    CANNOT_CANCEL,
    CANNOT_KEEP,
    UNCLAIMED,
    cancel_refusal,
    keep_refusal,
    unclaimed_question,
    undecided_buy,
)
from orders.unclaimed.unclaimed_buys import close_unclaimed, end_lost_deal, find_closing, review_unclaimed
from tasks_app.adcp.types import BUY_GONE
from tasks_app.approvals.kinds import Kind, Outcome, kind_register
from tasks_app.approvals.models import Approval
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.notifications.services import About, notify
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.publish import on_settled
from tasks_app.operations.services import OperationRefusedError

_KEEPS = "Keeps the media buy on the seller’s terms"


def register() -> None:
    """Called when the application starts."""
    on_settled(_cancellation_ended)
    kind_register(
        Kind(
            name=UNCLAIMED,
            label="Unclaimed media buy",
            apply=_decided,
            version=_version,
            asks=_question_now,
            reopen=lambda approval: review_unclaimed(deal_locked(approval.subject_id)),
            effects={
                "approve": f"{_KEEPS}, as a new deal if its own has ended.",
                "reject": "Asks the seller to cancel it.",
                "nothing": "The media buy keeps running. People are asked about it again.",
            },
            effects_for=_effects,
            sends=frozenset({"reject"}),
            sends_unless=lambda evidence: CANNOT_CANCEL in evidence,
            spends=True,
            outlives_job=True,
            decided={"approved": "the media buy is kept", "rejected": "the media buy is not kept"},
        )
    )


def _effects(approval: Approval) -> dict[str, str]:
    evidence, words = approval.evidence, {}
    if CANNOT_KEEP in evidence:
        words["approve"] = f"Not possible: {evidence[CANNOT_KEEP]} It can only be cancelled."
    elif NUMBER_USED in evidence:
        words["approve"] = f"{_KEEPS}. {evidence[NUMBER_USED]}."
    if CANNOT_CANCEL in evidence:
        words["reject"] = f"Sends nothing. {evidence[CANNOT_CANCEL]}"
    return words


def _version(approval: Approval) -> int | None:
    """Return the version that was asked about, None if nobody has to decide. The evidence tells the rest."""
    deal = deal_locked(approval.subject_id)
    buy = undecided_buy(deal)
    return None if buy is None or find_closing(deal, buy) is not None else approval.subject_version


def _question_now(approval: Approval) -> Question:
    deal = deal_locked(approval.subject_id)
    return unclaimed_question(deal, _undecided(deal))


def _undecided(deal: Deal) -> UnclaimedBuy:
    buy = undecided_buy(deal)
    if buy is None:
        raise DecisionRefusedError("impossible", "No unclaimed media buy is left.")
    return buy


def _decided(approval: Approval, outcome: Outcome) -> None:
    deal = deal_locked(approval.subject_id)
    if outcome.answer == "approved":
        _keep(deal, _undecided(deal), approval, outcome)
    elif outcome.answer == "rejected":
        _cancel(deal, _undecided(deal), approval, outcome)
    review_unclaimed(deal)


def _keep(deal: Deal, buy: UnclaimedBuy, approval: Approval, outcome: Outcome) -> None:
    if deal.campaign_id is not None:
        lock_budget(deal.campaign_id)
    refused = keep_refusal(deal, buy)
    if refused:
        raise DecisionRefusedError("impossible", f"{refused} It can only be cancelled.")
    close_unclaimed(buy, UnclaimedBuy.Outcome.KEPT)
    purchase = purchases_of(deal).first()
    if deal.status == DealStatus.BOOKING and purchase is not None:
        deal_confirm(deal=deal, operation=purchase, result=buy.record, kept_by=outcome.actor)
    else:
        deal_adopt(lost=deal, record=buy.record, actor=outcome.actor, approval=approval)


def _cancel(deal: Deal, buy: UnclaimedBuy, approval: Approval, outcome: Outcome) -> None:
    if why := cancel_refusal(buy):
        close_unclaimed(buy, UnclaimedBuy.Outcome.DROPPED)
        reason = f"Not kept: {outcome.comment}. {why}"
        end_lost_deal(deal, reason, actor=outcome.actor, metadata={"approval": approval.reference})
        return
    try:
        buy.cancellation = deal_cancel_at_seller(
            deal=deal, actor=outcome.actor, reason=outcome.comment, media_buy_id=buy.media_buy_id
        )
    except OperationRefusedError as error:
        raise DecisionRefusedError("impossible", f"It cannot be cancelled: {error}") from error
    buy.save(update_fields=["cancellation"])


def _cancellation_ended(operation: Operation) -> None:
    """Close what the seller cancelled; ask people again about what it did not cancel.

    An answer that states no status is believed. Reconciliation finds the media buy if it still runs.
    """
    found = UnclaimedBuy.objects.filter(cancellation=operation, closed_at__isnull=True).first()
    if found is None:
        return
    deal = deal_locked(found.deal_id)
    buy = UnclaimedBuy.objects.select_for_update(of=("self",), no_key=True).get(pk=found.pk)
    is_done = operation.status == OperationStatus.COMPLETED
    if is_done and status_of(operation.result or {}) in (None, *BUY_GONE):
        close_unclaimed(buy, UnclaimedBuy.Outcome.CANCELLED)
        end_lost_deal(deal, "The seller cancelled it as asked", metadata={"operation": operation.reference})
    else:
        buy.cancellation = None
        buy.not_cancelled = operation.message or f"{operation.reference} is {operation.status}"
        buy.save(update_fields=["cancellation", "not_cancelled"])
        _tell_not_cancelled(deal, buy, operation)
    review_unclaimed(deal)


def _tell_not_cancelled(deal: Deal, buy: UnclaimedBuy, operation: Operation) -> None:
    notify(
        kind="buy_not_cancelled",
        title=f"{deal.seller} has not cancelled {buy.media_buy_id}",
        body=f"{deal.reference}, {operation.reference}: {buy.not_cancelled}. People are asked again.",
        level="alarm",
        about=About(type="deal", id=deal.pk),
        team=deal.team,
        key=f"buy_not_cancelled:{operation.pk}",
    )
