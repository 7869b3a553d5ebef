"""What a purchase, a change of one, or an answer to a seller's question about either may ask for at all: the
one place for these rules, so that nobody gets past them by another way in.

They refuse what no person should have to find: amounts, prices and dates that nobody could approve as they
stand. What the campaign has room for is `rooms.py`, what a flight is `flights.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from django.db.models import Q, QuerySet

from orders.ask import AskRefusedError, is_in_reach, refuse
from orders.flights import Named, package_problem
from orders.models import Deal, DealLine
from orders.offers import Offer, channels_asked, offers
from tasks_app import clock, money
from tasks_app.adcp import requests
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.people.models import Advertiser
from tasks_app.sellers.models import Seller

MOST = Decimal(10) ** 12  # what a budget may come to, and a rate's columns can hold
NOT_NAMED = "name the moment: a person approves it, and until then time passes"
OTHER_FORMS = {
    "proposal_id": "is not bought here: name the packages with their budgets",
    "budget_allocation": "is not supported here: give every package its budget",
}
FLAT_RATE, FLAT_WHOLE = "flat_rate", "has a flat rate: it is bought whole"
_LONGEST_ID = 255
_ANSWERS = 5  # so many of the seller's latest answers are looked through for a product
Sold = Offer | DealLine | None  # a product as it is offered, else as it was put to people, else unheard of


def offered(
    answered: QuerySet[Operation],
    seller: Seller,
    buyer: Advertiser,
    packages: Sequence[requests.PackageRequest],
) -> list[Offer | None]:
    """Each package's product as the seller last offered it to `buyer` in what it `answered`, else to nobody
    by name; None where it never did. What another advertiser is offered (its rates, its terms) is not this
    one's. Answers are read once, however many packages are asked for."""
    answers = answered.filter(seller=seller, task_type="get_products", status=OperationStatus.COMPLETED)
    sought = {(one.product_id, one.pricing_option_id) for one in packages}
    products = {product for product, _ in sought}
    found: dict[tuple[str, str], Offer] = {}
    for asked_for in (Q(advertiser=buyer), Q(advertiser__isnull=True)):
        if not sought - found.keys():
            break
        latest = answers.filter(asked_for).order_by("-id").values_list("result", "request")[:_ANSWERS]
        for result, asked in latest:
            listed, channels = (result or {}).get("products"), channels_asked(asked or {})
            for offer in offers(seller, listed, {}, asked=channels, only=products):
                found.setdefault((offer.product.id, offer.option_id), offer)
    return [_at_bid(found.get((one.product_id, one.pricing_option_id)), one) for one in packages]


def _at_bid(offer: Offer | None, package: requests.PackageRequest) -> Offer | None:
    return offer if offer is None or package.bid_price is None else replace(offer, rate=package.bid_price)


def line_before(package: requests.PackageRequest, deal: Deal) -> DealLine | None:
    """The line of a deal that was to buy the same product at the same price."""
    same = deal.lines.filter(product_id=package.product_id, pricing_option_id=package.pricing_option_id)
    return same.order_by("position").first()


def purchase_currency(wire: requests.CreateMediaBuy, known: Sequence[Offer | None], deal: Deal | None) -> str:
    """The one currency of the buy: as the products are sold in, as total_budget says, or as that of the
    `deal` it is for, or in whose place it is. Raises AskRefusedError."""
    said = {offer.currency for offer in known if offer is not None}
    if wire.total_budget is not None:
        said.add(wire.total_budget.currency)
    if deal is not None:
        said.add(deal.currency)
    if len(said) > 1:
        refuse("arguments.packages", f"one media buy has one currency, these have {', '.join(sorted(said))}")
    currency = next(iter(said), "")
    if not money.is_currency(currency):
        refuse(
            "arguments.total_budget",
            "say the amount and currency: these products are not known from get_products",
        )
    return currency


