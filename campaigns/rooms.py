"""How much room a deal has in its campaign's budget."""

from __future__ import annotations

from campaigns.models import Campaign
from orders.committed import total_committed, unclaimed_beside
from orders.models import CONFIRMED, UNSETTLED, Deal
from orders.rooms import Room, room_register


def register() -> None:
    """Called when the application starts."""
    room_register(room_for)


def room_for(deal: Deal) -> Room | None:
    """Return what the campaign's budget leaves beside its other deals, open changes and unclaimed media buys.

    Undecided deals count, so that approving them as recommended stays within the budget. None without a
    campaign's budget.
    """
    if deal.campaign_id is None:
        return None
    campaign = Campaign.objects.filter(pk=deal.campaign_id).defer("brief", "outcome").first()
    if campaign is None or campaign.budget is None or campaign.currency != deal.currency:
        return None
    others = Deal.objects.filter(
        campaign_id=deal.campaign_id, currency=deal.currency, status__in=(*UNSETTLED, *CONFIRMED)
    ).exclude(pk=deal.pk)
    left = campaign.budget - total_committed(others) - unclaimed_beside(deal)
    return Room(left=left, of=campaign.reference, budget=campaign.budget)
