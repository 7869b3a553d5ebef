"""What of a campaign's budget is confirmed by sellers, approved but not confirmed, or waits for people."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from decimal import Decimal

from django.db.models import OuterRef, Subquery

from campaigns.models import Campaign
from orders.amounts import gross
from orders.changes.open_changes import reserved_by_deal
from orders.committed import unclaimed_amounts
from orders.models import CONFIRMED, UNDECIDED, Deal, DealStatus

APPROVED = (DealStatus.ACCEPTED, DealStatus.BOOKING)


@dataclass(kw_only=True)
class Money:
    """Sums in the campaign's currency. `by_deal`: what each confirmed or approved deal takes."""

    confirmed: Decimal = Decimal(0)
    approved: Decimal = Decimal(0)
    waiting: Decimal = Decimal(0)
    by_deal: dict[uuid.UUID, Decimal] = field(default_factory=dict)
    deals: set[uuid.UUID] = field(default_factory=set)

    def taken_without(self, deal: uuid.UUID) -> Decimal:
        """Confirmed and approved together, leaving one deal out."""
        return self.confirmed + self.approved - self.by_deal.get(deal, Decimal(0))


def money_of(campaigns: Collection[uuid.UUID]) -> dict[uuid.UUID, Money]:
    """Return the money of each campaign, by its id, with open changes and unclaimed media buys.

    Deals that ended without a booking, or in another currency than their campaign's, take nothing.
    """
    currency = Campaign.objects.filter(pk=OuterRef("campaign_id")).values("currency")
    deals = Deal.objects.filter(campaign_id__in=campaigns, status__in=(*CONFIRMED, *APPROVED, *UNDECIDED))
    counted = deals.filter(currency=Subquery(currency))
    rows, reserved = counted.annotate(gross=gross()), reserved_by_deal(counted)
    found: dict[uuid.UUID, Money] = {}
    columns = ("campaign_id", "pk", "status", "gross", "confirmed_gross")
    for campaign, deal, status, amount, confirmed in rows.values_list(*columns):
        if campaign is None:
            continue
        money = found.setdefault(campaign, Money())
        money.deals.add(deal)
        told = (amount if confirmed is None else confirmed) if status in CONFIRMED else Decimal(0)
        _add(money, deal, status, amount + reserved.get(deal, Decimal(0)), confirmed=told)
    in_currency = Deal.objects.filter(campaign_id__in=campaigns, currency=Subquery(currency))
    for campaign, deal, amount in unclaimed_amounts(in_currency):
        if campaign is not None:
            money = found.setdefault(campaign, Money())
            _add(money, deal, DealStatus.BOOKING, amount, confirmed=Decimal(0))
    return found


def _add(money: Money, deal: uuid.UUID, status: str, amount: Decimal, *, confirmed: Decimal) -> None:
    if status in UNDECIDED:
        money.waiting += amount
        return
    money.by_deal[deal] = money.by_deal.get(deal, Decimal(0)) + amount
    money.confirmed += confirmed
    money.approved += amount - confirmed
