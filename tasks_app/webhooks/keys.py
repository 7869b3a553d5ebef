"""Sellers' public keys: cached a while, fetched again once for an unknown key, with a cool-down."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog
from django.core.cache import cache

from tasks_app.adcp.signatures.jwks import KeysError, fetch_jwks, find_jwk
from tasks_app.sellers.models import Seller

log = structlog.get_logger(__name__)
_KEEP_S = 300
_COOL_DOWN_S = 30


def seller_key(seller: Seller, key_id: str) -> Mapping[str, Any] | None:
    """The JWK a seller publishes under `key_id`, None when there is none. Fetches outside any transaction."""
    known = find_jwk(_cached(seller) or {}, key_id)
    if known is not None or not cache.add(f"jwks-cool-down:{seller.pk}", 1, _COOL_DOWN_S):
        return known
    try:
        keys = asyncio.run(fetch_jwks(seller.jwks_url, allow_private=seller.allow_private))
    except KeysError as error:
        log.warning("jwks_unavailable", seller=seller.slug, why=str(error))
        return None
    cache.set(_name(seller), keys, _KEEP_S)
    return find_jwk(keys, key_id)


def _cached(seller: Seller) -> dict[str, Any] | None:
    found: dict[str, Any] | None = cache.get(_name(seller))
    return found


def _name(seller: Seller) -> str:
    return f"jwks:{seller.pk}:{seller.jwks_url}"
