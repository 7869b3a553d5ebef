"""Which products to put forward: ranked by stated facts only, and the reasons shown.

A product matches a requirement where the seller says so; a rate is held against the brief's ceiling of
its basis; a forecast counts when it is there, with its source. No channel gets more than its share, no
package less than the seller's minimum.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from campaigns.brief import RATE_BASES, Brief
from orders.offers import LeftOut, Offer, Product, forecast_of
from tasks_app import money
from tasks_app.adcp import requests
from tasks_app.adcp.capabilities import lets_choose_regions
from tasks_app.desk import text

_LIES_SOMEWHERE = frozenset({"linear_tv", "radio", "ooh", "dooh", "print", "cinema"})  # channels of one place
_SMALLEST_RATE = Decimal("0.000001")  # the scale of DealLine.rate
# Flat rates of one channel's share: a buy of every channel that a brief may name has then no more packages
# than are read back of one (orders.terms.matching.MOST_PACKAGES).
_MOST_TAKEN = 50
_MOST_SHOWN = 10  # formats of a product that takes none of those wanted


@dataclass(frozen=True, kw_only=True)
class Match:
    """One requirement of the brief, and whether the product states that it meets it."""

    name: str
    met: bool
    detail: str


@dataclass(frozen=True, kw_only=True)
class Pick:
    """One package to recommend."""

    offer: Offer
    channel: str
    budget: Decimal
    matches: tuple[Match, ...]


@dataclass(frozen=True, kw_only=True)
class PassedOver:
    """One offer not taken, and why."""

    seller: str
    product: str
    option: str
    channel: str
    why: str


class _Fit(NamedTuple):
    """An offer that can be taken for a channel, and how it matches."""

    offer: Offer
    matches: tuple[Match, ...]


def pick(
    brief: Brief, shares: Mapping[str, Decimal], found: Iterable[Offer], *, now: datetime
) -> tuple[list[Pick], list[PassedOver]]:
    """The best offers for each channel's share, and what was passed over: each offer that is not taken, for
    each channel that it could have been. A product is judged once, however many prices it has."""
    sold: dict[Product, list[Offer]] = {}
    for offer in found:
        sold.setdefault(offer.product, []).append(offer)
    picks: list[Pick] = []
    passed = [
        _passed(offer, "", _unasked(product))
        for product, several in sold.items()
        if not shares.keys() & set(product.channels)
        for offer in several
    ]
    unfit_for_all = {product: _unfit_product(brief, product, now=now) for product in sold}
    for channel, share in shares.items():
        fitting = []
        for product, several in sold.items():
            if channel not in product.channels:
                continue
            met = matches(brief, product, channel)
            for offer in several:
                why = unfit_for_all[product] or _unfit_offer(brief, offer, share)
                if why:
                    passed.append(_passed(offer, channel, why))
                else:
                    fitting.append(_Fit(offer, met))
        fitting.sort(key=lambda fit: _rank(brief, fit))
        taken, left_over = _take(channel, share, fitting)
        picks += taken
        passed += left_over
    return picks, passed


def _unasked(product: Product) -> str:
    if not product.channels:
        return "states no channel, and neither its properties nor its formats tell one"
    inferred = f" (inferred from {product.inferred_from})" if product.inferred_from else ""
    return f"sold as {', '.join(product.channels)}{inferred}, which the brief does not ask for"


def unfit(brief: Brief, offer: Offer, share: Decimal, *, now: datetime) -> str:
    """Why an offer cannot be taken for a share; empty when it can."""
    return _unfit_product(brief, offer.product, now=now) or _unfit_offer(brief, offer, share)


def _unfit_product(brief: Brief, product: Product, *, now: datetime) -> str:
    wanted, regions = brief.constraints.delivery_type, brief.geography.regions
    if wanted is not None and product.stated.get("delivery_type") != wanted:
        return f"is not {wanted}"
    if not lets_choose_regions(product.stated, regions):
        return f"does not let packages be cut to {', '.join(regions)}"
    if product.expires_at is not None and product.expires_at <= now:
        return "the offer has expired"
    return ""


def _unfit_offer(brief: Brief, offer: Offer, share: Decimal) -> str:
    if offer.currency != brief.budget.currency:
        stated = text.stated(offer.currency) or "no stated currency"
        return f"sold in {stated}, the brief is in {brief.budget.currency}"
    if offer.minimum is not None and offer.minimum > share:
        return f"its minimum of {offer.minimum} is above the channel's share of {share}"
    return _unfit_price(brief, offer, share)


def _unfit_price(brief: Brief, offer: Offer, share: Decimal) -> str:
    ceiling = brief.constraints.ceilings.get(offer.model)  # type: ignore[call-overload]
    if offer.model not in RATE_BASES:
        return "its pricing model is none we know"
    if offer.rate is None or offer.rate <= 0:
        said = offer.price_unread
        return f"its price, stated as {said}, cannot be read" if said else "no price is stated"
    if offer.rate < _SMALLEST_RATE:
        return f"{offer.model} {offer.rate} is below {_SMALLEST_RATE}, too small to be kept"
    if ceiling is not None and offer.rate > ceiling:
        return f"{offer.model} {offer.rate} is above the ceiling of {ceiling}"
    if offer.rate > share:
        return f"its price of {offer.rate} is above the channel's share of {share}"
    if offer.model == "flat_rate" and offer.rate != money.floor_to_unit(offer.rate, offer.currency):
        return f"its price of {offer.rate} is finer than the smallest unit of {offer.currency}"
    return ""


def products_wanted(
    brief: Brief, *, brand_domain: str, account: Mapping[str, Any] | None = None, cursor: str = ""
) -> requests.GetProducts:
    """What a seller is asked for: products for the whole brief, and at a `cursor` its further page. Its
    regions are a filter where all that is asked for lies in one (AdCP core/product-filters): what is sold for
    a country, and cut to them, might not pass it."""
    regions = brief.geography.regions
    only = f"Only in {', '.join(regions)}." if regions else ""
    words = (f"{brief.name}: {brief.objective.goal}.", only, brief.audience)
    lies_there = all(wish.channel in _LIES_SOMEWHERE for wish in brief.channels)
    return requests.GetProducts(
        buying_mode="brief",
        brief=" ".join(part for part in words if part),
        brand=requests.Brand(domain=brand_domain),
        account=requests.Account.model_validate(account) if account else None,
        filters=requests.ProductFilters(
            channels=[wish.channel for wish in brief.channels],
            countries=list(brief.geography.countries),
            regions=list(regions) if regions and lies_there else None,
            start_date=brief.flight.start.isoformat(),
            end_date=brief.flight.end.isoformat(),
            delivery_type=brief.constraints.delivery_type,
        ),
        pagination=requests.Pagination(cursor=cursor) if cursor else None,
    )


def matches(brief: Brief, product: Product, channel: str) -> tuple[Match, ...]:
    """Channel, geography, dates, and format and measurement where the brief asks for them."""
    regions, countries = (", ".join(named) for named in (brief.geography.regions, brief.geography.countries))
    where = (
        f"can be cut to {regions}, as its seller declares"
        if regions
        else f"offered for {countries}, as asked"
    )
    dates = " to ".join(f"{day.day} {day:%b %Y}" for day in (brief.flight.start, brief.flight.end))
    found = [
        _channel_match(product, channel),
        Match(name="geography", met=True, detail=where),
        Match(name="dates", met=True, detail=f"offered for {dates}, as asked"),
    ]
    if brief.formats:
        found.append(_format_match(brief, product))
    if brief.measurement:
        found.append(_measurement_match(brief, product))
    return tuple(found)


def _channel_match(product: Product, channel: str) -> Match:
    if product.inferred_from:
        return Match(name="channel", met=False, detail=f"{channel}, inferred from {product.inferred_from}")
    return Match(name="channel", met=channel in product.channels, detail=f"{channel}, as stated")


def _take(channel: str, share: Decimal, fitting: Sequence[_Fit]) -> tuple[list[Pick], list[PassedOver]]:
    """The best first; a flat rate leaves the rest of the share to the next."""
    picks: list[Pick] = []
    passed: list[PassedOver] = []
    taken: set[tuple[uuid.UUID, str]] = set()
    left = share
    for offer, met in fitting:
        budget = min(left, offer.rate or left) if offer.model == "flat_rate" else left
        product = (offer.seller.pk, offer.product.id)
        if product in taken:
            passed.append(_passed(offer, channel, "the same product was taken at another price"))
        elif budget < max(offer.minimum or 0, offer.rate or 0):
            passed.append(_passed(offer, channel, "others match as well or better and take the share"))
        elif len(picks) == _MOST_TAKEN:
            passed.append(_passed(offer, channel, f"{_MOST_TAKEN} others match as well or better"))
        else:
            taken.add(product)
            picks.append(Pick(offer=offer, channel=channel, budget=budget, matches=met))
            left -= budget
    return picks, passed


def _rank(brief: Brief, fit: _Fit) -> tuple[Any, ...]:
    offer = fit.offer
    ceiling = brief.constraints.ceilings.get(offer.model)  # type: ignore[call-overload]
    against = (offer.rate or Decimal(0)) / ceiling if ceiling else Decimal(1)
    return (
        -sum(match.met for match in fit.matches),
        against,
        not forecast_of(offer.product.stated),
        offer.seller.slug,
        offer.product.id,
        offer.option_id,
    )


def _format_match(brief: Brief, product: Product) -> Match:
    shared = sorted(product.formats & set(brief.formats))
    takes = ", ".join(shared or sorted(product.formats)[:_MOST_SHOWN])
    return Match(name="format", met=bool(shared), detail=f"takes {takes or 'no stated format'}")


def _measurement_match(brief: Brief, product: Product) -> Match:
    missing = sorted(set(brief.measurement) - product.measured)
    detail = f"does not state {', '.join(missing)}" if missing else f"states {', '.join(brief.measurement)}"
    return Match(name="measurement", met=not missing, detail=detail)


def passed_unread(one: LeftOut) -> PassedOver:
    """A product that could not be read, among what was passed over."""
    return PassedOver(seller=one.seller.name, product=one.product, option="", channel="", why=one.why)


def _passed(offer: Offer, channel: str, why: str) -> PassedOver:
    return PassedOver(
        seller=offer.seller.name,
        product=offer.product.name,
        option=offer.option_id,
        channel=channel,
        why=why,
    )
