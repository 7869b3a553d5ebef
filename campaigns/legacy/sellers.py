"""Who a legacy deal is with: a seller we know by its address, or a new one that is switched off."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import URLValidator

from campaigns.legacy.values import UnmappableError, Values, required, text
from tasks_app.lifecycle.transitions import Who
from tasks_app.sellers.models import Seller
from tasks_app.sellers.names import is_name, seller_alike
from tasks_app.sellers.services import seller_import

_NAME_CHARS = 120
_NAMED_IN = (("seller_org", 10_000), ("seller_domain", 255))
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
    called = (text(values, column, limit=limit)[:_NAME_CHARS] for column, limit in _NAMED_IN)
    return SellerFacts(url=url, name=next(filter(is_name, called), str(parts.hostname)[:_NAME_CHARS]))


def seller_ensure(facts: SellerFacts, actor: Who) -> tuple[Seller, bool]:
    """Return the seller at that address, and whether it is new.

    A new one is neither asked nor booked with until `add_seller` gave it its protocol, which the source does
    not tell, and it is switched on.
    """
    bare = facts.url.rstrip("/")
    known = Seller.objects.filter(url__in=(facts.url, bare, f"{bare}/")).order_by("created_at", "pk").first()
    if known is not None:
        return known, False
    return seller_import(name=_name_apart(facts), url=facts.url, actor=actor), True


def _name_apart(facts: SellerFacts) -> str:
    """As the source calls it; where another seller's name looks the same, with its host behind, and its
    address where that does not tell them apart."""
    host = str(urlsplit(facts.url).hostname)
    behind = (f" ({host[:60]})", f" ({hashlib.sha256(facts.url.encode()).hexdigest()[:16]})")
    names = (facts.name, *(f"{facts.name[: _NAME_CHARS - len(more)]}{more}" for more in behind))
    return next(name for name in names if not seller_alike(name))