def purchase_check(wire: requests.CreateMediaBuy, sold: Sequence[Sold], currency: str) -> None:
    """Raises AskRefusedError with everything that no person should have to find. `sold`: of each package."""
    problems = {
        f"arguments.{name}": why for name, why in OTHER_FORMS.items() if getattr(wire, name) is not None
    }
    for index, (package, product) in enumerate(zip(wire.packages or (), sold, strict=True)):
        why = _package_problem(package, product, wire, currency)
        if why:
            problems[f"arguments.packages.{index}"] = why
    problems |= dates_problems(wire.start_time, wire.end_time)
    total = sum((package.budget or Decimal(0) for package in wire.packages or ()), Decimal(0))
    if total > MOST:
        problems["arguments.packages"] = f"come to more than {MOST}"
    if wire.total_budget is not None and wire.total_budget.amount != total:
        problems["arguments.total_budget.amount"] = f"is not the sum of the packages' budgets, {total}"
    if problems:
        raise AskRefusedError(problems)


def dates_problems(start: datetime | str | None, end: datetime | None) -> dict[str, str]:
    """Why nobody could approve the dates of a request, by field."""
    if not isinstance(start, datetime | None):
        return {"arguments.start_time": NOT_NAMED}
    named = {"start_time": start, "end_time": end}
    return {f"arguments.{name}": "is too far away" for name, at in named.items() if not is_in_reach(at)}


def budget_problem(budget: Decimal, currency: str) -> str:
    """Why nobody could approve a package's budget as it stands; empty where people can."""
    if not 0 < budget < MOST:
        return f"its budget must be above 0 and below {MOST}"
    if budget != money.floor_to_unit(budget, currency):
        return f"its budget is finer than the smallest unit of {currency}"
    return ""


def reach_problem(package: requests.PackageRequest | requests.PackageUpdate) -> str:
    """Why nobody could approve a package's own dates; empty where people can."""
    return "" if is_in_reach(package.start_time, package.end_time) else "its flight is too far away"


def _package_problem(
    package: requests.PackageRequest, sold: Sold, wire: requests.CreateMediaBuy, currency: str
) -> str:
    start = wire.start_time if isinstance(wire.start_time, datetime) else None
    own = Named(start=package.start_time, end=package.end_time)
    return (
        budget_problem(package.budget or Decimal(0), currency)
        or product_problem(package, sold)
        or bid_problem(package, sold)
        or flat_problem(package, sold, currency)
        or reach_problem(package)
        or package_problem(own, Named(start=start, end=wire.end_time))
    )


def product_problem(package: requests.PackageRequest, sold: Sold) -> str:
    """Why a product is not bought so; empty where it may be."""
    offer = sold if isinstance(sold, Offer) else None
    if max(len(package.product_id), len(package.pricing_option_id)) > _LONGEST_ID:
        return f"its ids may have {_LONGEST_ID} characters"
    if offer is not None and offer.is_fixed and offer.rate is None:
        return "its fixed price cannot be read: ask get_products again"
    rate = offer.rate if offer else package.bid_price
    if rate is not None and not 0 < rate < MOST:
        return f"its rate of {rate} cannot be bought at"
    if sold is not None and sold.minimum is not None and (package.budget or 0) < sold.minimum:
        return f"its budget is below the seller's minimum of {sold.minimum}"
    if offer is not None and offer.product.expires_at is not None and offer.product.expires_at <= clock.now():
        return "the offer has expired: ask get_products again"
    return ""


def flat_problem(package: requests.PackageRequest, sold: Sold, currency: str) -> str:
    """Why a package of a flat rate is not bought for its budget: for another amount than its rate nobody
    knows what is bought (AdCP media-buy/advanced-topics/pricing-models, "Flat rate")."""
    model = sold.model if isinstance(sold, Offer) else sold.pricing_model if sold else ""
    if sold is None or model != FLAT_RATE or not sold.is_fixed or sold.rate is None:
        return ""
    whole = money.floor_to_unit(sold.rate, currency)
    return "" if package.budget == whole else f"{FLAT_WHOLE}, for {whole}"


def flat_change_problem(deal: Deal, line: DealLine, package: requests.PackageUpdate) -> str:
    """The same of a package that is bought: it costs what it costs."""
    if line.pricing_model != FLAT_RATE or package.budget in (None, line.budget):
        return ""
    return FLAT_WHOLE


def bid_problem(package: requests.PackageRequest, sold: Sold) -> str:
    """Why nobody bids for a package; empty where people may. What was bought without a known price may be one
    that wants a bid."""
    is_fixed = sold is not None and sold.is_fixed and sold.rate is not None
    return "its price is fixed: leave bid_price out" if is_fixed and package.bid_price is not None else ""
