"""Nonces of signatures, remembered by all processes together while a signature lives (RFC 9421 profile).

Source: AdCP L1/security "Webhook replay dedup sizing".
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from functools import partial

from django.conf import settings

from tasks_app import clock
from tasks_app.adcp.signatures.rfc9421 import ReplayGuard
from tasks_app.lifecycle.prepared import prepared_row
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.models import SeenNonce

_KEPT_CHARS = 120
_INSERT = (
    "insert into tasks_app_seennonce (seller_id, key_id, nonce, expires_at) values (%s, %s, %s, %s)"
    " on conflict do nothing returning true"
)
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
    most = settings.WEBHOOK_NONCES_PER_KEY
    return prepared_row(_LIVE, [seller.pk, _fit(key_id), clock.now(), most - 1]) is not None


def _remember(seller: Seller, key_id: str, nonce: str, seconds: int) -> bool:
    until = clock.now() + timedelta(seconds=seconds)
    return prepared_row(_INSERT, [seller.pk, _fit(key_id), _fit(nonce), until]) is not None


def _fit(text: str) -> str:
    """As it is kept: a signature's texts may be longer than our columns."""
    return text if len(text) <= _KEPT_CHARS else hashlib.sha256(text.encode()).hexdigest()
