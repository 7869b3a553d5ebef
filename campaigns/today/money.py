"""Committed against budget, of the campaigns under way with the largest budgets."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Exists, OuterRef, Q

from campaigns.commitments import APPROVED, Money, money_of
from campaigns.models import Campaign, CampaignStatus
from orders.models import CONFIRMED, Deal
from tasks_app import clock
from tasks_app.desk import text
from tasks_app.lifecycle.names import link_to
from tasks_app.people.models import User
from tasks_app.people.scope import visible

_MOST = 30
_ENDED = (CampaignStatus.FAILED, CampaignStatus.VALIDATION_FAILED)
_WORDS = ("confirmed by sellers", "approved, not confirmed", "waiting for approval")


@dataclass(frozen=True, kw_only=True)
class Commitment:
    """One campaign's bar: shares of its budget in percent, and the same in words."""

    name: str
    link: str
    parts: tuple[tuple[str, float], ...]
    label: str
    percent: int
    taken: Decimal
    budget: Decimal
    currency: str


def commitments(who: User) -> list[Commitment]:
    """Campaigns whose flight is not over, the largest budget first, those among them that have failed and of
    which something is bought all the same; in two queries."""
    bought = Deal.objects.filter(campaign_id=OuterRef("pk"), status__in=(*CONFIRMED, *APPROVED))
    running = visible(Campaign.objects.filter(budget__gt=0, end_at__gt=clock.now()), who).filter(
        ~Q(status__in=_ENDED) | Exists(bought)
    )
    campaigns = list(running.order_by("-budget", "id").defer("brief")[:_MOST])
    money = money_of([campaign.pk for campaign in campaigns]) if campaigns else {}
    return [_commitment(campaign, money.get(campaign.pk, Money())) for campaign in campaigns]


def _commitment(campaign: Campaign, money: Money) -> Commitment:
    budget = campaign.budget or Decimal(1)  # never without one: the query asks for budgets above 0
    shares = [float(part / budget * 100) for part in (money.confirmed, money.approved, money.waiting)]
    said = ", ".join(f"{share:.1f} percent {word}" for share, word in zip(shares, _WORDS, strict=True))
    return Commitment(
        name=campaign.name,
        link=link_to(Campaign, campaign.pk),
        parts=tuple(zip(("firm", "soft", "ask"), shares, strict=True)),
        label=f"{campaign.name}: {said}",
        percent=int(shares[0] + shares[1]),
        taken=money.confirmed + money.approved,
        budget=budget,
        currency=campaign.currency,
    )


def committed(found: Collection[Commitment]) -> list[dict[str, Any]]:
    """Committed and budget per currency, never added across currencies."""
    taken = dict(text.amounts((one.currency, one.taken) for one in found))
    budgets = text.amounts((one.currency, one.budget) for one in found)
    return [
        {
            "currency": currency,
            "taken": taken[currency],
            "budget": total,
            "percent": taken[currency] / total * 100,
        }
        for currency, total in budgets
    ]
