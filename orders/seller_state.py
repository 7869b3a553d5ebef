"""What the seller says of a media buy, and what follows from it for the deal.

An older snapshot never overwrites a newer one; what a seller keeps saying of an older state whenever it is
read is believed in the end: it was restored from a backup, or had misspoken. The buy's own status
(get_media_buys) moves the deal; what the reply to a task says of the buy is shown only. A media buy that is
"completed" before its flight begins moves nothing. Source: AdCP enums/media-buy-status,
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

from orders.booking import compare, without_foreign_id
from orders.changes.open_changes import needs_proof_reading
from orders.confirmation import is_ended_early, mirror, stated_at, values_unread
from orders.mirror_times import next_proof_reading, next_reading
from orders.models import CONFIRMED, LIVE, Deal, DealMirror, DealStatus
from orders.services import deal_locked
from tasks_app import clock
from tasks_app.desk import text
from tasks_app.lifecycle.transitions import note, transition
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
SELLERS_WORDS = tuple(_WAYS)
_FRESHNESS = ("asked_at", "stated_at", "older_reads", "older_asked_at", "older_revision")
_MAX_REASON = 400
_BELIEVED = 3  # so many readings in a row, each asked for after the last, outweigh what was told before


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
def deal_refresh(
    *, deal_id: uuid.UUID, buy: Mapping[str, Any], asked_at: datetime, whole: bool = False
) -> Deal:
    """Take what the reply to a task says of a media buy: mirrored and compared; it moves nothing. `whole`: it
    tells of every package, as the answer to a purchase does."""
    return _take(deal_locked(deal_id), buy, asked_at, None, moves=False, whole=whole)


@transaction.atomic
def deal_take(*, deal_id: uuid.UUID, buy: Mapping[str, Any], told_at: datetime) -> Deal:
    """Take what a person says holds of a media buy, whatever was read since: it is compared with what was
    approved; the mirror's columns follow the newest, which is read at once."""
    deal = deal_refresh(deal_id=deal_id, buy=buy, asked_at=told_at)
    if deal.status in CONFIRMED:
        compare(deal, buy, whole=False)
    if deal.status in LIVE:
        DealMirror.objects.filter(pk=deal.pk).update(due_at=clock.now())
    return deal


def columns_if_newest(deal: Deal, buy: Mapping[str, Any], *, asked_at: datetime) -> dict[str, Any]:
    """The mirror's columns out of what is told of the media buy of a locked deal, for who writes them with a
    change of status; empty where something newer is known."""
    if is_outdated(deal, buy, asked_at=asked_at):
        return {}
    told, kept = mirror(buy, asked_at=asked_at), DealMirror.objects.get(deal=deal)
    _applied(kept, _freshness(told, buy, asked_at))
    kept.as_stated = values_unread(kept.as_stated, buy)
    kept.save(update_fields=[*_FRESHNESS, "as_stated"])
    return {name: value for name, value in told.items() if name != "media_buy_id"}


def is_outdated(deal: Deal, buy: Mapping[str, Any], *, asked_at: datetime) -> bool:
    """Whether something newer is known of a locked deal's media buy than what is told of it."""
    kept, _ = DealMirror.objects.get_or_create(deal=deal)
    return is_older(_freshness(mirror(buy), buy, asked_at), _known(deal, kept))


def _freshness(told: Mapping[str, Any], buy: Mapping[str, Any], asked_at: datetime) -> Freshness:
    return Freshness(revision=told.get("revision"), stated_at=stated_at(buy), asked_at=asked_at)


def _known(deal: Deal, kept: DealMirror) -> Freshness:
    return Freshness(revision=deal.revision, stated_at=kept.stated_at, asked_at=kept.asked_at)


def _take(
    deal: Deal,
    buy: Mapping[str, Any],
    asked_at: datetime,
    final: bool | None,
    *,
    moves: bool,
    whole: bool = True,
) -> Deal:
    kept, _ = DealMirror.objects.get_or_create(deal=deal)
    told = without_foreign_id(deal, mirror(buy, asked_at=asked_at))
    if deal.media_buy_id and buy.get("media_buy_id") not in (None, deal.media_buy_id):
        return deal  # of another media buy
    fresh = _freshness(told, buy, asked_at)
    if is_older(fresh, _known(deal, kept)):
        if not (moves and _is_believed(kept, fresh)):
            _note_older(deal, kept, fresh, reading=moves)
            return deal
        _begin_anew(deal, kept, fresh)
    elif fresh.revision not in (None, deal.revision):
        kept.restarted = ""
    moved = told.get("revision") != deal.revision or told.get("media_buy_status") != deal.media_buy_status
    kept.final = final if final is not None else kept.final
    kept.as_stated = values_unread(kept.as_stated, buy)
    steps = _steps(deal, kept, str(told.get("media_buy_status", ""))) if moves else ()
    _write(deal, buy, told, steps)
    _read(deal, kept, fresh, moved=moved or bool(steps))
    if deal.status in CONFIRMED:  # one that this record completes too
        compare(deal, buy, whole=whole)
    return deal


