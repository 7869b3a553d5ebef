"""What people's answers do to deals."""

from __future__ import annotations

from collections.abc import Callable

from orders.acceptance import accept_differences, is_acceptable
from orders.amending import deal_amend
from orders.amounts import deal_amounts
from orders.deciding import booking_effects
from orders.flights import deal_passed
from orders.models import CONFIRMED, LIVE, UNDECIDED, Deal, DealStatus
from orders.questions import (
    DEAL,
    DIFFERENT,
    ask_booked_differently,
    ask_deal,
    booking_question,
    difference_question,
)
from orders.rooms import NOTHING, room_take
from orders.services import (
    deal_cancel_at_seller,
    deal_locked,
    deal_withdraw_held,
    end_status,
    purchase_held,
)
from orders.successors import duplicate_reason
from tasks_app.approvals.kinds import Kind, Outcome, kind_register
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.jobs.planning import job_start
from tasks_app.lifecycle.transitions import note, transition
from tasks_app.operations.ordering import order_let_go
from tasks_app.operations.services import OperationRefusedError
from tasks_app.people.actors import SYSTEM
from tasks_app.people.roles import DECIDE

_NOT_ACCEPTED = (
    "Asks the seller to cancel the media buy. Once it has delivered whole nothing can be cancelled: it is "
    "recorded as not accepted and the deal stays flagged; settle it with the seller."
)


_UNREADABLE = (
    "Not possible: Flightdeck cannot read everything that the seller states, or a package would end before "
    "it starts. Ask the seller to correct it, or reject it."
)

_UNNAMED = (
    "Calls the deal off: its seller has named no media buy that could be cancelled. If it names one later, "
    "people are asked whether to keep it."
)


def register() -> None:
    """Called when the application starts."""
    kind_register(
        Kind(
            name=DEAL,
            label="Recommendation",
            apply=_deal_decided,
            version=_unsent_version,
            asks=lambda approval: booking_question(deal_locked(approval.subject_id)),
            reopen=lambda approval: _again(approval, ask_deal),
            effects={
                "approve": "Places the order at once.",
                "reject": "Cancels the deal and frees its budget.",
                "nothing": "It expires at the deadline. Waiting never approves.",
            },
            effects_now=booking_effects,
            amend=deal_amend,
            sends=frozenset({"approve"}),
            spends=True,
            wished=True,
        )
    )
    kind_register(
        Kind(
            name=DIFFERENT,
            label="Booked differently",
            apply=_difference_decided,
            version=_differing_version,
            asks=lambda approval: difference_question(deal_locked(approval.subject_id)),
            reopen=lambda approval: _again(approval, _ask_difference_again),
            effects={
                "approve": "Accepts what the seller booked; the flag is taken off.",
                "reject": _NOT_ACCEPTED,
                "nothing": "It stays booked and flagged, and is asked about again.",
            },
            effects_for=_difference_words,
            sends=frozenset({"reject"}),
            sends_unless=lambda evidence: not evidence.get("media_buy_id"),
            spends=True,
            outlives_job=True,
            decided={
                "approved": "what the seller booked is accepted",
                "rejected": "what the seller booked is not accepted",
            },
        )
    )


def _deal_decided(approval: Approval, outcome: Outcome) -> None:
    deal = deal_locked(approval.subject_id)
    if deal.status == DealStatus.BOOKING:
        _decided_again(deal, approval, outcome)
        return
    if deal.status not in UNDECIDED:
        return
    if outcome.answer == "approved":
        _check_bookable(deal)
        room_take(deal, deal_amounts(deal).approved, before=NOTHING)
        transition(
            deal,
            DealStatus.ACCEPTED,
            actor=outcome.actor,
            reason=outcome.comment,
            metadata={"approval": approval.reference},
        )
        if deal.campaign_id is None or deal.follows_id is not None:  # its campaign books its own alone
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


def _decided_again(deal: Deal, approval: Approval, outcome: Outcome) -> None:
    """The word on a purchase that was approved and, when it was to leave, was not what had been shown."""
    purchase = purchase_held(deal)
    if purchase is None:
        return
    if outcome.answer == "approved":
        _check_bookable(deal)
        order_let_go(operation=purchase)
    else:
        _called_off(deal, approval, outcome)


