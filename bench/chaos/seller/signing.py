"""How a seller signs its webhooks. Source: AdCP L1/security, "Webhook callbacks" and "Legacy HMAC-SHA256"."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
import uuid
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_ID, UNKNOWN_KEY_ID = "chaos-1", "chaos-unknown"
# Signatures that are none: for RFC 9421, for HMAC.
WRONG = ({"Signature": f"sig1=:{'A' * 86}:"}, {"X-AdCP-Signature": f"sha256={'0' * 64}"})
_COVERED = '("@method" "@target-uri" "@authority" "content-type" "content-digest")'


class Signer:
    """Signs by HMAC where the buyer registered a secret, else by RFC 9421 with the seller's own key."""

    def __init__(self, name: str) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"chaos {name}".encode()).digest())

    def headers(self, url: str, body: bytes, secret: str | None, *, key_id: str = KEY_ID) -> dict[str, str]:
        return _hmac(body, secret) if secret else self._rfc9421(url, body, key_id)

    def jwks(self) -> dict[str, object]:
        public = self._key.public_key().public_bytes_raw()
        key = {
            "kty": "OKP",
            "crv": "Ed25519",
            "alg": "EdDSA",
            "use": "sig",
            "key_ops": ["verify"],
            "adcp_use": "request-signing",
            "kid": KEY_ID,
            "x": _unpadded(public),
        }
        return {"keys": [key]}

    def _rfc9421(self, url: str, body: bytes, key_id: str) -> dict[str, str]:
        now = int(time.time())
        digest = f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"
        params = (
            f'{_COVERED};created={now};expires={now + 300};nonce="{_unpadded(uuid.uuid4().bytes)}"'
            f';keyid="{key_id}";alg="ed25519";tag="adcp/webhook-signing/v1"'
        )
        base = "\n".join(
            (
                '"@method": POST',
                f'"@target-uri": {url}',
                f'"@authority": {urlsplit(url).netloc}',
                '"content-type": application/json',
                f'"content-digest": {digest}',
                f'"@signature-params": {params}',
            )
        )
        signature = _unpadded(self._key.sign(base.encode()))
        return {
            "Content-Digest": digest,
            "Signature-Input": f"sig1={params}",
            "Signature": f"sig1=:{signature}:",
        }


def _hmac(body: bytes, secret: str) -> dict[str, str]:
    now = str(int(time.time()))
    digest = hmac.new(secret.encode(), now.encode() + b"." + body, hashlib.sha256).hexdigest()
    return {"X-AdCP-Signature": f"sha256={digest}", "X-AdCP-Timestamp": now}


def _unpadded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
