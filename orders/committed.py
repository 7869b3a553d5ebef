"""What deals and unclaimed media buys commit of a campaign's budget."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from decimal import Decimal

from django.db.models import OuterRef, QuerySet, Subquery, Sum

from orders.amounts import COMMITTED, gross
from orders.changes.open_changes import reserved_by_deal
from orders.models import Deal, DealStatus, UnclaimedBuy

_NOTHING = Decimal(0)


def committed_beside(deal: Deal) -> Decimal:
    """Return what the rest of the deal's campaign commits, in the deal's currency.

    These are the other deals, and the media buys that were made for them and that no deal holds.
    """
    others = Deal.objects.filter(campaign_id=deal.campaign_id, currency=deal.currency, status__in=COMMITTED)
    return total_committed(others.exclude(pk=deal.pk)) + unclaimed_beside(deal)


def total_committed(deals: QuerySet[Deal]) -> Decimal:
    """Return what deals of one currency come to together; undecided ones as recommended."""
    found = deals.annotate(gross=gross()).aggregate(total=Sum("gross"))
    return (found["total"] or _NOTHING) + sum(reserved_by_deal(deals).values(), _NOTHING)


def unclaimed_beside(deal: Deal) -> Decimal:
    """Return what unclaimed media buys of the campaign commit that were made for its other deals."""
    if deal.campaign_id is None:
        return _NOTHING
    others = Deal.objects.filter(campaign_id=deal.campaign_id, currency=deal.currency).exclude(pk=deal.pk)
    return sum((amount for _, _, amount in unclaimed_amounts(others)), _NOTHING)


def unclaimed_amounts(deals: QuerySet[Deal]) -> Iterator[tuple[uuid.UUID | None, uuid.UUID, Decimal]]:
    """Yield (campaign, deal, amount) of the open unclaimed media buys that were made for deals.

    The amount is in the deal's currency. A deal in booking commits its approved amount already, so its media
    buys add only what is above that.
    """
    buys = UnclaimedBuy.objects.filter(deal=OuterRef("pk"), closed_at__isnull=True).order_by()
    total = Subquery(buys.values("deal").annotate(total=Sum("amount")).values("total"))
    rows = deals.annotate(unclaimed=total, gross=gross()).filter(unclaimed__isnull=False)
    for campaign, pk, status, unclaimed, counted in rows.values_list(
        "campaign_id", "pk", "status", "unclaimed", "gross"
    ):
        more = unclaimed - counted if status == DealStatus.BOOKING else unclaimed
        if more > 0:
            yield campaign, pk, more
