"""Who a legacy deal is with: a seller we know by its address, or a new one that is switched off."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.utils.text import slugify

from campaigns.legacy.values import UnmappableError, Values, required, text
from tasks_app.people.models import Actor
from tasks_app.sellers.models import Seller

_URL = URLValidator(schemes=["http", "https"])


@dataclass(frozen=True, kw_only=True)
class SellerFacts:
    """What a row says of its seller."""

    url: str
    name: str


def seller_facts(values: Values) -> SellerFacts:
    """Raises UnmappableError; its text never repeats the address, which may hold a secret."""
    url = required(values, "seller_url", limit=500)
    try:
        _URL(url)
        parts = urlsplit(url)
    except (ValidationError, ValueError):
        raise UnmappableError("seller_url", "is no http or https address") from None
    if parts.username is not None or parts.password is not None:
        raise UnmappableError("seller_url", "holds credentials")
    name = text(values, "seller_org", limit=10_000) or text(values, "seller_domain") or str(parts.hostname)
    return SellerFacts(url=url, name=name[:120])


def seller_ensure(facts: SellerFacts) -> tuple[Seller, bool]:
    """The seller at that address, and whether it is new. A new one is neither asked nor booked with until an
    administrator has added it (`add_seller`), which also finds out its protocol: the source tells none."""
    bare = facts.url.rstrip("/")
    known = Seller.objects.filter(url__in=(facts.url, bare, f"{bare}/")).order_by("created_at", "pk").first()
    if known is not None:
        return known, False
    seller = Seller.objects.create(
        slug=_free_slug(facts), name=facts.name, url=facts.url, protocol=Seller.Protocol.MCP, active=False
    )
    Actor.objects.get_or_create(
        key=f"agent:{seller.slug}", defaults={"kind": Actor.Kind.AGENT, "name": seller.name}
    )
    return seller, True


def _free_slug(facts: SellerFacts) -> str:
    host = str(urlsplit(facts.url).hostname)
    plain = slugify(facts.name.replace(".", "-")) or slugify(host.replace(".", "-")) or "seller"
    if not Seller.objects.filter(slug=plain[:60]).exists():
        return plain[:60]
    return f"{plain[:51]}-{hashlib.sha256(facts.url.encode()).hexdigest()[:8]}"
