"""Nonces of signatures, remembered by all processes together while a signature lives (RFC 9421 profile).

Source: AdCP L1/security "Webhook replay dedup sizing".
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from functools import partial

from django.conf import settings
from django.db import connection

from tasks_app import clock
from tasks_app.adcp.signatures.rfc9421 import ReplayGuard
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.models import SeenNonce

_KEPT_CHARS = 120
_INSERT = (
    "insert into tasks_app_seennonce (seller_id, key_id, nonce, expires_at) values (%s, %s, %s, %s)"
    " on conflict do nothing"
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
    live = SeenNonce.objects.filter(seller=seller, key_id=_fit(key_id), expires_at__gte=clock.now())
    most = settings.WEBHOOK_NONCES_PER_KEY
    return live[most - 1 : most].exists()


def _remember(seller: Seller, key_id: str, nonce: str, seconds: int) -> bool:
    until = clock.now() + timedelta(seconds=seconds)
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, [seller.pk, _fit(key_id), _fit(nonce), until])
        return cursor.rowcount == 1


def _fit(text: str) -> str:
    """As it is kept: a signature's texts may be longer than our columns."""
    return text if len(text) <= _KEPT_CHARS else hashlib.sha256(text.encode()).hexdigest()
