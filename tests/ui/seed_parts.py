"""What the seeded days are made of: a brief, packages with their terms, confirmations, the sellers."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from orders.models import Deal
from orders.services import LineDraft
from tasks_app import clock
from tasks_app.people.models import Actor
from tasks_app.sellers.models import Seller

ZONE = "America/New_York"


def brief(name: str, advertiser: str, total: str, currency: str, channels: dict[str, int]) -> dict[str, Any]:
    return {
        "name": name,
        "advertiser": advertiser,
        "brand_domain": f"{advertiser.lower().replace(' ', '-')}.com",
        "objective": {"goal": "Reach of new customers", "kpi": "reach", "target": 1_200_000},
        "budget": {"total": total, "currency": currency},
        "flight": {"start": "+14d", "end": "+41d", "zone": ZONE},
        "channels": [{"channel": channel, "weight": weight} for channel, weight in channels.items()],
        "audience": "Adults 25-54",
        "geography": {"countries": ["US"]},
        "formats": ["video_hosted", "image", "audio_hosted"],
        "measurement": ["impressions"],
    }


def line(
    *,
    channel: str,
    product_name: str,
    rate: str,
    budget: str,
    model: str = "cpm",
    ceiling: str = "40",
    minimum: str = "5000",
    guaranteed: bool = True,
) -> LineDraft:
    """One package with terms and a forecast as a seller states them."""
    units = Decimal(budget) / Decimal(rate) * (1000 if model == "cpm" else 1)
    metric = "impressions" if model == "cpm" else "grps"
    at_minimum = Decimal(minimum) / Decimal(rate) * (1000 if model == "cpm" else 1)
    spread = {"low": round(at_minimum * Decimal("0.9")), "high": round(at_minimum * Decimal("1.1"))}
    return LineDraft(
        channel=channel,
        product_id=f"prod-{channel}-03",
        product_name=product_name,
        pricing_option_id=f"{model}-{rate.replace('.', '')}",
        pricing_model=model,
        is_fixed=guaranteed,
        guaranteed=guaranteed,
        rate=Decimal(rate),
        ceiling=Decimal(ceiling),
        budget=Decimal(budget),
        minimum=Decimal(minimum),
        units=units.quantize(Decimal("0.1")),
        targeting={"geo_countries": ["US"]},
        forecast={
            "method": "guaranteed" if guaranteed else "modeled",
            "points": [{"budget": minimum, "metrics": {metric: spread}}],
            "measurement_source": "nielsen",
        },
        terms={
            "cancellation_policy": {
                "notice_period": {"interval": 14, "unit": "days"},
                "cancellation_fee": {"type": "percent_remaining", "rate": "0.5"},
            },
            "measurement_terms": {
                "billing_measurement": {"vendor": {"domain": "videoamp.com"}, "max_variance_percent": 10},
                "makegood_policy": {"available_remedies": ["additional_delivery", "credit"]},
            },
        },
    )


def bought(deal: Deal, media_buy_id: str, *, second: dict[str, Any] | None = None) -> dict[str, Any]:
    """create_media_buy's answer; `second` changes the second package."""
    packages = [
        {
            "package_id": f"{media_buy_id}-{one.position}",
            "product_id": one.product_id,
            "pricing_option_id": one.pricing_option_id,
            "budget": float(one.budget),
            "start_time": one.start_at.isoformat(),
            "end_time": one.end_at.isoformat(),
            "targeting_overlay": one.targeting,
            "context": {"line_id": str(one.pk)},
        }
        for one in deal.lines.all()
    ]
    if second:
        packages[1].update(second)
    return {
        "media_buy_id": media_buy_id,
        "media_buy_status": "pending_creatives",
        "revision": 1,
        "valid_actions": ["cancel", "increase_budget", "decrease_budget", "update_flight_dates"],
        "creative_deadline": (deal.start_at - timedelta(days=5)).isoformat(),
        "confirmed_at": clock.now().isoformat(),
        "packages": packages,
    }


def later(deal: Deal) -> str:
    return (deal.start_at + timedelta(days=1)).isoformat()


def sellers() -> dict[str, Seller]:
    tools = [
        "get_products",
        "create_media_buy",
        "get_media_buys",
        "get_task_status",
        "list_tasks",
        "update_media_buy",
    ]
    shared = {"tools": tools, "adcp_version": "3.2", "idempotency_ttl_s": 86_400, "allow_private": True}
    names = {"norrland": "Norrland Digital", "cobalt": "Cobalt Bay TV", "quill": "Quill Audio"}
    for slug, name in names.items():
        Actor.objects.create(key=f"agent:{slug}", kind=Actor.Kind.AGENT, name=name)
    return {
        slug: Seller.objects.create(
            slug=slug,
            name=names[slug],
            url=f"http://127.0.0.1:9/{slug}",
            protocol=protocol,
            webhook_mode=webhooks,
            **shared,
        )
        for slug, protocol, webhooks in (
            ("norrland", "mcp", "rfc9421"),
            ("cobalt", "a2a", "hmac"),
            ("quill", "mcp", "none"),
        )
    }
