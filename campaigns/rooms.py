"""How much room a deal has in its campaign's budget, for who approves other amounts than were recommended."""

from __future__ import annotations

from decimal import Decimal

from django.db.models import Sum

from campaigns.models import Campaign
from orders.amending import Room, room_register
from orders.models import CONFIRMED, UNSETTLED, Deal, DealLine


def register() -> None:
    """Called when the application starts."""
    room_register(room_for)


def room_for(deal: Deal) -> Room | None:
    """What its campaign's budget leaves beside every other deal that is not lost, undecided ones too: whoever
    approves those as recommended stays within the budget. None without a campaign's budget."""
    if deal.campaign_id is None:
        return None
    campaign = Campaign.objects.filter(pk=deal.campaign_id).defer("brief", "outcome").first()
    if campaign is None or campaign.budget is None or campaign.currency != deal.currency:
        return None
    others = DealLine.objects.filter(
        deal__campaign_id=deal.campaign_id, deal__status__in=(*UNSETTLED, *CONFIRMED)
    ).exclude(deal=deal)
    taken = others.aggregate(total=Sum("budget"))["total"] or Decimal(0)
    return Room(left=campaign.budget - taken, of=campaign.reference)
