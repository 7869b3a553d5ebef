"""What the seller says of a media buy, and what follows from it for the deal.

An older snapshot never overwrites a newer one. The buy's own status (get_media_buys) moves the deal; what the
reply to a task says of the buy is shown only. Source: model.md "Upper storeys"; AdCP enums/media-buy-status,
media-buy/get-media-buys.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from orders.booking import compare, own
from orders.confirmation import mirror, stated_at
from orders.mirror_times import next_reading
from orders.models import LIVE, Deal, DealMirror, DealStatus
from orders.questions import DIFFERENT
from orders.services import deal_locked
from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import approval_void
from tasks_app.lifecycle.transitions import transition
from tasks_app.notifications.models import Notification
from tasks_app.notifications.services import About, notify

S = DealStatus
_OVER = {
    S.BOOKED: S.CANCELLED,
    S.DELIVERING: S.CANCELLED,
    S.PARTIALLY_CANCELED: S.CANCELLED,
    S.MAKEGOOD_PENDING: S.FAILED,
}
# What the seller says, to the statuses its word leads through, by where the deal stands.
_WAYS: dict[str, dict[DealStatus, tuple[DealStatus, ...]]] = {
    "active": {S.BOOKED: (S.DELIVERING,), S.PARTIALLY_CANCELED: (S.DELIVERING,)},
    "completed": {
        S.BOOKED: (S.DELIVERING, S.COMPLETED),
        S.PARTIALLY_CANCELED: (S.DELIVERING, S.COMPLETED),
        S.DELIVERING: (S.COMPLETED,),
        S.MAKEGOOD_PENDING: (S.COMPLETED,),
    },
    "rejected": {S.BOOKING: (S.FAILED,), **{frm: (to,) for frm, to in _OVER.items()}},
    "canceled": {S.BOOKING: (S.CANCELLED,), **{frm: (to,) for frm, to in _OVER.items()}},
}
_MAX_REASON = 400


@dataclass(frozen=True, kw_only=True)
class Freshness:
    """How new a snapshot is: the seller's revision and `status_as_of` where stated, and when we asked."""

    revision: int | None
    stated_at: datetime | None
    asked_at: datetime | None


def is_older(told: Freshness, known: Freshness) -> bool:
    """Whether `told` is older than what is `known`: by revision, then by the seller's time, then by ours."""
    if told.revision is not None and known.revision is not None and told.revision != known.revision:
        return told.revision < known.revision
    for ours, theirs in ((told.stated_at, known.stated_at), (told.asked_at, known.asked_at)):
        if ours is not None and theirs is not None and ours != theirs:
            return ours < theirs
    return False


def way(here: str, there: str, *, final: bool) -> tuple[DealStatus, ...]:
    """Through which statuses a deal goes from `here` when its seller says `there`; empty: it stays.

    Without `final` delivery figures a completed media buy is still delivering.
    """
    steps = _WAYS.get(there, {}).get(DealStatus(here), ())
    return tuple(step for step in steps if final or step != S.COMPLETED)


@transaction.atomic
def deal_follow(
    *, deal_id: uuid.UUID, buy: Mapping[str, Any], asked_at: datetime, final: bool | None = None
) -> Deal:
    """Take a media buy as get_media_buys told it: mirror it, compare it with what was approved, and move the
    deal where the seller's word moves it. Once, however often it is told.

    `asked_at`: our clock's moment before the question left. `final`: whether its delivery figures are final,
    None where nobody asked. Answers the deal as it is now. Raises Deal.DoesNotExist.
    """
    return _take(deal_locked(deal_id), buy, asked_at, final, moves=True)


@transaction.atomic
def deal_refresh(*, deal_id: uuid.UUID, buy: Mapping[str, Any], asked_at: datetime) -> Deal:
    """Take what the reply to a task says of a media buy: mirrored and compared; it moves nothing."""
    return _take(deal_locked(deal_id), buy, asked_at, None, moves=False)


def _take(deal: Deal, buy: Mapping[str, Any], asked_at: datetime, final: bool | None, *, moves: bool) -> Deal:
    kept, _ = DealMirror.objects.get_or_create(deal=deal)
    told = own(deal, mirror(buy, asked_at=asked_at))
    if deal.media_buy_id and buy.get("media_buy_id") not in (None, deal.media_buy_id):
        return deal  # of another media buy
    fresh = Freshness(revision=told.get("revision"), stated_at=stated_at(buy), asked_at=asked_at)
    known = Freshness(revision=deal.revision, stated_at=kept.stated_at, asked_at=kept.asked_at)
    if is_older(fresh, known):
        _note_older(deal, kept, fresh)
        return deal
    moved = told.get("revision") != deal.revision or told.get("media_buy_status") != deal.media_buy_status
    kept.final = final if final is not None else kept.final
    steps = (
        way(deal.status, str(told.get("media_buy_status", "")), final=_is_final(deal, kept)) if moves else ()
    )
    _write(deal, buy, told, steps)
    if deal.status in LIVE:
        compare(deal, buy)
    _read(deal, kept, fresh, moved=moved or bool(steps))
    return deal


