"""Who sent it: the one way of signing that was registered with the seller, and no other.

Source: AdCP L1/security "Mode selection is a switch, not both".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from tasks_app import clock
from tasks_app.adcp.signatures import SignatureError, errors, hmac_sha256, mode_mismatch, rfc9421
from tasks_app.adcp.signatures.rfc9421 import ReplayGuard
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.keys import seller_key
from tasks_app.webhooks.models import SeenNonce

_KEPT_CHARS = 120
_LIVE_NONCES = 100_000  # of one key, within the few minutes a signature lives


def authenticate(*, seller: Seller, url: str, headers: Mapping[str, str], body: bytes) -> str:
    """Check the delivery as the seller was registered; answers the key's id ("" for HMAC).

    Raises SignatureError, also `webhook_mode_mismatch` for a valid-looking signature of the other kind.
    """
    names = {name.lower() for name in headers}
    signed = "signature-input" in names
    hmac = hmac_sha256.SIGNATURE_HEADER.lower() in names
    if seller.webhook_mode == Seller.WebhookMode.RFC9421:
        if hmac and not signed:
            raise mode_mismatch("RFC 9421", "HMAC-SHA256")
        return _rfc9421(seller, url, headers, body)
    if seller.webhook_mode == Seller.WebhookMode.HMAC and seller.webhook_secret:
        if signed and not hmac:
            raise mode_mismatch("HMAC-SHA256", "RFC 9421")
        hmac_sha256.verify(headers, body, secrets=[seller.webhook_secret], now=clock.now().timestamp())
        return ""
    raise SignatureError(errors.MODE_MISMATCH, "no webhooks are registered with this seller")


def _rfc9421(seller: Seller, url: str, headers: Mapping[str, str], body: bytes) -> str:
    verified = rfc9421.verify(
        "POST",
        url,
        headers,
        body,
        find_key=partial(seller_key, seller),
        check_revoked=lambda _keyid: None,
        replay=ReplayGuard(
            is_full=partial(_is_full, seller),
            is_known=partial(_is_known, seller),
            remember=partial(_remember, seller),
        ),
        now=clock.now().timestamp(),
    )
    return verified.keyid


def nonces_forget() -> int:
    """Drop nonces that no live signature can carry any more."""
    return SeenNonce.objects.filter(expires_at__lt=clock.now()).delete()[0]


def _is_full(seller: Seller, key_id: str) -> bool:
    live = SeenNonce.objects.filter(seller=seller, key_id=_fit(key_id), expires_at__gte=clock.now())
    return live[_LIVE_NONCES : _LIVE_NONCES + 1].exists()


def _is_known(seller: Seller, key_id: str, nonce: str) -> bool:
    return SeenNonce.objects.filter(seller=seller, key_id=_fit(key_id), nonce=_fit(nonce)).exists()


def _remember(seller: Seller, key_id: str, nonce: str, seconds: int) -> bool:
    _, made = SeenNonce.objects.get_or_create(
        seller=seller,
        key_id=_fit(key_id),
        nonce=_fit(nonce),
        defaults={"expires_at": clock.now() + timedelta(seconds=seconds)},
    )
    return made


def _fit(text: str) -> str:
    """As it is kept: a signature's texts may be longer than our columns."""
    return text if len(text) <= _KEPT_CHARS else hashlib.sha256(text.encode()).hexdigest()
