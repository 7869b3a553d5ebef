"""Which deal holds a media buy, which one stands in the place of one that came to nothing, and what would buy
the same besides."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from django.db.models import Q

from orders.models import CONFIRMED, Deal, DealStatus
from tasks_app.adcp.types import BUY_GONE
from tasks_app.adcp.values import identity_of
from tasks_app.approvals.models import Approval
from tasks_app.operations.models import Operation

OVER = (DealStatus.FAILED, DealStatus.CANCELLED, DealStatus.EXPIRED)
LATE = "late_completion"  # of questions: what becomes of a purchase that came late
DIFFERENT = "booked_differently"  # of questions: whether what a seller booked will do
TWICE = "bought_twice"  # of a question's evidence


def holder_of(deal: Deal, media_buy_id: str) -> Deal | None:
    """The other deal that holds a media buy of `deal`'s seller. One that is over holds none: what its seller
    tells of it afterwards is somebody's. But for the one that was kept in the place of `deal` and that its
    seller has cancelled since: it was this very purchase to its end."""
    named = Deal.objects.filter(seller=deal.seller_id, media_buy_id=media_buy_id).exclude(pk=deal.pk)
    holds = ~Q(status__in=OVER) | Q(follows=deal.pk, media_buy_status__in=BUY_GONE)
    return named.filter(holds).first() if media_buy_id else None


def named_to(deal: Deal, other: Deal) -> str:
    """How `other` is named to those who see `deal`: another team's, or another client's, is not."""
    own = (other.team_id, other.advertiser_id) == (deal.team_id, deal.advertiser_id)
    return other.reference if own else unnamed(other, team_id=deal.team_id)


def unnamed(other: Deal, *, team_id: uuid.UUID) -> str:
    """How a deal is told of to those of a team who may not see it."""
    return "another client’s deal" if other.team_id == team_id else "another team’s deal"


def follower_live(deal: Deal) -> Deal | None:
    """The deal that is not over and in the place of `deal`, or of one in whose place `deal` is: what is
    bought for `deal` besides is bought twice."""
    line = [deal, *_lost(deal)]
    own, followed = {one.pk for one in line}, [line[-1].pk]
    while followed:
        rows = list(Deal.objects.filter(follows__in=followed).order_by("pk").values_list("pk", "status"))
        live = next((pk for pk, status in rows if status not in OVER and pk not in own), None)
        if live is not None:
            return Deal.objects.get(pk=live)
        followed = [pk for pk, _ in rows]
    return None


def bought_by(purchase: Operation) -> str:
    """The media buy that a purchase is answered with; empty where it names none."""
    return identity_of((purchase.result or {}).get("media_buy_id")) or ""


def twice(deal: Deal, media_buy_id: str) -> str:
    """Why a media buy that was made for `deal` is not kept beside its follower's; empty where it may be."""
    follower = follower_live(deal)
    if follower is None or follower.media_buy_id == media_buy_id:
        return ""
    return _beside(follower, deal, f"keep {media_buy_id or 'this one'}")


def twice_anew(lost: Deal) -> str:
    """Why what was lost is not asked for anew; empty where it may be."""
    follower = follower_live(lost)
    return _beside(follower, lost, "ask for another") if follower is not None else ""


def twice_bought(deal: Deal) -> str:
    """Why a deal is not bought: another is in its place, or in that of the one it follows; empty where it may
    be."""
    other = follower_live(deal)
    return _beside(other, deal.follows or deal, f"buy {deal.reference}") if other is not None else ""


def twice_kept(deal: Deal) -> str:
    """Why a deal that was bought, or adopted, costs as much again: another one is in the same place, or the
    one that it follows is not lost; empty where neither is so."""
    lost = deal.follows
    if lost is None:
        return ""
    if lost.status in CONFIRMED:
        return (
            f"{lost.reference} is {lost.status}{_under(lost)}, and {deal.reference} was bought for it "
            "besides: to keep both would buy twice."
        )
    other = follower_live(deal)
    return _beside(other, lost, f"keep {deal.reference}") if other is not None else ""


def twice_words(approval: Approval) -> dict[str, str]:
    """What approving does, where the question says that another deal is in its place: nothing."""
    again = approval.evidence.get(TWICE)
    return {"approve": f"Not possible: {again}"} if again else {}


def _lost(deal: Deal) -> Iterator[Deal]:
    """The deals in whose place a deal is, the nearest first."""
    before = deal.follows
    while before is not None:
        yield before
        before = before.follows


def _beside(follower: Deal, lost: Deal, does: str) -> str:
    return (
        f"{follower.reference} is in the place of {lost.reference} and {follower.status}{_under(follower)}: "
        f"to {does} too would buy twice. Call {follower.reference} off first."
    )


def _under(deal: Deal) -> str:
    return f" with {deal.media_buy_id}" if deal.media_buy_id else ""
