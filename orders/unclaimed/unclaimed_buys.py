"""Unclaimed media buys: recorded when they are found, put to people, closed when nobody has to decide."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q

from orders.amounts import deal_amounts
from orders.confirmation import mirror, stated_amount
from orders.models import CONFIRMED, Deal, DealStatus, UnclaimedBuy
from orders.services import deal_locked, purchases_of
from orders.successors import name_for, other_holder
from orders.unclaimed.question import UNCLAIMED, open_buys, unclaimed_question, undecided_buy
from tasks_app import clock
from tasks_app.adcp.types import BUY_GONE
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.question import is_as_shown
from tasks_app.approvals.services import approval_open
from tasks_app.approvals.subjects import questions_withdraw
from tasks_app.desk.items import raised
from tasks_app.lifecycle.transitions import Who, exact, transition
from tasks_app.people.actors import SYSTEM

Outcome = UnclaimedBuy.Outcome
_HOUR = timedelta(hours=1)
_MAX_OPEN = 20  # of one deal, so that a seller that names another media buy in every answer is bounded
_REASON = 500


def record_unclaimed(deal: Deal, record: Mapping[str, Any], *, source: UnclaimedBuy.Source) -> bool:
    """Record a media buy that was made for a deal, and ask people about it.

    Nothing is recorded if a live deal holds the media buy or its seller has cancelled it; a deal that waited
    for this purchase then ends. Called in the transaction that holds the deal.

    Args:
        deal: The deal that the media buy was made for.
        record: The media buy as the seller states it.
        source: How Flightdeck learnt of it.

    Returns:
        Whether the media buy is open.
    """
    named = mirror(record).get("media_buy_id", "")
    if deal.status in CONFIRMED and named in ("", deal.media_buy_id):
        return False
    found = open_buys(deal)
    known = [buy for buy in found if buy.media_buy_id == named] + [b for b in found if not b.media_buy_id]
    if not known and len(found) >= _MAX_OPEN:
        return False
    buy = known[0] if known else UnclaimedBuy(deal=deal, source=source, opened_at=clock.now())
    stated, unknown = stated_amount(deal, record)
    buy.media_buy_id, buy.record = named, exact(dict(record), floats=True)
    buy.amount = deal_amounts(deal).approved if unknown or stated is None else stated
    closing = find_closing(deal, buy)
    if known:
        buy.save(update_fields=["media_buy_id", "record", "amount"])
    elif closing is None:
        buy.save(force_insert=True)
    else:
        _end_lost_deal_as(deal, *closing)
    review_unclaimed(deal)
    return closing is None


def review_unclaimed(deal: Deal) -> None:
    """Close the unclaimed media buys of a deal that need no decision, and ask people about the others.

    A question that shows something else is replaced at most once an hour. Called in the transaction that
    holds the deal.
    """
    for buy in open_buys(deal):
        if (closing := find_closing(deal, buy)) is not None:
            close_unclaimed(buy, closing[0])
            _end_lost_deal_as(deal, *closing)
    undecided = undecided_buy(deal)
    if undecided is None:
        questions_withdraw("deal", deal.pk, kinds=(UNCLAIMED,), reason="Nobody has to decide any more")
        return
    question = unclaimed_question(deal, undecided)
    asked = Approval.objects.filter(
        kind=UNCLAIMED, subject_type="deal", subject_id=deal.pk, status=ApprovalStatus.OPEN
    ).first()
    if asked is not None:
        is_other_buy = asked.evidence.get("media_buy_id") != (undecided.media_buy_id or None)
        is_recent = clock.now() < asked.created_at + _HOUR
        if is_as_shown(asked, question) or (is_recent and not is_other_buy):
            return
        questions_withdraw("deal", deal.pk, kinds=(UNCLAIMED,), reason="Replaced: the media buy has changed")
    approval_open(question=question, requested_by=deal.requested_by, opened_by=SYSTEM)


def review_after_transition(deal_id: uuid.UUID) -> None:
    """Review the unclaimed media buys of a deal that has moved, and those that it holds now."""
    moved = Deal.objects.get(pk=deal_id)
    held = Q(deal__seller=moved.seller_id, media_buy_id=moved.media_buy_id) & ~Q(media_buy_id="")
    found = UnclaimedBuy.objects.filter(held | Q(deal=moved), closed_at__isnull=True)
    for pk in list(found.order_by("deal_id").values_list("deal_id", flat=True).distinct()):
        with transaction.atomic():
            review_unclaimed(deal_locked(pk))


def close_unclaimed(buy: UnclaimedBuy, outcome: UnclaimedBuy.Outcome) -> None:
    """Close an unclaimed media buy for good."""
    buy.closed_at, buy.outcome = clock.now(), outcome
    buy.save(update_fields=["closed_at", "outcome"])


def end_lost_deal(
    deal: Deal,
    reason: str,
    *,
    actor: Who = SYSTEM,
    to: DealStatus = DealStatus.CANCELLED,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """End a deal in booking whose purchase has ended and that no open media buy can become."""
    ended = purchases_of(deal).filter(settled_at__isnull=False)
    if deal.status != DealStatus.BOOKING or open_buys(deal) or not ended.exists():
        return
    transition(deal, to, actor=actor, reason=reason[:_REASON], metadata=dict(metadata) if metadata else None)


def find_closing(deal: Deal, buy: UnclaimedBuy) -> tuple[UnclaimedBuy.Outcome, str] | None:
    """Return how an unclaimed media buy ends without a decision, and why."""
    holder = other_holder(deal, buy.media_buy_id)
    if holder is not None:
        return Outcome.HELD, f"{name_for(deal, holder)} holds {buy.media_buy_id}"
    if deal.status in CONFIRMED and deal.media_buy_id == buy.media_buy_id:
        return Outcome.HELD, f"{deal.reference} holds {buy.media_buy_id}"
    mirrored_status = deal.media_buy_status if deal.media_buy_id == buy.media_buy_id else ""
    if mirror(buy.record).get("media_buy_status") in BUY_GONE or mirrored_status in BUY_GONE:
        return Outcome.CANCELLED, f"{deal.seller} has cancelled it"
    return None


def _end_lost_deal_as(deal: Deal, outcome: UnclaimedBuy.Outcome, why: str) -> None:
    to = DealStatus.FAILED if outcome == Outcome.HELD else DealStatus.CANCELLED
    end_lost_deal(deal, raised(why), to=to)
