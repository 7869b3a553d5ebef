"""Sellers' public keys: cached a while, fetched again once for an unknown key, with a cool-down.

Deliveries that come at once wait for one fetch: none is refused because another is just fetching its key.
Source: AdCP L1/security "JWKS discovery".
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.core.cache import cache
from django.db import connection, transaction

from tasks_app import clock
from tasks_app.adcp.hygiene import clean
from tasks_app.adcp.signatures.jwks import KeysError, fetch_jwks, find_jwk
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.alarms import new_keys_alarm
from tasks_app.webhooks.models import SellerKey
from tasks_app.webhooks.nonces import key_id_kept

log = structlog.get_logger(__name__)
# Fetched again after this long; where that fails, they may be used a while longer (AdCP's ceiling).
_FRESH, _USABLE = timedelta(minutes=5), timedelta(minutes=30)
_COOL_DOWN_S = 30
_fetching: defaultdict[uuid.UUID, threading.Lock] = defaultdict(threading.Lock)
_NOTE = """
insert into tasks_app_sellerkey (seller_id, first_seen_at, key_id) select %s, %s, unnest(%s::text[])
    on conflict do nothing returning key_id
"""
_Kept = tuple[datetime, dict[str, Any]]


def seller_key(seller: Seller, key_id: str) -> Mapping[str, Any] | None:
    """The JWK a seller publishes under `key_id`, None when there is none. Fetches outside any transaction."""
    found = _fresh(seller, key_id)
    if found is not None:
        return found
    with _fetching[seller.pk]:
        found = _fresh(seller, key_id)
        if found is None:
            _fetch(seller)
        return found or find_jwk(seller_jwks(seller), key_id)


def seller_jwks(seller: Seller) -> dict[str, Any]:
    """The seller's key set as last fetched, empty where there is none."""
    kept: _Kept | None = cache.get(_name(seller))
    return kept[1] if kept else {}


def _fresh(seller: Seller, key_id: str) -> Mapping[str, Any] | None:
    kept: _Kept | None = cache.get(_name(seller))
    return find_jwk(kept[1], key_id) if kept and clock.now() - kept[0] < _FRESH else None


def _fetch(seller: Seller) -> None:
    if not cache.add(f"jwks-cool-down:{seller.pk}:{seller.jwks_url}", 1, _COOL_DOWN_S):
        return
    try:
        keys = asyncio.run(fetch_jwks(seller.jwks_url, allow_private=seller.allow_private))
    except KeysError as error:
        log.warning("jwks_unavailable", seller=seller.slug, why=str(error))
        return
    _note_new(seller, keys)
    cache.set(_name(seller), (clock.now(), keys), _USABLE.total_seconds())


@transaction.atomic
def _note_new(seller: Seller, keys: Mapping[str, Any]) -> None:
    """Remember the ids of a key set, and tell of those that came since its first was seen."""
    ids = (jwk.get("kid") for jwk in keys["keys"] if isinstance(jwk, dict))
    published = {key_id_kept(clean(key_id)) for key_id in ids if isinstance(key_id, str)}
    known = set(SellerKey.objects.filter(seller=seller).values_list("key_id", flat=True))
    if published <= known:
        return
    with connection.cursor() as cursor:
        cursor.execute(_NOTE, [seller.pk, clock.now(), sorted(published - known)])
        new = sorted(key_id for (key_id,) in cursor.fetchall())
    if known and new:  # else it is its first set, or another process was faster
        new_keys_alarm(seller, new)


def _name(seller: Seller) -> str:
    return f"jwks:{seller.pk}:{seller.jwks_url}"