def _write(deal: Deal, buy: Mapping[str, Any], told: dict[str, Any], steps: tuple[DealStatus, ...]) -> None:
    """The mirror's columns, with the first status change where there is one."""
    if not steps:
        Deal.objects.filter(pk=deal.pk).update(**told)
        for name, value in told.items():
            setattr(deal, name, value)
        return
    over = steps[-1] in (S.CANCELLED, S.FAILED)
    reason = reason_of(deal, buy) if over else f"{deal.seller} says {told['media_buy_status']}"
    for number, step in enumerate(steps):
        transition(
            deal,
            step,
            actor=f"agent:{deal.seller.slug}",
            reason=reason,
            metadata={"media_buy_status": told["media_buy_status"], "revision": told.get("revision")},
            changes={**told, **({"differs": False} if over else {})} if number == 0 else None,
        )
    if over:
        _withdraw_questions(deal, reason)
    _tell(deal, reason)


def reason_of(deal: Deal, buy: Mapping[str, Any]) -> str:
    """Why the seller ended a media buy, in its own words where it gives any."""
    said = buy.get("cancellation")
    cancellation: Mapping[str, Any] = said if isinstance(said, dict) else {}
    words = [cancellation.get("reason"), buy.get("rejection_reason"), buy.get("reason"), buy.get("message")]
    stated = next((word.strip() for word in words if isinstance(word, str) and word.strip()), "")
    status = buy.get("media_buy_status") or buy.get("status")
    by = cancellation.get("canceled_by")
    who = "at the buyer's wish" if by == "buyer" else f"by {deal.seller}"
    return f"{status} {who}{f': {stated}' if stated else ', no reason given'}"[:_MAX_REASON]


def _is_final(deal: Deal, kept: DealMirror) -> bool:
    """Final delivery: the seller's word; without one after so many days, or from one that reports none."""
    if kept.final or "get_media_buy_delivery" not in deal.seller.tools:
        return True
    return deal.end_at + timedelta(days=settings.FINAL_DELIVERY_DAYS) <= clock.now()


def _read(deal: Deal, kept: DealMirror, fresh: Freshness, *, moved: bool) -> None:
    now = clock.now()
    kept.asked_at, kept.stated_at, kept.read_at = fresh.asked_at, fresh.stated_at or kept.stated_at, now
    kept.failures, kept.unread, kept.lease_until = 0, "", None
    kept.due_at = next_reading(deal, moved=moved, now=now) if deal.status in LIVE else None
    kept.save()


def _note_older(deal: Deal, kept: DealMirror, fresh: Freshness) -> None:
    """An answer asked for later and older all the same: the seller contradicts itself, which is shown."""
    if fresh.asked_at is None or kept.asked_at is None or fresh.asked_at <= kept.asked_at:
        return
    kept.unread = (
        f"The seller answered with revision {fresh.revision or 'none'}, older than revision "
        f"{deal.revision or 'none'} that it told before: what it told before is kept"
    )
    kept.lease_until = None
    kept.due_at = next_reading(deal, moved=False, now=clock.now()) if deal.status in LIVE else None
    kept.save()


def _withdraw_questions(deal: Deal, reason: str) -> None:
    """Whether what was booked will do is no question once the seller has ended it."""
    asked = Approval.objects.filter(
        kind__in=(DIFFERENT, "deal_change"),
        subject_type="deal",
        subject_id=deal.pk,
        status=ApprovalStatus.OPEN,
    )
    # Who is deciding at this moment finds the deal over, and the question gone.
    for approval in asked.select_for_update(no_key=True, skip_locked=True):
        approval_void(approval=approval, reason=f"The media buy is over: {reason}"[:_MAX_REASON])


_LEVELS = {
    S.DELIVERING: Notification.Level.INFO,
    S.COMPLETED: Notification.Level.INFO,
    S.CANCELLED: Notification.Level.ALARM,
    S.FAILED: Notification.Level.ALARM,
}
_WORDS = {
    S.DELIVERING: "delivers",
    S.COMPLETED: "has delivered",
    S.CANCELLED: "was cancelled at the seller",
    S.FAILED: "came to nothing at the seller",
}


def _tell(deal: Deal, reason: str) -> None:
    status = DealStatus(deal.status)
    notify(
        kind=f"deal_{deal.status}",
        title=f"{deal.reference} with {deal.seller} {_WORDS[status]}",
        body=f"Media buy {deal.media_buy_id}: {reason}.",
        level=_LEVELS[status],
        about=About(type="deal", id=deal.pk),
        team=deal.team,
        key=f"deal:{deal.pk}:{deal.version}",
    )
