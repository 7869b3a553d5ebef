"""Sellers' public keys: cached a while, fetched again once for an unknown key, with a cool-down.

Deliveries that come at once wait for one fetch: none is refused because another is just fetching its key.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import structlog
from django.core.cache import cache

from tasks_app.adcp.signatures.jwks import KeysError, fetch_jwks, find_jwk
from tasks_app.sellers.models import Seller

log = structlog.get_logger(__name__)
_KEEP_S = 300
_COOL_DOWN_S = 30
_fetching: defaultdict[uuid.UUID, threading.Lock] = defaultdict(threading.Lock)


def seller_key(seller: Seller, key_id: str) -> Mapping[str, Any] | None:
    """The JWK a seller publishes under `key_id`, None when there is none. Fetches outside any transaction."""
    known = find_jwk(_cached(seller), key_id)
    if known is not None:
        return known
    with _fetching[seller.pk]:
        return find_jwk(_cached(seller), key_id) or _fetched(seller, key_id)


def _fetched(seller: Seller, key_id: str) -> Mapping[str, Any] | None:
    if not cache.add(f"jwks-cool-down:{seller.pk}:{seller.jwks_url}", 1, _COOL_DOWN_S):
        return None
    try:
        keys = asyncio.run(fetch_jwks(seller.jwks_url, allow_private=seller.allow_private))
    except KeysError as error:
        log.warning("jwks_unavailable", seller=seller.slug, why=str(error))
        return None
    cache.set(_name(seller), keys, _KEEP_S)
    return find_jwk(keys, key_id)


def _cached(seller: Seller) -> dict[str, Any]:
    found: dict[str, Any] = cache.get(_name(seller)) or {}
    return found


def _name(seller: Seller) -> str:
    return f"jwks:{seller.pk}:{seller.jwks_url}"