def _check_bookable(deal: Deal) -> None:
    passed = deal_passed(deal)
    why = f"{passed}: reject it, and copy it with new dates." if passed else duplicate_reason(deal)
    if why:
        raise DecisionRefusedError("impossible", why)


def _called_off(deal: Deal, approval: Approval, outcome: Outcome) -> None:
    is_booking = deal.status == DealStatus.BOOKING  # its step waits for the purchase
    rejected = is_booking or outcome.answer == "rejected"
    to = DealStatus.CANCELLED if rejected else DealStatus.EXPIRED
    transition(
        deal, to, actor=outcome.actor, reason=outcome.comment, metadata={"approval": approval.reference}
    )
    why = outcome.comment or outcome.answer
    deal_withdraw_held(deal=deal, reason=why, actor=outcome.actor, rights=(DECIDE,), tell=is_booking)


def _difference_decided(approval: Approval, outcome: Outcome) -> None:
    deal = deal_locked(approval.subject_id)
    if outcome.answer == "approved":
        kept = outcome.comment or f"Kept as the seller booked it, by {approval.reference}"
        if not accept_differences(deal, actor=outcome.actor, reason=kept):
            raise DecisionRefusedError("impossible", _UNREADABLE)
    elif outcome.answer == "rejected" and deal.status not in LIVE:
        refused = f"Not accepted, by {approval.reference}: {outcome.comment}"
        note(deal, actor=outcome.actor, reason=refused[:500])
    elif outcome.answer == "rejected" and not deal.media_buy_id:
        _call_off_unnamed(deal, approval, outcome)
    elif outcome.answer == "rejected":
        try:
            deal_cancel_at_seller(deal=deal, actor=outcome.actor, reason=outcome.comment)
        except OperationRefusedError as error:
            raise DecisionRefusedError("impossible", f"It cannot be cancelled: {error}") from error
    else:
        _ask_difference_again(deal)


def _call_off_unnamed(deal: Deal, approval: Approval, outcome: Outcome) -> None:
    """End a deal whose media buy the seller has not named: nothing can be cancelled there."""
    transition(
        deal,
        end_status(deal),
        actor=outcome.actor,
        reason=f"Not accepted, without a media buy of its own: {outcome.comment}"[:500],
        metadata={"approval": approval.reference},
        changes={"differs": False},
    )


def _difference_words(approval: Approval) -> dict[str, str]:
    acceptable = is_acceptable(approval.evidence.get("differences", []))
    return {
        **({} if acceptable else {"approve": _UNREADABLE}),
        **({} if approval.evidence.get("media_buy_id") else {"reject": _UNNAMED}),
    }


def _ask_difference_again(deal: Deal) -> None:
    """Nothing, where its seller has just taken it back."""
    if deal.differs:
        ask_booked_differently(deal)


def _unsent_version(approval: Approval) -> int | None:
    """None once it is bought, or was decided and is not asked about again."""
    version = _locked_version(approval, status__in=(*UNDECIDED, DealStatus.BOOKING))
    if version is None:
        return None
    deal = Deal.objects.get(pk=approval.subject_id)
    return version if deal.status in UNDECIDED or purchase_held(deal) is not None else None


def _version(approval: Approval) -> int | None:
    return _locked_version(approval)


def _differing_version(approval: Approval) -> int | None:
    """None where the media buy came to nothing, or departs in nothing any more; what has delivered can still
    be accepted, or not. That it delivers meanwhile changes nothing of what is asked: whether it departs
    otherwise, its evidence says."""
    held = _locked_version(approval, status__in=CONFIRMED, differs=True)
    return None if held is None else approval.subject_version


def _locked_version(approval: Approval, **wanted: object) -> int | None:
    """The deal's version, held still until the decision's commit."""
    deals = Deal.objects.filter(pk=approval.subject_id, **wanted).select_for_update(no_key=True)
    return deals.values_list("version", flat=True).first()


def _again(approval: Approval, ask: Callable[[Deal], object]) -> None:
    ask(deal_locked(approval.subject_id))
