"""What approval policies judge a deal by: first order, categories, manual inventory, its neighbours, hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet

from orders.amounts import gross
from orders.changes.open_changes import reserved_by_deal
from orders.flights import Flight as Whole
from orders.models import (
    CONFIRMED,
    LIVE,
    UNDECIDED,
    UNSETTLED,
    Deal,
    DealStatus,
    lines_read_once,
)
from tasks_app.adcp.values import parse_time
from tasks_app.approvals.policies import Facts
from tasks_app.approvals.policy_models import PolicyRule
from tasks_app.approvals.splitting import Flight, Neighbour
from tasks_app.sellers.hours import hours_of

# Flights further away than this are no part of the same order, however many lie in between.
_REACH = timedelta(days=366)
_ORDERED = (*CONFIRMED, DealStatus.ACCEPTED, DealStatus.BOOKING)


@lines_read_once
def deal_facts(
    deal: Deal,
    rules: frozenset[PolicyRule],
    *,
    approved: Decimal | None = None,
    flight: Whole | None = None,
) -> Facts:
    """The deal as policies of `rules` see it. `approved`: what was approved before, where the question
    changes that; `flight`: the one it would have then. Other deals are looked at only where a rule judges by
    them."""
    whole = flight or Whole(start=deal.start_at, end=deal.end_at)
    runs = Flight(start=whole.start, end=whole.end)
    return Facts(
        approved=approved,
        first_order=PolicyRule.FIRST_ORDER in rules and _is_first(deal),
        categories=frozenset(_categories(deal)),
        manual=tuple(_manual(deal)),
        flight=runs,
        neighbours=tuple(_neighbours(deal, runs)) if PolicyRule.SPLITTING in rules else (),
        hold_until=parse_time(deal.terms.get("hold_expires_at")) if deal.status in UNDECIDED else None,
        hours=hours_of(deal.seller.business_hours),
    )


def _is_first(deal: Deal) -> bool:
    """Whether the team has ordered nothing from this seller yet, but for the deal itself until it is booked;
    what was adopted counts once it is approved."""
    if deal.status in CONFIRMED and not deal.unapproved:
        return False
    ordered = Deal.objects.filter(team=deal.team_id, seller=deal.seller_id, status__in=_ORDERED)
    return not ordered.exclude(pk=deal.pk).filter(unapproved=False).exists()


def _categories(deal: Deal) -> Iterator[str]:
    """AdCP's policy categories of the advertiser, the brief and the products, and what sellers enforce."""
    yield from _words(deal.advertiser.policy_categories)
    yield from _words(deal.reasons.get("policy_categories"))
    for line in deal.lines.all():
        yield from _words(line.terms.get("policy_categories"))
        yield from _words(line.terms.get("enforced_policies"))


def _manual(deal: Deal) -> Iterator[str]:
    for line in deal.lines.all():
        for why in _why_manual(line.guaranteed, line.is_fixed, line.terms):
            yield f"{line.product_name} {why}"


def _why_manual(guaranteed: bool, is_fixed: bool, terms: Mapping[str, Any]) -> Iterator[str]:
    if not guaranteed:
        yield "is not guaranteed"
    if not is_fixed:
        yield "has no fixed price"
    if terms.get("material_by_hand") is True:
        yield "takes its material by hand"
    if terms.get("changes_need_approval") is True:
        yield "is changed only with the seller’s approval"


def _neighbours(deal: Deal, flight: Flight) -> Iterator[Neighbour]:
    """Open and booked deals of the same advertiser with the same seller, near its flight, with what
    open changes bring."""
    same: QuerySet[Deal] = Deal.objects.filter(
        advertiser=deal.advertiser_id,
        seller=deal.seller_id,
        status__in=(*UNSETTLED, *LIVE),
        start_at__lte=flight.end + _REACH,
        end_at__gte=flight.start - _REACH,
    ).exclude(pk=deal.pk)
    if not same.exists():
        return  # as of most deals, and what they come to is dear to ask
    rows, reserved = same.order_by("start_at", "id").annotate(gross=gross()), reserved_by_deal(same)
    for pk, reference, start, end, total, currency in rows.values_list(
        "pk", "reference", "start_at", "end_at", "gross", "currency"
    ):
        yield Neighbour(
            reference=reference,
            flight=Flight(start=start, end=end),
            amount=(total or Decimal(0)) + reserved.get(pk, Decimal(0)),
            currency=currency,
        )


def _words(value: Any) -> Iterator[str]:
    return (one for one in value if isinstance(one, str)) if isinstance(value, list) else iter(())
