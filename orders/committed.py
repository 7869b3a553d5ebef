"""What deals commit together, with what their open changes reserve."""

from __future__ import annotations

from decimal import Decimal

from django.db.models import QuerySet, Sum

from orders.amounts import COMMITTED, gross
from orders.changes.open_changes import reserved_by_deal
from orders.models import Deal

_NOTHING = Decimal(0)


def committed_beside(deal: Deal) -> Decimal:
    """Return what the other deals of the same campaign commit, in the deal's currency."""
    others = Deal.objects.filter(campaign_id=deal.campaign_id, currency=deal.currency, status__in=COMMITTED)
    return total_committed(others.exclude(pk=deal.pk))


def total_committed(deals: QuerySet[Deal]) -> Decimal:
    """Return what deals of one currency come to together; undecided ones as recommended."""
    found = deals.annotate(gross=gross()).aggregate(total=Sum("gross"))
    return (found["total"] or _NOTHING) + sum(reserved_by_deal(deals).values(), _NOTHING)
