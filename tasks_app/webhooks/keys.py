"""Sellers' public keys: cached a while, fetched again once for an unknown key, with a cool-down.

A fetch holds a thread that takes webhooks: there is one at a time for a seller, and never so many that none
of those threads is left. Who comes meanwhile is asked to come again: none is refused, and none waits.
Source: AdCP L1/security "JWKS discovery".
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
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
_MOST_KEYS = 1_000  # of one seller that are remembered
_fetching: defaultdict[uuid.UUID, threading.Lock] = defaultdict(threading.Lock)
_NOTE = """
insert into tasks_app_sellerkey (seller_id, first_seen_at, key_id) select %s, %s, unnest(%s::text[])
    on conflict do nothing returning key_id
"""
_Kept = tuple[datetime, dict[str, Any]]


class FetchNeededError(Exception):
    """A seller has to be asked first, by who may wait for that."""


class FetchBusyError(Exception):
    """A seller is being asked at this moment, or as many are as may be: the sender is to come again."""


# A thread is always left for those of whom nobody has to be asked.
_places = threading.BoundedSemaphore(max(1, settings.WEBHOOK_ASIDE_THREADS - 1))


@contextmanager
def fetching(lock: threading.Lock) -> Iterator[None]:
    """Around asking one seller, whose `lock` is held meanwhile. Raises FetchBusyError at once."""
    if not lock.acquire(blocking=False):
        raise FetchBusyError
    try:
        if not _places.acquire(blocking=False):
            raise FetchBusyError
        try:
            yield
        finally:
            _places.release()
    finally:
        lock.release()


def seller_key(seller: Seller, key_id: str, *, may_fetch: bool = True) -> Mapping[str, Any] | None:
    """The JWK a seller publishes under `key_id`, None when there is none, or where that is not where it
    declares its keys. Fetches outside any transaction; raises FetchNeededError where it may not and would,
    FetchBusyError where it cannot now."""
    if seller.keys_elsewhere:
        return None
    found = _fresh(seller, key_id)
    if found is not None:
        return found
    if _fetching[seller.pk].locked():
        known = find_jwk(seller_jwks(seller), key_id)
        if known is None:
            raise FetchBusyError
        return known
    if cache.get(_cool_down(seller)) is None:
        if not may_fetch:
            raise FetchNeededError
        with fetching(_fetching[seller.pk]):
            _fetch(seller)
    return find_jwk(seller_jwks(seller), key_id)


def seller_jwks(seller: Seller) -> dict[str, Any]:
    """The seller's key set as last fetched, empty where there is none."""
    kept: _Kept | None = cache.get(_name(seller))
    return kept[1] if kept else {}


def _fresh(seller: Seller, key_id: str) -> Mapping[str, Any] | None:
    kept: _Kept | None = cache.get(_name(seller))
    return find_jwk(kept[1], key_id) if kept and clock.now() - kept[0] < _FRESH else None


def _fetch(seller: Seller) -> None:
    if not cache.add(_cool_down(seller), 1, _COOL_DOWN_S):
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
    room = max(0, _MOST_KEYS - len(known))  # what is beyond it is told of, and not remembered
    with connection.cursor() as cursor:
        cursor.execute(_NOTE, [seller.pk, clock.now(), sorted(published - known)[:room]])
        new = sorted(key_id for (key_id,) in cursor.fetchall())
    beyond = sorted(published - known)[room:]
    if known and (new or beyond):  # else it is its first set, or another process was faster
        new_keys_alarm(seller, [*new, *beyond])


def _cool_down(seller: Seller) -> str:
    return f"jwks-cool-down:{seller.pk}:{seller.jwks_url}"


def _name(seller: Seller) -> str:
    return f"jwks:{seller.pk}:{seller.jwks_url}"
