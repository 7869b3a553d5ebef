"""Reading a create_media_buy request: is it bookable, and what exactly would be booked.

Source: AdCP `media-buy/create-media-buy-request.json`, `media-buy/package-request.json`. Money in units of
the buy's one currency; flights are [start, end).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from demo.sellers import clock
from demo.sellers.catalogue import RULES, House, Price, Product, Rule
from demo.sellers.offers import units_for
from demo.sellers.refusal import refuse, time_given

Line = tuple[dict[str, Any], Product, Price]

#: What a buyer may set on a package and finds again on the confirmed one.
_ECHOED = (
    "targeting_overlay",
    "pacing",
    "bidding",
    "bid_price",
    "format_option_refs",
    "context",
    "measurement_terms",
)


def order_lines(house: House, request: dict[str, Any]) -> list[Line]:
    """Every package of the request with its product and price.

    Raises:
        AdcpError: for the first package that cannot be sold as asked.
    """
    if not request.get("packages"):
        raise refuse("UNSUPPORTED_FEATURE", "This seller books explicit packages.", field="packages")
    lines = [_line(house, package, number) for number, package in enumerate(request["packages"])]
    currencies = {price.currency for _, _, price in lines}
    if len(currencies) > 1:
        raise refuse("INVALID_REQUEST", "All packages of a media buy are in one currency.", field="packages")
    return lines


def _line(house: House, package: dict[str, Any], number: int) -> Line:
    where = f"packages[{number}]"
    product = house.product(package["product_id"])
    if product is None:
        raise refuse("PRODUCT_NOT_FOUND", f"{house.name} sells no such product.", field=f"{where}.product_id")
    price = next((p for p in product.prices if p.option_id == package["pricing_option_id"]), None)
    if price is None:
        raise refuse(
            "INVALID_REQUEST", "The product has no such pricing option.", field=f"{where}.pricing_option_id"
        )
    _check_money(package, price, where)
    return package, product, price


def _check_money(package: dict[str, Any], price: Price, where: str) -> None:
    budget = package.get("budget")
    if budget is None:
        raise refuse("INVALID_REQUEST", "Each package needs a budget.", field=f"{where}.budget")
    if budget < price.min_spend:
        raise refuse(
            "BUDGET_TOO_LOW",
            f"The minimum for this pricing option is {price.min_spend:.2f} {price.currency}.",
            field=f"{where}.budget",
        )
    bid = _bid(package)
    if price.floor is not None and bid is not None and bid < price.floor:
        raise refuse(
            "INVALID_REQUEST", f"The floor is {price.floor:.2f} {price.currency}.", field=f"{where}.bidding"
        )


def _bid(package: dict[str, Any]) -> float | None:
    bidding = package.get("bidding") or {}
    amounts = (bidding.get("bid_amount"), bidding.get("max_bid"), package.get("bid_price"))
    return next((amount for amount in amounts if isinstance(amount, int | float)), None)


def order_flight(request: dict[str, Any]) -> tuple[datetime, datetime]:
    """Start and end of the buy; `asap` is now.

    Raises:
        AdcpError: INVALID_REQUEST, when it ends before it starts or starts in the past.
    """
    moment = clock.now()
    start = moment if request["start_time"] == "asap" else time_given(request["start_time"], "start_time")
    end = time_given(request["end_time"], "end_time")
    if end <= start:
        raise refuse("INVALID_REQUEST", "The flight ends before it starts.", field="end_time")
    if start < moment - timedelta(days=1):
        raise refuse("INVALID_REQUEST", "The flight starts in the past.", field="start_time")
    return start, end


def order_rule(lines: list[Line]) -> tuple[Rule, Product]:
    """The most demanding rule among the products, and the product it comes from."""
    product = max((product for _, product, _ in lines), key=lambda p: RULES.index(p.rule))
    return product.rule, product


def confirmed_package(
    line: Line, number: int, media_buy_id: str, flight: tuple[datetime, datetime]
) -> dict[str, Any]:
    """A package as the seller books it: what was asked, less what a trimmed product cannot deliver."""
    package, product, price = line
    start = time_given(package["start_time"], "packages.start_time") if "start_time" in package else flight[0]
    end = time_given(package["end_time"], "packages.end_time") if "end_time" in package else flight[1]
    if not flight[0] <= start < end <= flight[1]:
        raise refuse(
            "INVALID_REQUEST", "A package runs within the flight of its buy.", field="packages.start_time"
        )
    budget = package["budget"]
    if product.trim and budget * (1 - product.trim) >= price.min_spend and start + clock.days(1) < end:
        budget = round(budget * (1 - product.trim), 2)
        start += clock.days(1)
    booked = {
        "package_id": f"{media_buy_id}-p{number + 1}",
        "product_id": product.product_id,
        "pricing_option_id": price.option_id,
        "budget": budget,
        "start_time": clock.stamp(start),
        "end_time": clock.stamp(end),
        "paused": bool(package.get("paused", False)),
        **{name: package[name] for name in _ECHOED if name in package},
    }
    if price.model == "cpm":
        booked["impressions"] = int(units_for(price, budget))
    if product.creatives == "uploaded":
        booked["creative_deadline"] = clock.stamp(start - clock.days(product.creative_days))
    return booked


def trimmed(request: dict[str, Any], packages: list[dict[str, Any]]) -> bool:
    """Whether less was booked than asked."""
    pairs = zip(request["packages"], packages, strict=True)
    return any(booked["budget"] != asked["budget"] for asked, booked in pairs)
