"""What a seller's contradiction about a purchase can come to: the first kept, or the second taken.

Whatever is taken is a declared change: the deal called off, its mirror brought up to date, or a new deal that
follows the old one. A media buy that nobody wants is cancelled at the seller by an operation of its own.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from orders.amounts import approved_shown, deal_amounts
from orders.booking import deal_adopt
from orders.changes.open_changes import cancels_all
from orders.confirmation import stated_amount
from orders.following import LATE, OVER, bought_by, holder_of, named_to, twice
from orders.models import CONFIRMED, LIVE, Deal, DealStatus
from orders.questions import NOT_KNOWN, deal_question, not_counted
from orders.rooms import BEYOND, LEFT_AFTER, budget_after
from orders.seller_state import deal_take
from orders.services import deal_cancel_at_seller, deal_locked
from orders.terms.matching import packages_of
from orders.terms.stated import MAX_IDENTITY, TOTAL, answer_as_record
from tasks_app import clock
from tasks_app.adcp.values import identity_of
from tasks_app.approvals.kinds import Effect, Outcome
from tasks_app.approvals.models import Approval
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import DecisionRefusedError
from tasks_app.lifecycle.transitions import exact, transition
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.conflicts import Taker, conflict_learnt, taker_register
from tasks_app.operations.models import SETTLED, Channel, Operation
from tasks_app.operations.services import OperationRefusedError

_ENDS = ("failed", "rejected", "canceled")


def register() -> None:
    """Called when the application starts."""
    taker = Taker(claims=_claims, asks=_asks, why_not=_why_not, effects=_effects, keep=_keep, take=_take)
    taker_register("deal", taker)


def buys_another(deal: Deal, purchase: Operation) -> bool:
    """Whether a purchase is answered with another media buy than the one its deal has been booked as."""
    return deal.status in CONFIRMED and bought_by(purchase) not in ("", deal.media_buy_id)


def another_bought(deal: Deal, purchase: Operation) -> None:
    """The seller's list has named one media buy of a purchase, its late result names another: both may run,
    and people say which one is kept. The caller holds the deal."""
    known = {"media_buy_id": deal.media_buy_id, "media_buy_status": deal.media_buy_status}
    conflict_learnt(
        operation=purchase,
        known=known,
        note=f"{deal.reference} is booked as {deal.media_buy_id}, now told {bought_by(purchase)}",
        at=deal.as_of or purchase.settled_at or clock.now(),
        channel=Channel.RECONCILE,
    )


def second_buy(conflict: Conflict) -> str:
    """The media buy that the second claims was made; empty where it names none."""
    value = conflict.second.get("value")
    named = value.get("media_buy_id") if isinstance(value, dict) and _completed(conflict) else None
    return identity_of(named, longest=MAX_IDENTITY) or ""


def _completed(conflict: Conflict) -> bool:
    return bool(conflict.second.get("status") == "completed")


def _claims(conflict: Conflict) -> str:
    """The media buy that only the second tells of, and that no deal holds."""
    return _strayed(conflict, Deal.objects.get(pk=_subject(conflict)))


def _strayed(conflict: Conflict, deal: Deal) -> str:
    """The media buy that only the second tells of, and that no deal holds; empty where there is none."""
    named = second_buy(conflict)
    is_known = named == deal.media_buy_id or _is_its_own(conflict, named)
    return "" if is_known or holder_of(deal, named) is not None else named


def _why_not(conflict: Conflict) -> str:
    deal = Deal.objects.get(pk=_subject(conflict))
    if _completed(conflict):
        return _why_not_bought(conflict, deal)
    if conflict.second.get("status") not in _ENDS:
        return "What came second is no end of the task: there is nothing to take."
    if conflict.operation.task_type != "create_media_buy":
        return "It is about a change, not a purchase: what the seller holds is read from it again."
    if conflict.operation.status != "completed":
        return "Neither bought anything: nothing would change."
    return "" if end_of(deal) else f"{deal.reference} is {deal.status}: it cannot be called off."


def _why_not_bought(conflict: Conflict, deal: Deal) -> str:
    named = second_buy(conflict)
    if not named:
        return "What came second names no media buy."
    if deal.media_buy_id == named:
        return _why_not_terms(conflict, deal)
    if conflict.operation.task_type != "create_media_buy":
        return "What came second is about another media buy."
    if deal.status not in (*OVER, *CONFIRMED):
        return f"{deal.reference} is {deal.status}: decide about it first."
    holder = Deal.objects.filter(seller=deal.seller, media_buy_id=named).first()
    if holder is not None:
        return f"{named} is the media buy of {named_to(deal, holder)} already."
    return twice(deal, named)


def _why_not_terms(conflict: Conflict, deal: Deal) -> str:
    """Of the media buy that the deal holds."""
    if cancels_all(conflict.operation.request):
        return "It is about a cancellation: what the seller holds is read from it again."
    if deal.status not in CONFIRMED:
        return f"{deal.reference} is {deal.status}: there is nothing left to be compared with it."
    told = answer_as_record(conflict.second["value"])
    stated = packages_of(told) or told.get(TOTAL) is not None
    return "" if stated or deal.status in LIVE else "What came second states no terms to be compared."


def end_of(deal: Deal) -> str:
    """Where a deal goes that the seller does not hold: cancelled, or failed where no edge leads there."""
    targets = deal.declared().targets(deal.status)
    return next((to for to in (DealStatus.CANCELLED, DealStatus.FAILED) if to in targets), "")


def _asks(conflict: Conflict, question: Question) -> Question:
    """What the deal comes to by what came second, beside its campaign's budget; where that buys nothing, what
    was approved of it. What would be kept as a new deal policies of late purchases look at too."""
    deal = Deal.objects.select_related("seller", "team", "account", "advertiser").get(pk=_subject(conflict))
    amounts, named = deal_amounts(deal), second_buy(conflict)
    amount, told = _second_comes_to(conflict, deal) if named else (amounts.approved, {})
    about = deal_question(
        deal,
        kind=question.kind,
        title=question.title,
        evidence=exact(
            {
                **question.evidence,
                "deal": deal.reference,
                "advertiser": deal.advertiser.name,
                "gross": approved_shown(deal),
                "currency": deal.currency,
                **told,
            }
        ),
        policy=question.policy,
        amount=amount,
        approved=amounts.approved,
    )
    is_another = named not in ("", deal.media_buy_id)
    return replace(
        about,
        team=question.team,
        subject_type=question.subject_type,
        subject_id=question.subject_id,
        subject_version=question.subject_version,
        moving=about.moving | {LEFT_AFTER},
        judged_as=frozenset({LATE}) if is_another else frozenset(),
    )


def _second_comes_to(conflict: Conflict, deal: Deal) -> tuple[Decimal | None, dict[str, Any]]:
    """What came second brings the deal to, None where that cannot be counted, and that as evidence."""
    another = second_buy(conflict) != deal.media_buy_id
    record = answer_as_record(conflict.second["value"])
    stated, unknown = stated_amount(deal, record, whole=another)
    if unknown:
        return None, {"second_gross": NOT_KNOWN, **not_counted(unknown)}
    gross = deal_amounts(deal).approved if stated is None else stated
    return gross, {"second_gross": gross, **budget_after(deal, gross)}


def _effects(conflict: Conflict) -> tuple[Effect, Effect]:
    deal = Deal.objects.get(pk=_subject(conflict))
    named, own = second_buy(conflict), deal.media_buy_id
    if conflict.operation.status not in SETTLED:
        goes_on = f"{conflict.operation.reference} goes on under the task it is bound to."
        return _without_sending(goes_on, "")
    if not named:
        return _without_sending(
            f"{deal.reference} stays {deal.status}.",
            f"{deal.reference} becomes {end_of(deal) or deal.status}; its money returns to the budget.",
        )
    if named == own:
        return _without_sending(
            f"{deal.reference} stays as it was confirmed first.",
            f"{deal.reference} takes over what came second; departures from the approved are asked about.",
        )
    both = deal.status in CONFIRMED and bool(own)
    cancelled = f" {own} is cancelled at the seller." if both else ""
    kept = f"{deal.reference} stays {deal.status}; {_kept_words(conflict, deal)}."
    beyond = _second_comes_to(conflict, deal)[1].get(BEYOND)
    besides = f", {beyond}" if beyond else ""
    taken = f"{named} is kept as a new deal that follows {deal.reference}{besides}.{cancelled}"
    is_strayed = bool(_strayed(conflict, deal))
    return Effect(words=kept, sends=is_strayed), Effect(words=taken, sends=both)


def _without_sending(*words: str) -> tuple[Effect, Effect]:
    keep, take = (Effect(words=said, sends=False) for said in words)
    return keep, take


def _kept_words(conflict: Conflict, deal: Deal) -> str:
    """What keeping the first does with the media buy that the second names."""
    named = second_buy(conflict)
    holder = holder_of(deal, named)
    if holder is not None:
        return f"{named} is the media buy of {named_to(deal, holder)}"
    strayed = _strayed(conflict, deal)
    return f"the seller is asked to cancel {strayed}" if strayed else f"{named} is decided about by itself"


def _keep(conflict: Conflict, approval: Approval, outcome: Outcome) -> None:
    """A media buy that only the second knows is nobody's: it is cancelled. While the operation is open it may
    still turn out to be its own."""
    if conflict.operation.status not in SETTLED:
        return
    deal = deal_locked(_subject(conflict))
    strayed = _strayed(conflict, deal)
    if strayed:
        _cancel(deal, outcome, strayed)


def _is_its_own(conflict: Conflict, named: str) -> bool:
    """Whether it is the buy of the first as well (late, and not yet decided about)."""
    first = conflict.first.get("value")
    return isinstance(first, dict) and first.get("media_buy_id") == named


def _take(conflict: Conflict, approval: Approval, outcome: Outcome) -> None:
    deal = deal_locked(_subject(conflict))
    named = second_buy(conflict)
    if not named:
        transition(
            deal,
            end_of(deal),
            actor=outcome.actor,
            reason=f"{deal.seller} says {conflict.second['status']}: {outcome.comment}"[:500],
            metadata={"approval": approval.reference, "conflict": conflict.reference},
        )
        return
    value: dict[str, Any] = conflict.second["value"]
    if named == deal.media_buy_id:
        deal_take(deal_id=deal.pk, buy=answer_as_record(value), told_at=conflict.at)
        return
    deal_adopt(lost=deal, operation=conflict.operation, actor=outcome.actor, approval=approval, result=value)
    if deal.status in CONFIRMED and deal.media_buy_id:
        _cancel(deal, outcome, deal.media_buy_id)


def _cancel(deal: Deal, outcome: Outcome, media_buy_id: str) -> None:
    try:
        deal_cancel_at_seller(
            deal=deal, actor=outcome.actor, reason=outcome.comment, media_buy_id=media_buy_id
        )
    except OperationRefusedError as error:
        raise DecisionRefusedError("impossible", f"It cannot be cancelled: {error}") from error


def _subject(conflict: Conflict) -> Any:
    return conflict.operation.subject_id
