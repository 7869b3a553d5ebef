"""Products as sellers offered them, read from get_products: stated facts, and what follows from them.

Channels are optional; where a product states none they are read from its properties or formats, within what
was asked for, and marked as inferred. Source: AdCP core/product, core/pricing-option, core/delivery-forecast.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from tasks_app.adcp.values import parse_time
from tasks_app.desk import text
from tasks_app.money import decimal_of
from tasks_app.sellers.models import Seller

_UNITS_PER_RATE = {"cpm": 1000, "vcpm": 1000}
_MAX_UNITS = Decimal(10) ** 18
_MAX_ID = 255  # of ids and names
_MAX_CHANNEL = 40
_MAX_LISTED = 50
# Amounts of a pricing option, by their AdCP names.
_MINIMUM, _GUIDANCE = "min_spend_per_package", "price_guidance"
_PRICES = ("fixed_price", "floor_price", _GUIDANCE)


# The channels that a kind of property, and the beginning of a format's name, can be.
_OF_PROPERTIES: Mapping[str, tuple[str, ...]] = {
    "website": ("display", "olv"),
    "mobile_app": ("display", "olv"),
    "desktop_app": ("display", "olv"),
    "ctv_app": ("ctv",),
    "dooh": ("dooh",),
    "podcast": ("podcast",),
    "radio": ("radio",),
    "linear_tv": ("linear_tv",),
    "streaming_audio": ("streaming_audio",),
    "ai_assistant": ("sponsored_intelligence",),
}
_OF_FORMATS: Mapping[str, tuple[str, ...]] = {
    "video": ("olv", "ctv", "linear_tv"),
    "audio": ("streaming_audio", "podcast", "radio"),
    "dooh": ("dooh",),
    "display": ("display",),
    "image": ("display",),
    "html": ("display",),
    "native": ("display",),
}


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """One product of an answer that cannot be offered at all, and why."""

    seller: Seller
    product: str
    why: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Product:
    """A product as its seller stated it, read once however many pricing options it has. `inferred_from` says
    where the channels come from that the seller did not state; `measured` are its metrics, and the domains of
    those who measure it."""

    stated: Mapping[str, Any]
    id: str
    name: str
    channels: tuple[str, ...]
    inferred_from: str
    formats: frozenset[str]
    measured: frozenset[str]
    expires_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One product under one of its pricing options. `rate` is the fixed price (None where nobody can read it,
    and nothing is bid then either), or the bid we would make."""

    seller: Seller
    product: Product
    option: Mapping[str, Any]
    model: str
    currency: str
    rate: Decimal | None
    is_fixed: bool
    minimum: Decimal | None

    @property
    def option_id(self) -> str:
        return str(self.option["pricing_option_id"])

    @property
    def terms(self) -> dict[str, Any]:
        """What the seller states besides the price, and amounts of the option that nobody can read."""
        unread = {
            name: said for name, value in _amounts(self.option).items() if (said := _unread_amount(value))
        }
        return {
            **terms_of(self.product.stated, self.product.expires_at),
            **({"as_stated": unread} if unread else {}),
        }

    @property
    def price_unread(self) -> str:
        """The price as it is stated, where there is one that nobody can read; else empty."""
        amounts = _amounts(self.option)
        return next((said for name in _PRICES if (said := _unread_amount(amounts.get(name)))), "")

    @property
    def forecast_source(self) -> str:
        """Where the seller's forecast comes from, in its own word."""
        return text.stated(forecast_of(self.product.stated).get("method")) or "none stated"

    @property
    def guaranteed(self) -> bool:
        return self.product.stated.get("delivery_type") == "guaranteed"

    def units(self, budget: Decimal) -> Decimal | None:
        """What `budget` buys at the rate: impressions, points, views; None for a flat rate, and where the
        rate is so small that the number means nothing."""
        if not self.rate or self.model in ("flat_rate", "revenue_share"):
            return None
        bought = budget / self.rate * _UNITS_PER_RATE.get(self.model, 1)
        return bought.quantize(Decimal("0.1")) if bought < _MAX_UNITS else None


def offers(
    seller: Seller,
    products: object,
    ceilings: Mapping[str, Decimal],
    *,
    asked: Sequence[str] = (),
    only: Collection[str] | None = None,
) -> Iterator[Offer]:
    """Every product and pricing option of an answer that can be read, and ordered by its ids, at all.
    `asked`: the channels that the request was limited to; `only`: the ids of products, None for all."""
    for stated in products if isinstance(products, list) else []:
        options = _options(stated)
        if options and (only is None or stated["product_id"] in only):
            product = _product(stated, asked)
            for option in options:
                yield _offer(seller, product, option, ceilings)


def left_out(seller: Seller, products: object) -> Iterator[LeftOut]:
    """The products of an answer that `offers` cannot read, each with the reason."""
    for product in products if isinstance(products, list) else []:
        if not _options(product):
            named = product.get("product_id") if isinstance(product, dict) else None
            why = "has no pricing option with a usable id" if _is_id(named) else "has no usable product_id"
            yield LeftOut(seller=seller, product=str(named or "a product")[:_MAX_ID], why=why)


