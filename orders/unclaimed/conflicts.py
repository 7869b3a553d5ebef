"""What a seller's contradiction about an operation of a deal can lead to.

A media buy that only the second answer names is an unclaimed media buy: people are asked about that, and the
contradiction itself needs no decision. Otherwise people keep the first answer, or take the second: the deal
ends, or its media buy is compared with the second answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from orders.amounts import approved_shown, deal_amounts
from orders.changes.open_changes import cancels_all
from orders.models import CONFIRMED, LIVE, Deal, UnclaimedBuy
from orders.questions import deal_question
from orders.seller_state import deal_take
from orders.services import deal_locked, end_status
from orders.terms.matching import packages_of
from orders.terms.stated import MAX_IDENTITY, TOTAL, answer_as_record
from orders.unclaimed.unclaimed_buys import record_unclaimed
from tasks_app.adcp.values import identity_of
from tasks_app.approvals.kinds import Outcome
from tasks_app.approvals.models import Approval
from tasks_app.approvals.question import Question
from tasks_app.lifecycle.transitions import exact, transition
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.conflicts import ConflictResolution, resolution_register
from tasks_app.operations.models import SETTLED

_ENDS = ("failed", "rejected", "canceled")


def register() -> None:
    """Called when the application starts."""
    resolution = ConflictResolution(
        claim=_claim, add_subject=_add_subject, why_not=_why_not, effects=_effects, take=_take
    )
    resolution_register("deal", resolution)


def _second_buy(conflict: Conflict) -> str:
    """Return the media buy that the second answer says was made; empty if it names none."""
    value = conflict.second.get("value")
    named = value.get("media_buy_id") if isinstance(value, dict) and _is_completed(conflict) else None
    return identity_of(named, longest=MAX_IDENTITY) or ""


def _is_completed(conflict: Conflict) -> bool:
    return bool(conflict.second.get("status") == "completed")


def _claim(conflict: Conflict) -> str:
    """Record the media buy that only the second answer of an ended purchase names."""
    operation, named = conflict.operation, _second_buy(conflict)
    if not named or operation.task_type != "create_media_buy" or operation.status not in SETTLED:
        return ""
    first = conflict.first.get("value")
    deal = deal_locked(_subject(conflict))
    if named in (deal.media_buy_id, first.get("media_buy_id") if isinstance(first, dict) else None):
        return ""
    value: dict[str, Any] = conflict.second["value"]
    is_open = record_unclaimed(deal, value, source=UnclaimedBuy.Source.SECOND)
    return f"{named} is unclaimed: people are asked whether to keep it" if is_open else ""


def _why_not(conflict: Conflict) -> str:
    deal, named = Deal.objects.get(pk=_subject(conflict)), _second_buy(conflict)
    if _is_completed(conflict):
        if not named:
            return "What came second names no media buy."
        if named != deal.media_buy_id:
            return f"{named} is not the media buy of {deal.reference}."
        return _why_not_terms(conflict, deal)
    if conflict.second.get("status") not in _ENDS:
        return "What came second is no end of the task: there is nothing to take."
    if conflict.operation.task_type != "create_media_buy":
        return "It is about a change, not a purchase: what the seller holds is read from it again."
    if conflict.operation.status != "completed":
        return "Both answers say that nothing was bought."
    return "" if end_status(deal) else f"{deal.reference} is {deal.status}: it cannot be called off."


def _why_not_terms(conflict: Conflict, deal: Deal) -> str:
    """Return why the deal's own media buy is not compared with the second answer."""
    if cancels_all(conflict.operation.request):
        return "It is about a cancellation: what the seller holds is read from it again."
    if deal.status not in CONFIRMED:
        return f"{deal.reference} is {deal.status}: it is not compared any more."
    record = answer_as_record(conflict.second["value"])
    is_stated = packages_of(record) or record.get(TOTAL) is not None
    return "" if is_stated or deal.status in LIVE else "What came second states no terms to be compared."


def _add_subject(conflict: Conflict, question: Question) -> Question:
    """Return the question with its deal and the money that was approved of it."""
    deal = Deal.objects.select_related("seller", "team", "account", "advertiser").get(pk=_subject(conflict))
    evidence = {
        **question.evidence,
        "deal": deal.reference,
        "advertiser": deal.advertiser.name,
        "gross": approved_shown(deal),
        "currency": deal.currency,
    }
    amount = deal_amounts(deal).approved
    about = deal_question(
        deal,
        kind=question.kind,
        title=question.title,
        evidence=exact(evidence),
        policy=question.policy,
        amount=amount,
        approved=amount,
    )
    return replace(
        about,
        team=question.team,
        subject_type=question.subject_type,
        subject_id=question.subject_id,
        subject_version=question.subject_version,
    )


def _effects(conflict: Conflict) -> tuple[str, str]:
    deal = Deal.objects.get(pk=_subject(conflict))
    if conflict.operation.status not in SETTLED:
        return f"{conflict.operation.reference} goes on under the task it is bound to.", ""
    keeps = f"{deal.reference} stays {deal.status}."
    if _is_completed(conflict):
        return keeps, f"{deal.reference} is compared with what came second; people are asked what differs."
    return keeps, f"{deal.reference} becomes {end_status(deal)}; its money returns to the budget."


def _take(conflict: Conflict, approval: Approval, outcome: Outcome) -> None:
    deal = deal_locked(_subject(conflict))
    if _is_completed(conflict):
        record = answer_as_record(conflict.second["value"])
        deal_take(deal_id=deal.pk, buy=record, told_at=conflict.at)
        return
    transition(
        deal,
        end_status(deal),
        actor=outcome.actor,
        reason=f"{deal.seller} says {conflict.second['status']}: {outcome.comment}"[:500],
        metadata={"approval": approval.reference, "conflict": conflict.reference},
    )


def _subject(conflict: Conflict) -> Any:
    return conflict.operation.subject_id
