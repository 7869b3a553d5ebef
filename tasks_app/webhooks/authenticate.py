"""Who sent it: the one way of signing that was registered with the seller, and no other.

Source: AdCP L1/security "Mode selection is a switch, not both".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from tasks_app import clock
from tasks_app.adcp.signatures import SignatureError, bearer, errors, hmac_sha256, mode_mismatch, rfc9421
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.keys import seller_key
from tasks_app.webhooks.nonces import replay_guard
from tasks_app.webhooks.revocations import check_seller_key

Mode = Seller.WebhookMode
_SIGNATURE, _TIMESTAMP = hmac_sha256.SIGNATURE_HEADER.lower(), hmac_sha256.TIMESTAMP_HEADER.lower()
# What a delivery proven in that way carries. A bare X-AdCP-Signature may be either kind of HMAC.
_CARRIES: dict[Mode, Callable[[Mapping[str, str]], bool]] = {
    Mode.RFC9421: lambda headers: "signature-input" in headers or "signature" in headers,
    Mode.HMAC: lambda headers: _SIGNATURE in headers,
    Mode.HMAC_BODY: lambda headers: _SIGNATURE in headers and _TIMESTAMP not in headers,
    Mode.BEARER: bearer.is_bearer,
}


def authenticate(
    *, seller: Seller, url: str, headers: Mapping[str, str], body: bytes, may_fetch: bool = True
) -> str:
    """Check the delivery as the seller was registered; answers the key's id ("" for a shared secret).

    Names of `headers` are in lower case. Raises SignatureError, also `webhook_mode_mismatch` for a delivery
    that is proven in another way, and FetchNeededError where the seller has to be asked for keys and may not
    be (`may_fetch`).
    """
    mode = Mode(seller.webhook_mode)
    if mode not in _CARRIES:
        raise SignatureError(errors.MODE_MISMATCH, "no webhooks are registered with this seller")
    if not _CARRIES[mode](headers):
        other = next((other for other, carries in _CARRIES.items() if carries(headers)), None)
        if other is not None:
            raise mode_mismatch(mode.label, other.label)
    if mode == Mode.RFC9421:
        return _rfc9421(seller, url, headers, body, may_fetch)
    now = clock.now()
    secrets = seller.webhook_secrets(now)
    if mode == Mode.BEARER:
        bearer.verify(headers, secrets=secrets)
    elif mode == Mode.HMAC_BODY:
        hmac_sha256.verify_body_only(headers, body, secrets=secrets, now=now.timestamp())
    else:
        hmac_sha256.verify(headers, body, secrets=secrets, now=now.timestamp(), read_body=False)
    return ""


def _rfc9421(seller: Seller, url: str, headers: Mapping[str, str], body: bytes, may_fetch: bool) -> str:
    verified = rfc9421.verify(
        "POST",
        url,
        headers,
        body,
        find_key=partial(seller_key, seller, may_fetch=may_fetch),
        check_revoked=partial(check_seller_key, seller, may_fetch=may_fetch),
        replay=replay_guard(seller),
        now=clock.now().timestamp(),
    )
    return verified.keyid
