"""The reference SDK signs and we verify; both sides write the same canonical URLs."""

import base64
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from tasks_app.adcp.signatures import SignatureError, rfc9421
from tasks_app.adcp.signatures.jwks import find_jwk
from tasks_app.adcp.signatures.urls import canonical_uri

pytestmark = pytest.mark.adcp_package
BODY = '{"status":"completed","message":"ünïcode"}'.encode()
URLS = [
    "https://buyer.example.com/webhooks/adcp/norrland/",
    "https://Buyer.Example.com:443/a/./b/../c//d?x=%2A&y=a+b",
    "http://127.0.0.1:8000/webhooks/adcp/cobalt/?q=",
    "https://bücher.example:8443/%7Euser/%e2%82%ac",
]


def b64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def key_pair(alg: str) -> tuple[Any, dict[str, Any]]:
    common = {"kid": "k", "use": "sig", "key_ops": ["verify"], "adcp_use": "request-signing"}
    if alg == "ed25519":
        private = ed25519.Ed25519PrivateKey.generate()
        x = b64url(private.public_key().public_bytes_raw())
        return private, {**common, "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "x": x}
    curve = ec.generate_private_key(ec.SECP256R1())
    point = curve.public_key().public_numbers()
    x, y = (b64url(number.to_bytes(32, "big")) for number in (point.x, point.y))
    return curve, {**common, "kty": "EC", "crv": "P-256", "alg": "ES256", "x": x, "y": y}


def verify(url: str, headers: dict[str, str], body: bytes, jwk: dict[str, Any]) -> rfc9421.VerifiedSignature:
    return rfc9421.verify(
        "POST",
        url,
        headers,
        body,
        find_key=lambda keyid: find_jwk({"keys": [jwk]}, keyid),
        check_revoked=lambda keyid: None,
        replay=rfc9421.ReplayGuard(
            is_full=lambda keyid: False,
            is_known=lambda keyid, nonce: False,
            remember=lambda keyid, nonce, seconds: True,
        ),
        now=time.time(),
    )


@pytest.mark.parametrize("alg", ["ed25519", "ecdsa-p256-sha256"])
@pytest.mark.parametrize("url", URLS)
def test_what_the_sdk_signs_we_accept(url: str, alg: str) -> None:
    from adcp.signing.webhook_signer import sign_webhook

    private, jwk = key_pair(alg)
    plain = {"Content-Type": "application/json"}
    signed = sign_webhook(
        method="POST", url=url, headers=plain, body=BODY, private_key=private, key_id="k", alg=alg
    )
    headers = {**plain, **signed.as_dict()}
    assert verify(url, headers, BODY, jwk).keyid == "k"
    with pytest.raises(SignatureError):
        verify(url, headers, BODY + b" ", jwk)
    with pytest.raises(SignatureError):
        verify(url + "x", headers, BODY, jwk)


@pytest.mark.parametrize("url", URLS)
def test_canonical_urls_agree(url: str) -> None:
    from adcp.signing.canonical import canonicalize_target_uri

    assert canonical_uri(url) == canonicalize_target_uri(url)
