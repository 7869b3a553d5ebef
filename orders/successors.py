"""Successors of lost deals, and the deal that holds a media buy."""

from __future__ import annotations

import uuid

from orders.models import Deal, DealStatus, UnclaimedBuy

LOST = (DealStatus.FAILED, DealStatus.CANCELLED, DealStatus.EXPIRED)


def other_holder(deal: Deal, media_buy_id: str) -> Deal | None:
    """Return the other deal that holds a media buy of the deal's seller and is not lost."""
    if not media_buy_id:
        return None
    holders = Deal.objects.filter(seller=deal.seller_id, media_buy_id=media_buy_id)
    return holders.exclude(pk=deal.pk).exclude(status__in=LOST).first()


def name_for(deal: Deal, other: Deal) -> str:
    """Return how `other` is named to those who see `deal`. A deal of another team or client is anonymous."""
    own = (other.team_id, other.advertiser_id) == (deal.team_id, deal.advertiser_id)
    return other.reference if own else anonymous_name(other, team_id=deal.team_id)


def anonymous_name(other: Deal, *, team_id: uuid.UUID) -> str:
    """Return how a deal is named to people of a team who may not see it."""
    return "another client’s deal" if other.team_id == team_id else "another team’s deal"


def live_relative(deal: Deal) -> Deal | None:
    """Return another deal that is not lost and was made for the same order."""
    relatives = Deal.objects.filter(pk__in=_family(deal)).exclude(pk=deal.pk)
    return relatives.exclude(status__in=LOST).order_by("pk").first()


def duplicate_reason(deal: Deal) -> str:
    """Return why buying for the deal would buy the same order twice; empty if it would not."""
    other = live_relative(deal)
    if other is not None:
        return duplicate_sentence(other)
    unclaimed = UnclaimedBuy.objects.filter(deal__in=_family(deal), closed_at__isnull=True)
    buy = unclaimed.select_related("deal").order_by("opened_at", "pk").first()
    if buy is None:
        return ""
    return (
        f"{buy.media_buy_id or 'A media buy'} runs for {buy.deal.reference} already: decide about it first."
    )


def duplicate_sentence(holder: Deal) -> str:
    """Return that a second media buy beside that of a deal buys the same twice."""
    held = f" with {holder.media_buy_id}" if holder.media_buy_id else ""
    return f"{holder.reference} is {holder.status}{held} for the same order: this would buy it twice."


def _family(deal: Deal) -> list[uuid.UUID]:
    """Return the ids of the deals that were made for one order: the first one and all that follow it."""
    first = deal
    while first.follows is not None:
        first = first.follows
    found: list[uuid.UUID] = []
    generation = [first.pk]
    while generation:
        found += generation
        generation = list(Deal.objects.filter(follows__in=generation).values_list("pk", flat=True))
    return found
