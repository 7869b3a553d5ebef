"""Nonces of signatures, remembered by all processes together while a signature lives (RFC 9421 profile).

Source: AdCP L1/security "Webhook replay dedup sizing".
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from functools import partial

from django.conf import settings
from django.core.cache import cache

from tasks_app import clock
from tasks_app.adcp.signatures.rfc9421 import ReplayGuard
from tasks_app.lifecycle.prepared import prepared_row
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.alarms import nonces_full_alarm
from tasks_app.webhooks.models import SeenNonce

_KEPT_CHARS = 120
_ALL = "nonces-full"
_INSERT = (
    "insert into tasks_app_seennonce (seller_id, key_id, nonce, expires_at) values (%s, %s, %s, %s)"
    " on conflict do nothing returning true"
)
_IN_ALL = "select true from tasks_app_seennonce where expires_at >= %s limit 1 offset %s"
# Counting all is too dear for each delivery: each process looks so often, and may go beyond by that much.
_COUNTED_S = 5
_ALARMED_S = 600
_LIVE = (
    "select true from tasks_app_seennonce where seller_id = %s and key_id = %s and expires_at >= %s"
    " limit 1 offset %s"
)


def replay_guard(seller: Seller) -> ReplayGuard:
    """What `rfc9421.verify` asks; a nonce seen before is found when it is remembered again."""
    return ReplayGuard(
        is_full=partial(_is_full, seller),
        is_known=lambda _key_id, _nonce: False,
        remember=partial(_remember, seller),
    )


def nonces_forget() -> int:
    """Drop nonces that no live signature can carry any more."""
    return SeenNonce.objects.filter(expires_at__lt=clock.now()).delete()[0]


def _is_full(seller: Seller, key_id: str) -> bool:
    """Whether this key, or all keys together, have as many live signatures as are remembered. Nothing is
    forgotten for new ones: that would let old ones be replayed."""
    if _all_full():
        _alarm(seller, "")
        return True
    most = settings.WEBHOOK_NONCES_PER_KEY
    full = prepared_row(_LIVE, [seller.pk, key_id_kept(key_id), clock.now(), most - 1]) is not None
    if full:
        _alarm(seller, key_id_kept(key_id))
    return full


def _alarm(seller: Seller, key_id: str) -> None:
    """Said once, and not asked for at each refusal whether it was said."""
    if cache.add(f"nonces-alarm:{seller.pk}:{key_id}", 1, _ALARMED_S):
        nonces_full_alarm(seller, key_id=key_id)


def _all_full() -> bool:
    known = cache.get(_ALL)
    if known is None:
        most = settings.WEBHOOK_NONCES_IN_ALL
        known = prepared_row(_IN_ALL, [clock.now(), most - 1]) is not None
        cache.set(_ALL, known, _COUNTED_S)
    return bool(known)


def _remember(seller: Seller, key_id: str, nonce: str, seconds: int) -> bool:
    until = clock.now() + timedelta(seconds=seconds)
    return prepared_row(_INSERT, [seller.pk, key_id_kept(key_id), key_id_kept(nonce), until]) is not None


def key_id_kept(text: str) -> str:
    """A key's id, or a nonce, as it is kept: a signature's texts may be longer than our columns."""
    return text if len(text) <= _KEPT_CHARS else hashlib.sha256(text.encode()).hexdigest()
