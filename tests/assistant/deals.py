"""Two deals between which money can move, and a seller that shows a change."""

from __future__ import annotations

from decimal import Decimal

from orders.models import Deal
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tests.factories import make_line, make_seller
from tests.lifecycle.entities import make_campaign
from tests.orders.late import say
from tests.orders.live import booked, packages, says


def two_deals() -> tuple[Deal, Deal]:
    """Return two booked deals of the campaign Spring Launch: ctv of 20,000 and podcast of 5,000."""
    campaign = make_campaign(name="Spring Launch")
    tv = booked(make_seller("Cobalt Bay TV"), line=make_line(channel="ctv", budget=Decimal(20_000)))
    audio = booked(
        make_seller("Quill Audio"),
        media_buy_id="mb-2",
        line=make_line(channel="podcast", product_id="prod-pod", budget=Decimal(5_000), minimum=None),
    )
    Deal.objects.filter(pk__in=[tv.pk, audio.pk]).update(campaign_id=campaign.pk)
    return Deal.objects.get(pk=tv.pk), Deal.objects.get(pk=audio.pk)


def shown(deal: Deal, operation: Operation, budget: float) -> None:
    """Let the seller complete a change of the budget, and show it."""
    claim_one(operation_id=operation.pk)
    say(operation, "completed", {"media_buy_id": deal.media_buy_id, "revision": 2})
    says(deal, "active", revision=2, packages=packages(deal, budget=budget))
