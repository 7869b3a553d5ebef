"""What deals commit: money that is with sellers, or on its way to them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.db.models import Sum

from orders.models import CONFIRMED, Deal, DealLine, DealStatus
from tasks_app.money import decimal_of

_COMMITTED = (DealStatus.ACCEPTED, DealStatus.BOOKING, *CONFIRMED)


def committed_beside(deal: Deal) -> Decimal:
    """Gross of the other committed deals of the same campaign, in its currency."""
    lines = DealLine.objects.filter(deal__campaign_id=deal.campaign_id, deal__status__in=_COMMITTED)
    total = lines.exclude(deal=deal).aggregate(total=Sum("budget"))["total"]
    return total or Decimal(0)


def deal_amount(deal_id: uuid.UUID, change: Mapping[str, Any] | None = None) -> Decimal:
    """Gross of a deal as it would be after `change` (update_media_buy's arguments)."""
    packages = (change or {}).get("packages") or ()
    told = {package.get("package_id"): decimal_of(package.get("budget")) for package in packages}
    lines = DealLine.objects.filter(deal=deal_id).values_list("package_id", "budget")
    return sum((told.get(package_id) or budget for package_id, budget in lines), Decimal(0))
