"""What of a campaign's budget is confirmed by sellers, approved but not confirmed, or waits for people."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from decimal import Decimal

from orders.models import CONFIRMED, UNDECIDED, DealLine, DealStatus

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
    """Campaign id to its money, in one query; deals that ended without a booking take nothing."""
    lines = DealLine.objects.filter(
        deal__campaign_id__in=campaigns, deal__status__in=(*CONFIRMED, *APPROVED, *UNDECIDED)
    )
    found: dict[uuid.UUID, Money] = {}
    for campaign, deal, status, asked, confirmed in lines.values_list(
        "deal__campaign_id", "deal_id", "deal__status", "budget", "confirmed_budget"
    ):
        if campaign is None:
            continue
        money = found.setdefault(campaign, Money())
        money.deals.add(deal)
        _add(money, deal, status, asked if confirmed is None else confirmed)
    return found


def _add(money: Money, deal: uuid.UUID, status: str, amount: Decimal) -> None:
    if status in UNDECIDED:
        money.waiting += amount
        return
    money.by_deal[deal] = money.by_deal.get(deal, Decimal(0)) + amount
    if status in CONFIRMED:
        money.confirmed += amount
    else:
        money.approved += amount
