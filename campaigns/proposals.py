"""From picks to deals: one media buy per seller, with the reasons a person will be shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import transaction

from campaigns.brief import Brief
from campaigns.models import Campaign
from campaigns.outcome import campaign_put_forward
from campaigns.recommend import PassedOver, Pick
from orders.models import Deal
from orders.offers import forecast_of
from orders.services import DealDraft, LineDraft, deal_quote
from tasks_app.people.actors import SYSTEM
from tasks_app.sellers.models import Account, Seller

_PASSED_KEPT = 200  # of what was passed over, with each deal


@transaction.atomic
def propose(
    *,
    campaign: Campaign,
    brief: Brief,
    picks: Sequence[Pick],
    passed: Sequence[PassedOver],
    unanswered: Sequence[PassedOver] = (),
) -> list[Deal]:
    """One deal (`quoted`) per seller among the picks, and the campaign waits for people: all in one commit.
    With each deal stands what was passed over in its channels; with the campaign all of it, and the sellers
    that offered nothing (`unanswered`)."""
    Campaign.objects.select_for_update(no_key=True).get(pk=campaign.pk)  # before its deals, as its end does
    by_seller: dict[Seller, list[Pick]] = {}
    for one in picks:
        by_seller.setdefault(one.offer.seller, []).append(one)
    deals = [_deal(campaign, brief, seller, taken, passed) for seller, taken in by_seller.items()]
    left_out = [vars(one) for one in (*unanswered, *passed)]
    campaign_put_forward(campaign=campaign, deals=deals, left_out=left_out)
    return deals


def _deal(
    campaign: Campaign, brief: Brief, seller: Seller, taken: list[Pick], passed: Sequence[PassedOver]
) -> Deal:
    draft = DealDraft(
        team=campaign.team,
        advertiser=campaign.buyer,
        seller=seller,
        account=Account.objects.filter(advertiser=campaign.buyer, seller=seller).first(),
        currency=brief.budget.currency,
        start_at=brief.flight.start_at,
        end_at=brief.flight.end_at,
        zone=brief.flight.zone,
        campaign_id=campaign.pk,
        lines=[_line(brief, one) for one in taken],
        terms=_deal_terms(taken),
        reasons=deal_reasons(brief, taken, passed),
    )
    met, asked = _score(taken)
    return deal_quote(
        draft=draft,
        actor=SYSTEM,
        requested_by=campaign.requested_by,
        reason=f"{met} of {asked} requirements match",
    )


def deal_reasons(brief: Brief, taken: Sequence[Pick], passed: Sequence[PassedOver]) -> dict[str, Any]:
    """Why these were taken, and what was passed over in their channels, as it is kept with a deal."""
    channels = {one.channel for one in taken}
    return {
        "lines": [_reasons(one) for one in taken],
        **_passed_kept([one for one in passed if not one.channel or one.channel in channels]),
        **({"policy_categories": list(brief.policy_categories)} if brief.policy_categories else {}),
        **({"booking": brief.booking} if brief.booking == "together" else {}),
    }


def _passed_kept(passed: Sequence[PassedOver]) -> dict[str, Any]:
    more = len(passed) - _PASSED_KEPT
    kept = {"passed_over": [vars(one) for one in passed[:_PASSED_KEPT]]}
    return {**kept, **({"passed_over_more": more} if more > 0 else {})}


def _line(brief: Brief, one: Pick) -> LineDraft:
    offer = one.offer
    return LineDraft(
        channel=one.channel,
        product_id=offer.product.id,
        product_name=offer.product.name,
        pricing_option_id=offer.option_id,
        pricing_model=offer.model,
        is_fixed=offer.is_fixed,
        guaranteed=offer.guaranteed,
        rate=offer.rate,
        ceiling=brief.constraints.ceilings.get(offer.model),  # type: ignore[call-overload]
        budget=one.budget,
        minimum=offer.minimum,
        units=offer.units(one.budget),
        targeting=brief.geography.targeting,
        forecast=forecast_of(offer.product.stated),
        terms=offer.terms,
    )


def _reasons(one: Pick) -> dict[str, Any]:
    return {
        "product": one.offer.product.name,
        "channel": one.channel,
        "matches": [vars(match) for match in one.matches],
        "forecast_source": one.offer.forecast_source,
    }


def _score(taken: list[Pick]) -> tuple[int, int]:
    every = [match for one in taken for match in one.matches]
    return sum(match.met for match in every), len(every)


def _deal_terms(taken: list[Pick]) -> dict[str, Any]:
    holds = [at for one in taken if (at := one.offer.product.expires_at) is not None]
    return {"hold_expires_at": min(holds).isoformat()} if holds else {}