def channels_asked(request: Mapping[str, Any]) -> tuple[str, ...]:
    """The channels that a get_products request was limited to; empty for all."""
    filters = request.get("filters")
    return _texts(filters.get("channels")) if isinstance(filters, dict) else ()


def _options(product: object) -> list[Mapping[str, Any]]:
    if not isinstance(product, dict) or not _is_id(product.get("product_id")):
        return []
    return [one for one in _dicts(product.get("pricing_options")) if _is_id(one.get("pricing_option_id"))]


def _product(stated: Mapping[str, Any], asked: Sequence[str]) -> Product:
    channels, inferred_from = _channels(stated, asked)
    return Product(
        stated=stated,
        id=stated["product_id"],
        name=str(stated.get("name") or stated["product_id"])[:_MAX_ID],
        channels=channels,
        inferred_from=inferred_from,
        formats=frozenset(_texts([one.get("format_kind") for one in _dicts(stated.get("format_options"))])),
        measured=_measured(stated),
        expires_at=parse_time(stated.get("expires_at")),
    )


def _measured(product: Mapping[str, Any]) -> frozenset[str]:
    reporting, measurement = product.get("reporting_capabilities"), product.get("delivery_measurement")
    metrics = reporting.get("available_metrics") if isinstance(reporting, dict) else None
    vendors = measurement.get("vendors") if isinstance(measurement, dict) else None
    return frozenset((*_texts(metrics), *_texts([one.get("domain") for one in _dicts(vendors)])))


def _channels(product: Mapping[str, Any], asked: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The product's channels, and where they were read from when it states none."""
    stated = [one for one in _texts(product.get("channels")) if len(one) <= _MAX_CHANNEL]
    if stated:
        return tuple(stated[:_MAX_LISTED]), ""
    for found, source in ((_of_properties(product), "its properties"), (_of_formats(product), "its formats")):
        if found:
            return tuple(one for one in asked if one in found) or tuple(sorted(found)), source
    return tuple(asked), "what was asked for" if asked else ""


def _of_properties(product: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    for name in ("publisher_properties", "properties"):
        for one in _dicts(product.get(name)):
            found.update(
                _texts(one.get("supported_channels")) or _OF_PROPERTIES.get(str(one.get("property_type")), ())
            )
    return found


def _of_formats(product: Mapping[str, Any]) -> set[str]:
    named = [one.get("format_kind") for one in _dicts(product.get("format_options"))]
    named += [one.get("id") for one in _dicts(product.get("format_ids"))]
    named += _texts(product.get("format_ids"))
    beginnings = {re.split(r"[^a-z]", str(name).lower())[0] for name in named if name}
    return {channel for one in beginnings for channel in _OF_FORMATS.get(one, ())}


def _texts(value: object) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _dicts(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _is_id(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_ID


def _offer(
    seller: Seller,
    product: Product,
    option: Mapping[str, Any],
    ceilings: Mapping[str, Decimal],
) -> Offer:
    model = str(option.get("pricing_model", ""))
    is_fixed = option.get("fixed_price") is not None
    minimum = decimal_of(option.get(_MINIMUM))
    return Offer(
        seller=seller,
        product=product,
        option=option,
        model=model,
        currency=str(option.get("currency", "")),
        rate=decimal_of(option["fixed_price"]) if is_fixed else _bid(option, ceilings.get(model)),
        is_fixed=is_fixed,
        minimum=minimum if minimum is not None and minimum > 0 else None,
    )


def _amounts(option: Mapping[str, Any]) -> dict[str, Any]:
    """What the option states in money, by its AdCP names."""
    guidance = option.get("price_guidance")
    median = guidance.get("p50") if isinstance(guidance, dict) else guidance
    return {
        **{name: option.get(name) for name in ("fixed_price", "floor_price", _MINIMUM)},
        _GUIDANCE: median,
    }


def _unread_amount(value: object) -> str:
    return "" if value is None or decimal_of(value) is not None else text.stated(value)


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
    """Cancellation, measurement and hold as the seller states them, also a hold until what is no moment, and
    what approval policies judge by."""
    names = ("cancellation_policy", "measurement_terms", "delivery_measurement", "creative_policy")
    terms = {name: product[name] for name in names if isinstance(product.get(name), dict)}
    until = expires_at.isoformat() if expires_at is not None else text.stated(product.get("expires_at"))
    if until:
        terms["hold_expires_at"] = until
    return {**terms, **_judged_by(product)}


def _judged_by(product: Mapping[str, Any]) -> dict[str, Any]:
    """Policies the seller enforces, regulated categories of what is bundled into the product, and what about
    it is not done by itself; only what is stated. Source: AdCP core/product (`enforced_policies`,
    `included_signals`, `material_submission`, `allowed_actions`)."""
    bundled = _dicts(product.get("included_signals"))
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
    return any(one.get("modes") == ["requires_approval"] for one in _dicts(actions))