def _steps(deal: Deal, kept: DealMirror, said: str) -> tuple[DealStatus, ...]:
    """Where the seller's word leads the deal now; nowhere where it cannot be true."""
    return () if is_ended_early(deal, said) else way(deal.status, said, final=_is_final(deal, kept))


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
    if kept.final or not deal.seller.offers("get_media_buy_delivery"):
        return True
    return deal.end_at + timedelta(days=settings.FINAL_DELIVERY_DAYS) <= clock.now()


def _read(deal: Deal, kept: DealMirror, fresh: Freshness, *, moved: bool) -> None:
    now = clock.now()
    _applied(kept, fresh)
    kept.read_at, kept.failures, kept.unread, kept.lease_until = now, 0, "", None
    kept.due_at = next_reading(deal, moved=moved, now=now) if deal.status in LIVE else None
    if kept.due_at is not None and needs_proof_reading(deal):
        kept.due_at = next_proof_reading(now)
    kept.save()


def _applied(kept: DealMirror, fresh: Freshness) -> None:
    """From now on it is the newest."""
    kept.asked_at, kept.stated_at = fresh.asked_at, fresh.stated_at or kept.stated_at
    kept.older_reads, kept.older_asked_at, kept.older_revision = 0, None, None


def _note_older(deal: Deal, kept: DealMirror, fresh: Freshness, *, reading: bool) -> None:
    """An answer asked for later and older all the same: the seller contradicts itself, which is shown.
    `reading`: it was read from the seller by ourselves, which counts."""
    asked_later = _is_asked_later(fresh, kept.asked_at)
    if asked_later:
        _note_contradiction(deal, kept, fresh, reading=reading)
    if not (asked_later or reading):
        return
    # Asked before by this host's clock, and read all the same: it is not due at once again.
    kept.lease_until = None
    kept.due_at = next_reading(deal, moved=reading, now=clock.now()) if deal.status in LIVE else None
    kept.save()


def _note_contradiction(deal: Deal, kept: DealMirror, fresh: Freshness, *, reading: bool) -> None:
    reads = _older_reads(kept, fresh) if reading else 0
    if reads:
        kept.older_reads = reads
        kept.older_asked_at, kept.older_revision = fresh.asked_at, fresh.revision
    kept.unread = (
        f"The seller answered with {_of(fresh)}, older than {_of(_known(deal, kept))} that it told before: "
        f"what it told before is kept until {_BELIEVED} readings in a row say so, {kept.older_reads} so far"
    )


def _is_asked_later(fresh: Freshness, than: datetime | None) -> bool:
    return fresh.asked_at is not None and (than is None or fresh.asked_at > than)


def _is_believed(kept: DealMirror, fresh: Freshness) -> bool:
    return _older_reads(kept, fresh) >= _BELIEVED


def _older_reads(kept: DealMirror, fresh: Freshness) -> int:
    """How many readings in a row, with this one, told of a state before the one that is known. 0 for one that
    was overtaken: asked for before what is known, or before the latest of them; one that is older than the
    latest of them begins a row of its own."""
    if not (_is_asked_later(fresh, kept.asked_at) and _is_asked_later(fresh, kept.older_asked_at)):
        return 0
    before, now = kept.older_revision, fresh.revision
    falls = before is not None and now is not None and now < before
    return 1 if falls else kept.older_reads + 1


def _begin_anew(deal: Deal, kept: DealMirror, fresh: Freshness) -> None:
    """What the seller said before counts no more: its state began anew, and is compared like any."""
    known = _known(deal, kept)
    kept.restarted = (
        f"{deal.seller} tells of {_of(fresh)} after {_of(known)}, in {_BELIEVED} readings in a row: "
        "what it says now is believed"
    )
    kept.stated_at = None
    note(
        deal,
        actor=f"agent:{deal.seller.slug}",
        reason=kept.restarted[:_MAX_REASON],
        metadata={"revision": fresh.revision, "known": known.revision},
    )


def _of(fresh: Freshness) -> str:
    """How new a snapshot says that it is, in words."""
    revision = f"revision {'none' if fresh.revision is None else fresh.revision}"
    return f"{revision} as of {text.moment_kept(fresh.stated_at)}" if fresh.stated_at else revision


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
