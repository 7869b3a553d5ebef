"""Products on the wire: the catalogue in AdCP's shape, and the search that get_products asks for.

Source: schemas `core/product.json`, `core/product-filters.json`, `core/pricing-option.json` of AdCP 3.2.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from demo.sellers import clock
from demo.sellers.catalogue import House, Price, Product
from demo.sellers.refusal import time_given

#: Units bought for one price: impressions come by the thousand, everything else one by one.
_PER_PRICE = {"cpm": 1000, "cpp": 1, "cpcv": 1, "flat_rate": 1}
_METRIC = {"cpm": "impressions", "cpp": "grps", "cpcv": "completed_views"}
_CURVE = (1.0, 2.5, 5.0)


def product_document(house: House, product: Product) -> dict[str, Any]:
    """A product as get_products returns it."""
    document: dict[str, Any] = {
        "product_id": product.product_id,
        "name": product.name,
        "description": product.description,
        "publisher_properties": [{"publisher_domain": product.domain, "selection_type": "all"}],
        "channels": [product.channel],
        "format_options": [_format(product, number) for number in range(len(product.formats))],
        "delivery_type": "guaranteed" if product.guaranteed else "non_guaranteed",
        "pricing_options": [_pricing_option(price) for price in product.prices],
        "forecast": _forecast(product),
        "delivery_measurement": {"vendors": [{"domain": product.measured_by}]},
        "measurement_terms": {
            "billing_measurement": {
                "vendor": {"domain": product.measured_by},
                "max_variance_percent": product.variance_percent,
            },
            "makegood_policy": {"available_remedies": list(product.makegood)},
        },
        "cancellation_policy": _cancellation(product),
        "reporting_capabilities": {
            "available_reporting_frequencies": ["daily"],
            "expected_delay_minutes": 240,
            "timezone": house.timezone,
            "supports_webhooks": False,
            "available_metrics": list(product.metrics),
            "date_range_support": "date_range",
        },
        "creative_policy": {
            "co_branding": "none",
            "landing_page": "any",
            "templates_available": False,
        },
        "ext": {
            house.slug: {
                "countries": list(product.countries),
                "creative_deadline_days_before_start": product.creative_days,
            }
        },
        **product.extra,
    }
    if product.hold_hours:
        document["expires_at"] = clock.stamp(clock.now() + timedelta(hours=product.hold_hours))
    return document


def _format(product: Product, number: int) -> dict[str, Any]:
    kind, params = product.formats[number]
    return {
        "format_kind": kind,
        "format_option_id": f"{product.product_id}-{number + 1}",
        "params": dict(params),
    }


def _pricing_option(price: Price) -> dict[str, Any]:
    option: dict[str, Any] = {
        "pricing_option_id": price.option_id,
        "pricing_model": price.model,
        "currency": price.currency,
        "min_spend_per_package": price.min_spend,
    }
    if price.fixed is not None:
        option["fixed_price"] = price.fixed
    if price.floor is not None:
        option["floor_price"] = price.floor
        option["price_guidance"] = {"p50": round(price.floor * 1.3, 2), "p75": round(price.floor * 1.6, 2)}
    if price.demographic is not None:
        option["parameters"] = {"demographic_system": "nielsen", "demographic": price.demographic}
    return option


def _cancellation(product: Product) -> dict[str, Any]:
    fee: dict[str, Any] = {"type": "none"}
    if product.cancel_fee is not None:
        fee = {"type": "percent_remaining", "rate": product.cancel_fee}
    return {"notice_period": {"interval": product.cancel_days, "unit": "days"}, "cancellation_fee": fee}


def _forecast(product: Product) -> dict[str, Any]:
    """A spend curve from the first price's minimum upwards, in its currency; of a flat rate one point."""
    price = product.prices[0]
    curve = _CURVE if price.model != "flat_rate" else (1.0,)
    points = [_point(price, round(price.min_spend * step, 2)) for step in curve]
    forecast: dict[str, Any] = {
        "points": points,
        "method": "guaranteed" if product.guaranteed else "modeled",
        "currency": price.currency,
        "generated_at": clock.stamp(clock.now()),
        "valid_until": clock.stamp(clock.now() + clock.days(7)),
    }
    if price.demographic is not None:
        forecast |= {
            "demographic_system": "nielsen",
            "demographic": price.demographic,
            "measurement_source": "nielsen",
        }
    return forecast


def _point(price: Price, budget: float) -> dict[str, Any]:
    units = price.impressions or units_for(price, budget)
    metric = _METRIC.get(price.model, "impressions")
    spread = {"low": round(units * 0.9), "mid": round(units), "high": round(units * 1.1)}
    return {"budget": budget, "metrics": {metric: spread, "spend": {"mid": budget}}}


def units_for(price: Price, budget: float) -> float:
    """How many units of the price's metric a budget buys (impressions, points, completed views)."""
    rate = price.fixed if price.fixed is not None else round((price.floor or 0) * 1.3, 4)
    return budget / rate * _PER_PRICE[price.model] if rate else 0.0


def search(house: House, request: dict[str, Any]) -> list[dict[str, Any]]:
    """The products that satisfy the request's filters, best match with the brief first.

    Filters narrow (channel, country, dates, currency, delivery, budget, pricing structure); the brief only
    ranks: a seller does not hide stock because a word is missing.
    """
    wanted = _words(request.get("brief") or "")
    found = [p for p in house.products if _satisfies(p, request)]
    found.sort(key=lambda p: (-len(wanted & set(p.words)), p.product_id))
    return [_with_relevance(product_document(house, p), p, wanted, request) for p in found]


def _with_relevance(
    document: dict[str, Any], product: Product, wanted: set[str], request: dict[str, Any]
) -> dict[str, Any]:
    if request.get("buying_mode") == "brief":
        shared = sorted(wanted & set(product.words))
        reason = (
            f"named in the brief: {', '.join(shared)}" if shared else "in the channel and market asked for"
        )
        document["brief_relevance"] = f"{product.channel} for {', '.join(product.countries)}; {reason}"
    return document


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{2,}", text.lower()))


def _satisfies(product: Product, request: dict[str, Any]) -> bool:
    filters = request.get("filters") or {}
    overlay = request.get("targeting_overlay") or {}
    countries = set(filters.get("countries") or ()) | set(overlay.get("geo_countries") or ())
    regions = set(filters.get("regions") or ()) | set(overlay.get("geo_regions") or ())
    return all(
        (
            not filters.get("channels") or product.channel in filters["channels"],
            not countries or bool(countries & set(product.countries)),
            not regions or bool({region[:2] for region in regions} & set(product.countries)),
            filters.get("delivery_type") in (None, "guaranteed" if product.guaranteed else "non_guaranteed"),
            any(_price_satisfies(price, filters) for price in product.prices),
            _in_time(filters),
        )
    )


def _price_satisfies(price: Price, filters: dict[str, Any]) -> bool:
    budget = filters.get("budget_range") or {}
    structures = filters.get("pricing_structures") or ()
    structure = "fixed" if price.fixed is not None else "auction"
    fixed = filters.get("is_fixed_price")
    return all(
        (
            not filters.get("pricing_currencies") or price.currency in filters["pricing_currencies"],
            not structures or structure in structures,
            fixed is None or fixed == (price.fixed is not None),
            budget.get("currency") in (None, price.currency),
            budget.get("max") is None or budget["max"] >= price.min_spend,
        )
    )


def _in_time(filters: dict[str, Any]) -> bool:
    end = filters.get("end_date")
    return end is None or time_given(end, "filters.end_date").date() >= clock.now().date()
