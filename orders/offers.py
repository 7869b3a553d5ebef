"""Products as sellers offered them, read from get_products: stated facts only, nothing guessed.

Source: AdCP core/product, core/pricing-option, core/delivery-forecast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from tasks_app.adcp.envelopes import parse_time
from tasks_app.money import decimal_of
from tasks_app.sellers.models import Seller

_UNITS_PER_RATE = {"cpm": 1000, "vcpm": 1000}
_MAX_UNITS = Decimal(10) ** 18
_MAX_ID = 255
_MAX_LISTED = 50


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One product under one of its pricing options. `rate` is the fixed price, or the bid we would make."""

    seller: Seller
    product: Mapping[str, Any]
    option: Mapping[str, Any]
    channels: tuple[str, ...]
    model: str
    currency: str
    rate: Decimal | None
    is_fixed: bool
    minimum: Decimal | None
    expires_at: datetime | None

    @property
    def product_id(self) -> str:
        return str(self.product.get("product_id", ""))

    @property
    def name(self) -> str:
        return str(self.product.get("name") or self.product_id)

    @property
    def guaranteed(self) -> bool:
        return self.product.get("delivery_type") == "guaranteed"

    def units(self, budget: Decimal) -> Decimal | None:
        """What `budget` buys at the rate: impressions, points, views; None for a flat rate, and where the
        rate is so small that the number means nothing."""
        if not self.rate or self.model in ("flat_rate", "revenue_share"):
            return None
        bought = budget / self.rate * _UNITS_PER_RATE.get(self.model, 1)
        return bought.quantize(Decimal("0.1")) if bought < _MAX_UNITS else None


def offers(seller: Seller, products: object, ceilings: Mapping[str, Decimal]) -> Iterator[Offer]:
    """Every product and pricing option of an answer that can be read, and ordered by its ids, at all."""
    for product in products if isinstance(products, list) else []:
        if not isinstance(product, dict) or not _is_id(product.get("product_id")):
            continue
        options = product.get("pricing_options")
        for option in options if isinstance(options, list) else []:
            if isinstance(option, dict) and _is_id(option.get("pricing_option_id")):
                yield _offer(seller, product, option, ceilings)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_ID


def _offer(
    seller: Seller, product: Mapping[str, Any], option: Mapping[str, Any], ceilings: Mapping[str, Decimal]
) -> Offer:
    model = str(option.get("pricing_model", ""))
    fixed = decimal_of(option.get("fixed_price"))
    minimum = decimal_of(option.get("min_spend_per_package"))
    channels = product.get("channels")
    return Offer(
        seller=seller,
        product=product,
        option=option,
        channels=tuple(c for c in channels if isinstance(c, str)) if isinstance(channels, list) else (),
        model=model,
        currency=str(option.get("currency", "")),
        rate=fixed if fixed is not None else _bid(option, ceilings.get(model)),
        is_fixed=fixed is not None,
        minimum=minimum if minimum is not None and minimum > 0 else None,
        expires_at=parse_time(product.get("expires_at")),
    )


def _bid(option: Mapping[str, Any], ceiling: Decimal | None) -> Decimal | None:
    """For an auction: the seller's median guidance within our ceiling, never below the floor."""
    floor = decimal_of(option.get("floor_price"))
    guidance = option.get("price_guidance")
    median = decimal_of(guidance.get("p50")) if isinstance(guidance, dict) else None
    if floor is None and median is None:
        return None
    floor = floor or Decimal(0)
    bid = max(median or floor, floor)
    return max(min(bid, ceiling), floor) if ceiling is not None else bid


def forecast_of(product: Mapping[str, Any]) -> dict[str, Any]:
    """The seller's forecast, with its method as the source; empty where none is stated."""
    forecast = product.get("forecast")
    if not isinstance(forecast, dict):
        return {}
    kept = ("points", "method", "currency", "generated_at", "measurement_source", "demographic")
    return {key: forecast[key] for key in kept if key in forecast}


def terms_of(product: Mapping[str, Any], expires_at: datetime | None) -> dict[str, Any]:
    """Cancellation, measurement and hold as the seller states them, and what approval policies judge by."""
    names = ("cancellation_policy", "measurement_terms", "delivery_measurement", "creative_policy")
    terms = {name: product[name] for name in names if isinstance(product.get(name), dict)}
    if expires_at is not None:
        terms["hold_expires_at"] = expires_at.isoformat()
    return {**terms, **_judged_by(product)}


def _judged_by(product: Mapping[str, Any]) -> dict[str, Any]:
    """Policies the seller enforces, regulated categories of what is bundled into the product, and what about
    it is not done by itself; only what is stated. Source: AdCP core/product (`enforced_policies`,
    `included_signals`, `material_submission`, `allowed_actions`)."""
    signals = product.get("included_signals")
    bundled = [one for one in signals if isinstance(one, dict)] if isinstance(signals, list) else []
    stated = {
        "enforced_policies": _ids(product.get("enforced_policies")),
        "policy_categories": sorted({c for one in bundled for c in _ids(one.get("policy_categories"))}),
        "material_by_hand": isinstance(product.get("material_submission"), dict),
        "changes_need_approval": _changes_need_approval(product.get("allowed_actions")),
    }
    return {name: value for name, value in stated.items() if value}


def _ids(value: object) -> list[str]:
    return [one for one in value if _is_id(one)][:_MAX_LISTED] if isinstance(value, list) else []


def _changes_need_approval(actions: object) -> bool:
    """Whether some action on what is bought is had in no other way than by the seller's approval."""
    listed = [one for one in actions if isinstance(one, dict)] if isinstance(actions, list) else []
    return any(one.get("modes") == ["requires_approval"] for one in listed)
