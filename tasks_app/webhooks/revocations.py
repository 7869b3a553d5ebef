"""Which of a seller's keys are revoked: its list, asked for again when it says so, kept in the database.

It is read when a signature is checked, so that a seller who sends nothing is asked nothing, and a list is
never relied on past its grace. Source: AdCP L1/security "Transport revocation".
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import defaultdict
from datetime import datetime, timedelta

import structlog
from django.core.cache import cache

from tasks_app import clock
from tasks_app.adcp.signatures import SignatureError, errors
from tasks_app.adcp.signatures.jwks import KeysError, NotPublishedError
from tasks_app.adcp.signatures.revocations import (
    Revocations,
    check_revocation,
    fetch_revocations,
    revocations_url,
)
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.keys import FetchBusyError, FetchNeededError, fetching, seller_jwks
from tasks_app.webhooks.models import SellerRevocations

log = structlog.get_logger(__name__)
_NONE_KEPT = timedelta(minutes=30)  # until a seller without a list is asked again (AdCP's ceiling)
_COOL_DOWN_S = 30
_MEMORY_S = 5
_asking: defaultdict[uuid.UUID, threading.Lock] = defaultdict(threading.Lock)


def check_seller_key(seller: Seller, key_id: str, *, may_fetch: bool = True) -> None:
    """Step 9 of the verifier's checklist. Raises SignatureError: key_revoked; revocation_stale while the list
    is overdue, or was never to be had and may exist. Fetches outside any transaction; raises
    FetchNeededError where it may not and would, FetchBusyError where it cannot now."""
    known = _kept(seller)
    if known is None or known.next_at <= clock.now():
        known = _ask(seller, known) if may_fetch else _unasked(seller, known)
    if known is None:
        raise SignatureError(errors.REVOCATION_STALE, "the revocation list cannot be had", step=9)
    check_revocation(key_id, _as_list(known), now=clock.now())


def _unasked(seller: Seller, known: SellerRevocations | None) -> SellerRevocations | None:
    """What is known where asking again would not help; raises FetchNeededError."""
    if known is None and _asking[seller.pk].locked():
        raise FetchBusyError
    if cache.get(_cool_down(seller)) is None:
        raise FetchNeededError
    return known


def _ask(seller: Seller, known: SellerRevocations | None) -> SellerRevocations | None:
    """Fetch once; those who come meanwhile go by a list that is in its grace, or come again."""
    try:
        with fetching(_asking[seller.pk]):
            if cache.add(_cool_down(seller), 1, _COOL_DOWN_S):
                _fetch(seller, known)
            return _kept(seller)
    except FetchBusyError:
        if known is None:
            raise
        return known


def _fetch(seller: Seller, known: SellerRevocations | None) -> None:
    url = revocations_url(seller.brand_json_url or seller.jwks_url)
    distrusted = frozenset(known.revoked_kids) if known else frozenset()
    now = clock.now()
    try:
        found = asyncio.run(
            fetch_revocations(
                url, seller_jwks(seller), now=now, distrusted=distrusted, allow_private=seller.allow_private
            )
        )
    except NotPublishedError:
        if known is None or known.good_until is None:
            _keep(seller, revoked_kids=[], updated=None, next_at=now + _NONE_KEPT, good_until=None)
            return
        log.warning("revocations_unavailable", seller=seller.slug, why="the list is gone")
    except KeysError as error:
        log.warning("revocations_unavailable", seller=seller.slug, why=str(error))
    else:
        _take(seller, known, found)


def _take(seller: Seller, known: SellerRevocations | None, found: Revocations) -> None:
    if known and known.updated and found.updated < known.updated:
        log.warning("revocations_unavailable", seller=seller.slug, why="older than the one we have")
        return
    _keep(
        seller,
        revoked_kids=sorted(found.revoked_kids),
        updated=found.updated,
        next_at=found.next_at,
        good_until=found.good_until,
    )


def _kept(seller: Seller) -> SellerRevocations | None:
    """As stored, from memory for a few seconds."""
    kept: SellerRevocations | None = cache.get(f"revocations:{seller.pk}")
    if kept is None:
        kept = SellerRevocations.objects.filter(seller=seller).first()
        if kept is not None:
            cache.set(f"revocations:{seller.pk}", kept, _MEMORY_S)
    return kept


def _keep(
    seller: Seller,
    *,
    revoked_kids: list[str],
    updated: datetime | None,
    next_at: datetime,
    good_until: datetime | None,
) -> None:
    cache.delete(f"revocations:{seller.pk}")
    SellerRevocations.objects.update_or_create(
        seller=seller,
        defaults={
            "revoked_kids": revoked_kids,
            "updated": updated,
            "next_at": next_at,
            "good_until": good_until,
        },
    )


def _as_list(known: SellerRevocations) -> Revocations | None:
    if known.good_until is None or known.updated is None:
        return None
    return Revocations(
        revoked_kids=frozenset(known.revoked_kids),
        good_until=known.good_until,
        next_at=known.next_at,
        updated=known.updated,
    )


def _cool_down(seller: Seller) -> str:
    return f"revocations-cool-down:{seller.pk}"
