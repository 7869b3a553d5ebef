"""Deals within a user's scope: rows of answers, links, and what they commit together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from django.db.models import Count, QuerySet

from orders.amounts import COMMITTED, gross_of, with_answered
from orders.committed import total_committed
from orders.models import Deal
from tasks_app.assistant.tools.facts import Row, amount_fact, flight_fact, foreign_fact, status_fact
from tasks_app.assistant.tools.objects import (
    find_by_reference,
    links_by_name,
    links_to,
    visible_names,
    visible_rows,
)
from tasks_app.assistant.tools.registry import Link
from tasks_app.assistant.tools.sellers import seller_fact
from tasks_app.lifecycle.names import EntityName
from tasks_app.people.models import User

VIEW_DEAL = "orders.view_deal"
Names = Mapping[Any, EntityName]


def visible_deals(user: User) -> QuerySet[Deal]:
    """Return the deals that the user may see, with their lines, newest first."""
    rows: QuerySet[Deal] = visible_rows("deal", user)
    return with_answered(rows).prefetch_related("lines").order_by("-pk")


def find_deal(user: User, reference: str) -> Deal:
    """Return the deal with that reference. Raise ToolRefusedError if the user may see none."""
    deal: Deal = find_by_reference("deal", reference, visible_deals(user))
    return deal


def committed_amounts(deals: QuerySet[Deal]) -> list[tuple[str, Decimal]]:
    """Return (currency, amount) of what deals commit, with what open changes reserve."""
    counted = deals.filter(status__in=COMMITTED)
    currencies = counted.order_by("currency").values_list("currency", flat=True).distinct()
    return [(currency, total_committed(counted.filter(currency=currency))) for currency in currencies]


def status_counts(deals: QuerySet[Deal]) -> Counter[str]:
    """Return how many deals have each status."""
    rows = deals.order_by().values("status").annotate(count=Count("pk"))
    return Counter({row["status"]: row["count"] for row in rows})


def campaign_names_of(deals: Iterable[Deal], user: User) -> dict[Any, EntityName]:
    """Return the names of the deals' campaigns that the user may see, by the campaign's id."""
    return visible_names("campaign", {deal.campaign_id for deal in deals if deal.campaign_id}, user)


def deal_amount(deal: Deal) -> Decimal:
    """Return what the seller confirmed, otherwise what is approved or put forward."""
    return gross_of(deal, deal.lines.all())


def deal_row(deal: Deal, campaigns: Names) -> Row:
    """Return the row of a deal in a list."""
    campaign = campaigns.get(deal.campaign_id)
    return {
        "Deal": deal.reference,
        "Seller": seller_fact(deal.seller),
        "Advertiser": deal.advertiser.name,
        "Campaign": campaign.reference if campaign else None,
        "Campaign name": foreign_fact(campaign.name if campaign else ""),
        "Status": status_fact(deal.status),
        "Flight": flight_fact(deal.start_at, deal.end_at, deal.zone),
        "Amount": amount_fact(deal_amount(deal), deal.currency),
    }


def deal_links(deals: Sequence[Deal], campaigns: Names, user: User) -> list[Link]:
    """Return links to deals, to their sellers and to their campaigns."""
    sellers = links_to("seller", [deal.seller for deal in deals], user)
    return [*links_to("deal", deals, user), *sellers, *links_by_name("campaign", campaigns)]
