"""Two deals between which money can move, and a seller that shows a change."""

from __future__ import annotations

from decimal import Decimal

from orders.models import Deal
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tests.factories import make_advertiser, make_deal, make_line, make_seller, make_team
from tests.lifecycle.entities import make_campaign
from tests.orders.late import say
from tests.orders.live import booked, packages, says


def two_deals(
    name: str = "Spring Launch", *, tv: str = "Cobalt Bay TV", audio: str = "Quill Audio"
) -> tuple[Deal, Deal]:
    """Return two booked deals of a campaign of 40,000: ctv of 20,000 and podcast of 5,000."""
    campaign = make_campaign(name=name, budget=Decimal(40_000), currency="USD")
    television = booked(make_seller(tv), line=make_line(channel="ctv", budget=Decimal(20_000)))
    podcast = booked(
        make_seller(audio),
        media_buy_id="mb-2",
        line=make_line(channel="podcast", product_id="prod-pod", budget=Decimal(5_000), minimum=None),
    )
    Deal.objects.filter(pk__in=[television.pk, podcast.pk]).update(campaign_id=campaign.pk)
    return Deal.objects.get(pk=television.pk), Deal.objects.get(pk=podcast.pk)


def foreign_deal() -> Deal:
    """Return a deal of another team, with the seller "Hidden Seller"."""
    client = make_advertiser("Hidden Client", team=make_team("Elsewhere"))
    seller = make_seller("Hidden Seller")
    return make_deal(seller=seller, account=False, team=client.team, advertiser=client)


def shown(deal: Deal, operation: Operation, budget: float) -> None:
    """Let the seller complete a change of the budget, and show it."""
    claim_one(operation_id=operation.pk)
    say(operation, "completed", {"media_buy_id": deal.media_buy_id, "revision": 2})
    says(deal, "active", revision=2, packages=packages(deal, budget=budget))
