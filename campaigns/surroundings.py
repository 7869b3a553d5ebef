"""What an approval page shows around a deal: its campaign, the money left there, the seller's history."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from django.db.models import Sum
from django.urls import reverse

from campaigns.commitments import Money, money_of
from campaigns.models import Campaign
from campaigns.track import answer_times, middle
from orders.models import CONFIRMED, Deal, DealLine, DealStatus
from tasks_app import clock
from tasks_app.approvals.around import Budget, Detail, Place, around_register
from tasks_app.desk import text
from tasks_app.operations.models import Operation
from tasks_app.operations.selectors import conflicts_of
from tasks_app.people.models import User
from tasks_app.people.scope import visible

_YEAR = timedelta(days=365)


def register() -> None:
    """Called when the application starts."""
    around_register("deal", places=deal_places, detail=deal_detail)
    around_register("operation", places=operation_places, detail=operation_detail)
    around_register("conflict", places=conflict_places, detail=conflict_detail)


def deal_places(ids: Collection[uuid.UUID], viewer: User) -> dict[uuid.UUID, Place]:
    """Deal id to its page, campaign and gross, of those the viewer may see."""
    rows = visible(Deal.objects.filter(pk__in=ids), viewer).annotate(gross=Sum("lines__budget"))
    deals = list(rows.values_list("pk", "reference", "campaign_id", "currency", "gross"))
    campaigns = dict(
        visible(Campaign.objects.filter(pk__in={row[2] for row in deals if row[2]}), viewer).values_list(
            "pk", "name"
        )
    )
    return {
        pk: _place(
            reference=reference,
            link=reverse("admin:orders_deal_change", args=[pk]),
            campaign=campaign,
            names=campaigns,
            gross=gross,
            currency=currency,
        )
        for pk, reference, campaign, currency, gross in deals
    }


def operation_places(ids: Collection[uuid.UUID], viewer: User) -> dict[uuid.UUID, Place]:
    """Operation id to its page, with campaign and money of the deal it is for."""
    found = list(
        visible(Operation.objects.filter(pk__in=ids), viewer).values_list(
            "pk", "reference", "subject_type", "subject_id"
        )
    )
    about = {subject for _, _, kind, subject in found if kind == "deal" and subject}
    deals = deal_places(about, viewer) if about else {}
    return {
        pk: replace(
            (deals.get(subject) if subject else None) or Place(reference=""),
            reference=reference,
            link=reverse("admin:tasks_app_operation_change", args=[pk]),
        )
        for pk, reference, _, subject in found
    }


def conflict_places(ids: Collection[uuid.UUID], viewer: User) -> dict[uuid.UUID, Place]:
    """Conflict id to its page, with campaign and money of what its operation is for."""
    found = dict(conflicts_of(viewer).filter(pk__in=ids).values_list("pk", "operation_id"))
    operations = operation_places(set(found.values()), viewer)
    return {
        pk: replace(operations[about], link=reverse("admin:tasks_app_conflict_change", args=[pk]))
        for pk, about in found.items()
        if about in operations
    }


def conflict_detail(conflict_id: uuid.UUID, viewer: User) -> Detail:
    """What surrounds its operation."""
    about = conflicts_of(viewer).filter(pk=conflict_id).values_list("operation_id", flat=True).first()
    return operation_detail(about, viewer) if about else Detail()


def operation_detail(operation_id: uuid.UUID, viewer: User) -> Detail:
    """What surrounds the deal that the operation is for, without its budget: nothing new is bought."""
    subject = (
        visible(Operation.objects.filter(pk=operation_id, subject_type="deal"), viewer)
        .values_list("subject_id", flat=True)
        .first()
    )
    detail = deal_detail(subject, viewer) if subject else Detail()
    return replace(detail, budget=None, group=())


def deal_detail(deal_id: uuid.UUID, viewer: User) -> Detail:
    """Money left in the campaign at this moment, its other deals, and how the seller did so far."""
    deal = visible(Deal.objects.filter(pk=deal_id), viewer).first()
    if deal is None:
        return Detail()
    answers = answer_times(viewer, [deal.seller_id]).get(deal.seller_id, [])
    campaign = (
        visible(Campaign.objects.filter(pk=deal.campaign_id), viewer).first() if deal.campaign_id else None
    )
    money = money_of([campaign.pk]).get(campaign.pk, Money()) if campaign else Money()
    return Detail(
        budget=_budget(campaign, money, deal) if campaign else None,
        group=tuple(money.deals - {deal.pk}),
        history=_history(deal, viewer, answers),
        answer_time=middle(answers),
        creative_deadline=deal.creative_deadline,
    )


def _place(
    *,
    reference: str,
    link: str,
    campaign: uuid.UUID | None,
    names: dict[uuid.UUID, str],
    gross: Decimal | None,
    currency: str,
) -> Place:
    place = Place(reference=reference, link=link, amount=gross, currency=currency)
    if campaign is None or campaign not in names:
        return place
    return replace(
        place,
        campaign=names[campaign],
        campaign_link=reverse("admin:campaigns_campaign_change", args=[campaign]),
    )


def _budget(campaign: Campaign, money: Money, deal: Deal) -> Budget | None:
    if campaign.budget is None:
        return None
    return Budget(total=campaign.budget, taken=money.taken_without(deal.pk), currency=campaign.currency)


def _history(deal: Deal, viewer: User, answers: Sequence[timedelta]) -> tuple[tuple[str, str], ...]:
    before = list(
        visible(Deal.objects.filter(seller=deal.seller_id), viewer)
        .exclude(pk=deal.pk)
        .exclude(status__in=(DealStatus.QUOTED, DealStatus.NEGOTIATING, DealStatus.ACCEPTED))
        .values_list("status", "differences", "confirmed_at")
    )
    booked = [differences for status, differences, _ in before if status in CONFIRMED]
    if not before:
        return (("Deals before", "none, this would be the first"),)
    lost = sum(status in _LOST for status, _, _ in before)
    differing = sum(bool(found) for found in booked)
    since = min((at for _, _, at in before if at is not None), default=None)
    first = f"{len(booked) - differing} of {len(booked)} booked" + (
        f" since {text.day(since)}" if since else ""
    )
    facts = [
        ("Booked as approved", first if booked else "none booked yet"),
        ("Booked differently", str(differing) if differing else "none"),
        ("Failed or cancelled", text.number(lost) if lost else "none"),
        ("Time to confirm", _times(answers)),
        ("Confirmed, 12 months", _spent(deal, viewer)),
    ]
    return tuple(facts)


_LOST = (DealStatus.FAILED, DealStatus.CANCELLED)


def _times(answers: Sequence[timedelta]) -> str:
    usual = middle(answers)
    if usual is None:
        return "no purchase confirmed yet"
    ranked = sorted(answers)
    most = ranked[min(len(ranked) - 1, round(0.9 * (len(ranked) - 1)))]
    many = f", nine in ten within {text.duration(most)}" if len(ranked) >= 10 else f", of {len(ranked)}"
    return f"median {text.duration(usual)}{many}"


def _spent(deal: Deal, viewer: User) -> str:
    lines = visible(DealLine.objects.all(), viewer, team="deal__team").filter(
        deal__seller=deal.seller_id, deal__status__in=CONFIRMED, deal__confirmed_at__gte=clock.now() - _YEAR
    )
    pairs = lines.values_list("deal__currency", "confirmed_budget", "budget")
    totals = text.amounts((currency, _either(confirmed, asked)) for currency, confirmed, asked in pairs)
    return ", ".join(f"{currency} {text.amount(total, currency)}" for currency, total in totals) or "nothing"


def _either(confirmed: Decimal | None, asked: Decimal) -> Decimal:
    return asked if confirmed is None else confirmed
