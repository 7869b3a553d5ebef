"""What people's answers do to deals."""

from __future__ import annotations

from collections.abc import Callable

from orders.booking import deal_adopt, deal_confirm
from orders.models import LIVE, UNDECIDED, Deal, DealStatus
from orders.questions import DEAL, DIFFERENT, LATE, ask_booked_differently, ask_deal, ask_late_completion
from orders.services import deal_cancel_at_seller, deal_locked, deal_withdraw_held, purchase_of
from tasks_app.approvals.kinds import Kind, Outcome, kind_register
from tasks_app.approvals.models import Approval
from tasks_app.jobs.engine import job_start
from tasks_app.lifecycle.transitions import transition
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
    kind_register(
        Kind(
            name=LATE,
            label="Late completion",
            apply=_late_decided,
            version=_version,
            reopen=lambda approval: _again(approval, _ask_late_again),
            effects={
                "approve": "Keeps the media buy the seller made after its deadline.",
                "reject": "Asks the seller to cancel it.",
                "nothing": "It exists at the seller and is not ours. It is asked about again.",
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
    to = DealStatus.CANCELLED if outcome.answer == "rejected" else DealStatus.EXPIRED
    transition(
        deal, to, actor=outcome.actor, reason=outcome.comment, metadata={"approval": approval.reference}
    )
    deal_withdraw_held(deal=deal, reason=outcome.comment or outcome.answer)


def _difference_decided(approval: Approval, outcome: Outcome) -> None:
    deal = deal_locked(approval.subject_id)
    if outcome.answer == "approved":
        Deal.objects.filter(pk=deal.pk).update(differs=False)
    elif outcome.answer == "rejected":
        deal_cancel_at_seller(deal=deal, actor=outcome.actor, reason=outcome.comment)
    else:
        ask_booked_differently(deal)


def _late_decided(approval: Approval, outcome: Outcome) -> None:
    deal = deal_locked(approval.subject_id)
    operation = purchase_of(deal)
    if outcome.answer == "approved" and deal.status == DealStatus.BOOKING:
        deal_confirm(deal=deal, operation=operation)
    elif outcome.answer == "approved":
        deal_adopt(lost=deal, operation=operation, actor=outcome.actor, approval=approval)
    elif outcome.answer == "rejected":
        deal.media_buy_id = str((operation.result or {}).get("media_buy_id", ""))
        deal_cancel_at_seller(deal=deal, actor=outcome.actor, reason=outcome.comment)
    else:
        _ask_late_again(deal)


def _ask_late_again(deal: Deal) -> Approval:
    return ask_late_completion(deal, purchase_of(deal))


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
