"""Verifying webhooks under AdCP's profile of RFC 9421, `adcp/webhook-signing/v1`.

Source: AdCP L1/security "Verifier checklist for webhooks": the steps here carry its numbers and its order.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from cryptography.exceptions import InvalidSignature

from ..strict_json import MalformedBody, parse_object
from . import errors
from .errors import SignatureError
from .jwks import VerificationKey, check_raw, webhook_key
from .structured_fields import (
    FieldError,
    InnerList,
    decode_base64url,
    decode_either_base64,
    parse_byte_dictionary,
    parse_signature_input,
)
from .urls import UrlError, canonical_authority, canonical_uri

TAG = "adcp/webhook-signing/v1"
ALGORITHMS = frozenset({"ed25519", "ecdsa-p256-sha256"})
REQUIRED_COMPONENTS = ("@method", "@target-uri", "@authority", "content-type", "content-digest")
SKEW_S = 60
MAX_VALIDITY_S = 300
MIN_NONCE_BYTES = 16
MAX_KEYID_CHARS = 255

# keyid -> the JWK published under it, or None. It may refetch; it must not guess.
KeyLookup = Callable[[str], Mapping[str, Any] | None]
# keyid -> raises SignatureError when the key is revoked, or the list overdue
# (`revocations.check_revocation`).
RevocationCheck = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class VerifiedSignature:
    """What a valid signature proves. Times are Unix seconds; `remember_for_s` is how long its nonce must be
    kept."""

    keyid: str
    nonce: str
    created: int
    expires: int
    alg: str
    remember_for_s: int


@dataclass(frozen=True, kw_only=True)
class ReplayGuard:
    """The caller's memory of nonces.

    `is_full(keyid)`: has this key used up its share (step 9a)? `is_known(keyid, nonce)`: seen before (step
    12)? `remember(keyid, nonce, seconds)`: insert, False when another delivery was faster (step 13).
    """

    is_full: Callable[[str], bool]
    is_known: Callable[[str, str], bool]
    remember: Callable[[str, str, int], bool]


def verify(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    find_key: KeyLookup,
    check_revoked: RevocationCheck,
    replay: ReplayGuard,
    now: float,
) -> VerifiedSignature:
    """Check one webhook; raises SignatureError with the code and step of the first check that fails.

    `url` is the absolute URL as the sender addressed it, `headers` the request's own (any case; `Host`, if
    there, must agree with the URL), `body` the bytes as received, `now` Unix seconds. The nonce is remembered
    before the body is read, so that a captured delivery with a malformed body cannot be replayed.
    """
    lowered = {name.lower(): value.strip(" \t") for name, value in headers.items()}
    signed, signature = _parse(lowered)
    verified = _check_params(signed, now)
    _check_components(signed)
    key = _key(verified, find_key)
    check_revoked(verified.keyid)
    if replay.is_full(verified.keyid):
        raise SignatureError(errors.RATE_ABUSE, "the key has too many live nonces", step=9)
    base = signature_base(method, url, lowered, signed)
    _check_signature(key, signature, base)
    _check_digest(lowered, body)
    if replay.is_known(verified.keyid, verified.nonce):
        raise SignatureError(errors.REPLAYED, "the nonce was seen before", step=12)
    if not replay.remember(verified.keyid, verified.nonce, verified.remember_for_s):
        raise SignatureError(errors.REPLAYED, "the nonce was seen before", step=13)
    _check_body(body)
    return verified


def signature_base(method: str, url: str, headers: Mapping[str, str], signed: InnerList) -> bytes:
    """The bytes that were signed (RFC 9421 2.5), from canonical URL parts; `headers` by lower-case name.

    Raises SignatureError: target_uri_malformed when the URL has no canonical form or `Host` names another
    authority.
    """
    try:
        target = canonical_uri(url)
        scheme, _, rest = target.partition("://")
        authority = rest.partition("/")[0]
        host = headers.get("host")
        if host is not None and canonical_authority(host, scheme) != authority:
            raise UrlError("Host names another authority than the URL")
    except UrlError as error:
        raise SignatureError(errors.TARGET_URI_MALFORMED, str(error), step=10) from error
    derived = {"@method": method.upper(), "@target-uri": target, "@authority": authority}
    lines = []
    for name in signed.components:
        value = derived.get(name) if name.startswith("@") else headers.get(name)
        if value is None:
            raise SignatureError(
                errors.COMPONENTS_INCOMPLETE, "a covered component is not in the request", step=6
            )
        lines.append(f'"{name}": {value}')
    lines.append(f'"@signature-params": {signed.text}')
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _parse(headers: Mapping[str, str]) -> tuple[InnerList, bytes]:
    """Step 1. Of several labels the first is the one that counts."""
    inputs, signatures = headers.get("signature-input"), headers.get("signature")
    if inputs is None and signatures is None:
        raise SignatureError(errors.HEADER_MALFORMED, "the request is not signed", step=1)
    if not inputs or not signatures:
        raise SignatureError(errors.HEADER_MALFORMED, "Signature and Signature-Input come together", step=1)
    try:
        label, signed = next(iter(parse_signature_input(inputs).items()))
        encoded = parse_byte_dictionary(signatures).get(label)
        if encoded is None:
            raise FieldError("the label has no signature")
        return signed, decode_base64url(encoded)
    except FieldError as error:
        raise SignatureError(errors.HEADER_MALFORMED, str(error), step=1) from error


def _check_params(signed: InnerList, now: float) -> VerifiedSignature:
    """Steps 2 to 5."""
    params = signed.params
    absent = [name for name in ("created", "expires", "nonce", "keyid", "alg", "tag") if name not in params]
    if absent:
        raise SignatureError(errors.PARAMS_INCOMPLETE, f"missing: {', '.join(absent)}", step=2)
    if params["tag"] != TAG:
        raise SignatureError(errors.TAG_INVALID, "the tag is not that of webhooks", step=3)
    alg = params["alg"]
    if not isinstance(alg, str) or alg not in ALGORITHMS:
        raise SignatureError(errors.ALG_NOT_ALLOWED, "the algorithm is not allowed", step=4)
    created, expires = params["created"], params["expires"]
    keyid, nonce = params["keyid"], params["nonce"]
    if not _is_time(created) or not _is_time(expires):
        raise SignatureError(errors.WINDOW_INVALID, "created and expires are Unix times", step=5)
    if (
        expires <= created
        or created > now + SKEW_S
        or expires < now - SKEW_S
        or expires - created > MAX_VALIDITY_S
    ):
        raise SignatureError(errors.WINDOW_INVALID, "the signature is not valid at this time", step=5)
    if not isinstance(keyid, str) or not 0 < len(keyid) <= MAX_KEYID_CHARS or not isinstance(nonce, str):
        raise SignatureError(errors.HEADER_MALFORMED, "keyid and nonce are strings", step=1)
    _check_nonce(nonce)
    return VerifiedSignature(
        keyid=keyid,
        nonce=nonce,
        created=created,
        expires=expires,
        alg=alg,
        remember_for_s=max(1, int(expires - now) + SKEW_S + 1),
    )


def _is_time(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_nonce(nonce: str) -> None:
    try:
        if len(nonce) <= MAX_KEYID_CHARS and len(decode_base64url(nonce)) >= MIN_NONCE_BYTES:
            return
    except FieldError:
        pass  # refused below, with the same answer as a nonce that is too short
    raise SignatureError(errors.PARAMS_INCOMPLETE, "the nonce is not 16 or more bytes of base64url", step=2)


def _check_components(signed: InnerList) -> None:
    """Step 6."""
    missing = [name for name in REQUIRED_COMPONENTS if name not in signed.components]
    if missing:
        raise SignatureError(errors.COMPONENTS_INCOMPLETE, f"not covered: {', '.join(missing)}", step=6)


def _key(verified: VerifiedSignature, find_key: KeyLookup) -> VerificationKey:
    """Steps 7 and 8."""
    jwk = find_key(verified.keyid)
    if jwk is None:
        raise SignatureError(errors.KEY_UNKNOWN, "the seller publishes no such key", step=7)
    key = webhook_key(jwk)
    if key.alg != verified.alg:
        raise SignatureError(errors.ALG_NOT_ALLOWED, "the key is of another algorithm", step=8)
    return key


def _check_signature(key: VerificationKey, signature: bytes, base: bytes) -> None:
    """Step 10."""
    try:
        check_raw(key, signature, base)
    except InvalidSignature as error:
        raise SignatureError(errors.INVALID, "the signature does not match", step=10) from error


def _check_digest(headers: Mapping[str, str], body: bytes) -> None:
    """Step 11."""
    try:
        encoded = parse_byte_dictionary(headers.get("content-digest", "")).get("sha-256")
        claimed = decode_either_base64(encoded) if encoded is not None else b""
    except FieldError:
        claimed = b""
    if not hmac.compare_digest(claimed, hashlib.sha256(body).digest()):
        raise SignatureError(errors.DIGEST_MISMATCH, "the body is not the one that was signed", step=11)


def _check_body(body: bytes) -> None:
    """Step 14."""
    try:
        parse_object(body)
    except MalformedBody as error:
        raise SignatureError(errors.BODY_MALFORMED, str(error), step=14) from error
