"""Keys of sellers: from a published JWK to a key that may verify a webhook, and where such keys are
published.

Sources: AdCP L1/security "Agent key publication", "JWKS discovery"; RFC 7517, RFC
8037. Everything that waits or remembers (caching, the 30 s between refetches) belongs to the caller; here are
the fetches and the judgements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from .. import http
from ..strict_json import MalformedBody, parse_object
from . import errors
from .errors import SignatureError
from .origins import belongs_together
from .structured_fields import FieldError, decode_base64url

BRAND_ORIGIN_MISMATCH = "request_signature_brand_origin_mismatch"
MAX_JWKS_BYTES = 64 * 2**10
MAX_BRAND_BYTES = 256 * 2**10
FETCH_TIMEOUT_S = 10.0
_PASSING = frozenset({408, 425, 429})  # come again
# The older "webhook-signing" is still accepted; AdCP is removing it.
WEBHOOK_PURPOSES = frozenset({"request-signing", "webhook-signing"})
# JWK `alg` to the name that Signature-Input uses.
ALGORITHMS: Mapping[str, str] = {"EdDSA": "ed25519", "ES256": "ecdsa-p256-sha256"}

PublicKey = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey


class KeysError(Exception):
    """A document of keys that cannot be had or used; the text says why and quotes nothing of it."""


class NotPublishedError(KeysError):
    """There is no such document for us: HTTP 4xx, as servers answer to paths they do not know."""


@dataclass(frozen=True, kw_only=True)
class VerificationKey:
    """One public key and the Signature-Input algorithm it is for."""

    keyid: str
    alg: str
    key: PublicKey


def find_jwk(jwks: Mapping[str, Any], keyid: str) -> Mapping[str, Any] | None:
    """The one key with this id in a set; None when there is none, or more than one."""
    keys = jwks.get("keys")
    found = (
        [jwk for jwk in keys if isinstance(jwk, dict) and jwk.get("kid") == keyid]
        if isinstance(keys, list)
        else []
    )
    return found[0] if len(found) == 1 else None


def webhook_key(jwk: Mapping[str, Any]) -> VerificationKey:
    """The key of a JWK, once its purpose allows verifying webhooks (step 8).

    Raises SignatureError: key_purpose_invalid for `use`, `key_ops` or `adcp_use` that forbid it, key_unknown
    for a key that is no Ed25519 or P-256 key or whose `alg` does not fit it.
    """
    purpose = jwk.get("adcp_use")
    if not may_verify(jwk) or not isinstance(purpose, str) or purpose not in WEBHOOK_PURPOSES:
        raise SignatureError(errors.KEY_PURPOSE_INVALID, "the key is not for signing webhooks", step=8)
    return read_key(jwk)


def may_verify(jwk: Mapping[str, Any]) -> bool:
    """Whether a JWK is for verifying signatures at all."""
    operations = jwk.get("key_ops")
    return jwk.get("use") == "sig" and isinstance(operations, list) and "verify" in operations


def read_key(jwk: Mapping[str, Any]) -> VerificationKey:
    """The key of a JWK, whatever it is for. Raises SignatureError (key_unknown)."""
    keyid = jwk.get("kid")
    alg = ALGORITHMS.get(str(jwk.get("alg")))
    if not isinstance(keyid, str) or alg is None:
        raise SignatureError(errors.KEY_UNKNOWN, "the key has no id or no known algorithm", step=7)
    return VerificationKey(keyid=keyid, alg=alg, key=_public_key(jwk, alg))


async def fetch_jwks(url: str, *, allow_private: bool = False) -> dict[str, Any]:
    """A JSON Web Key Set, fetched guarded; raises KeysError."""
    document = await fetch_object(url, MAX_JWKS_BYTES, allow_private=allow_private)
    if not isinstance(document.get("keys"), list):
        raise KeysError("the document is no key set")
    return document


async def fetch_jwks_uri(agent_url: str, brand_json_url: str, *, allow_private: bool = False) -> str:
    """Where the agent at `agent_url` publishes its keys, by its operator's brand.json; raises KeysError.

    The two URLs must belong together (same registrable domain, or `authorized_operators`): else anybody could
    point at an operator's brand.json that names an agent of many tenants. The agent's entry must carry the
    very same URL and exist once.
    """
    brand = await fetch_object(brand_json_url, MAX_BRAND_BYTES, allow_private=allow_private)
    if not belongs_together(agent_url, brand_json_url, brand):
        raise KeysError(f"{BRAND_ORIGIN_MISMATCH}: it is of another domain, and does not name the agent's")
    return jwks_uri_in(brand, agent_url)


def jwks_uri_in(brand: Mapping[str, Any], agent_url: str) -> str:
    """The `jwks_uri` of an agent's one entry in a brand.json, or the default at the agent's origin."""
    entries = [entry for entry in _agents(brand) if entry.get("url") == agent_url]
    if len(entries) != 1:
        raise KeysError("the agent stands in brand.json not exactly once")
    uri = entries[0].get("jwks_uri")
    if isinstance(uri, str):
        return uri
    parts = urlsplit(agent_url)
    return f"{parts.scheme}://{parts.netloc}/.well-known/jwks.json"


def _agents(brand: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    agents = brand.get("agents")
    return (entry for entry in agents if isinstance(entry, dict)) if isinstance(agents, list) else ()


async def fetch_object(url: str, max_bytes: int, *, allow_private: bool) -> dict[str, Any]:
    """A JSON object that a seller publishes, fetched guarded; raises KeysError."""
    try:
        return parse_object(
            await fetch_body(url, max_bytes, allow_private=allow_private), max_bytes=max_bytes
        )
    except MalformedBody as error:
        raise KeysError(str(error)) from error


async def fetch_body(url: str, max_bytes: int, *, allow_private: bool) -> bytes:
    """The bytes of what a seller publishes, fetched guarded; raises KeysError."""
    policy = http.Policy(allow_private=allow_private, max_bytes=max_bytes, timeout_s=FETCH_TIMEOUT_S)
    try:
        fetched = await http.fetch(url, policy, headers={"Accept": "application/json"})
    except http.FetchError as error:
        raise KeysError(str(error)) from error
    if 400 <= fetched.status < 500 and fetched.status not in _PASSING:
        raise NotPublishedError(f"answered with HTTP {fetched.status}")
    if fetched.status != 200:
        raise KeysError(f"answered with HTTP {fetched.status}")
    return fetched.body


def check_raw(key: VerificationKey, signature: bytes, message: bytes) -> None:
    """Verify one signature; ECDSA comes as r and s side by side (IEEE P1363). Raises InvalidSignature."""
    if isinstance(key.key, ed25519.Ed25519PublicKey):
        key.key.verify(signature, message)
        return
    if len(signature) != 64:
        raise InvalidSignature
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    key.key.verify(encode_dss_signature(r, s), message, ec.ECDSA(hashes.SHA256()))


def _public_key(jwk: Mapping[str, Any], alg: str) -> PublicKey:
    try:
        if alg == "ed25519" and (jwk.get("kty"), jwk.get("crv")) == ("OKP", "Ed25519"):
            return ed25519.Ed25519PublicKey.from_public_bytes(_coordinate(jwk, "x"))
        if alg == "ecdsa-p256-sha256" and (jwk.get("kty"), jwk.get("crv")) == ("EC", "P-256"):
            point = b"\x04" + _coordinate(jwk, "x") + _coordinate(jwk, "y")
            return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except (FieldError, ValueError) as error:
        raise SignatureError(errors.KEY_UNKNOWN, "the key cannot be read", step=7) from error
    raise SignatureError(errors.KEY_UNKNOWN, "the key does not fit its algorithm", step=7)


def _coordinate(jwk: Mapping[str, Any], name: str) -> bytes:
    value = jwk.get(name)
    if not isinstance(value, str):
        raise FieldError("a coordinate is missing")
    decoded = decode_base64url(value)
    if len(decoded) != 32:
        raise FieldError("a coordinate has the wrong length")
    return decoded
