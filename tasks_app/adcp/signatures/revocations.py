"""A seller's list of revoked keys: where it is, how it is proven, how long it may be relied on.

Sources: AdCP L1/security "Transport revocation", "Revocation"; RFC 7515. Remembering lists and asking again
in time belongs to the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidSignature

from ..strict_json import MalformedBody, parse_object
from ..values import parse_time
from . import errors
from .errors import SignatureError
from .jwks import ALGORITHMS, KeysError, check_raw, fetch_body, find_jwk, may_verify, read_key
from .structured_fields import FieldError, decode_base64url
from .urls import UrlError, canonical_authority

MAX_LIST_BYTES = 256 * 2**10
_PATH = "/.well-known/governance-revocations.json"
_TYPE = "adcp-gov-revocation+jws"
_FLOOR, _CEILING = timedelta(minutes=1), timedelta(minutes=30)
_GRACE = 4  # polling intervals
_SKEW = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class Revocations:
    """A revocation list as last fetched: revoked key ids, when it was made, when to ask again, and the time
    until which it may be relied on."""

    revoked_kids: frozenset[str]
    good_until: datetime
    next_at: datetime
    updated: datetime


def check_revocation(keyid: str, revocations: Revocations | None, *, now: datetime) -> None:
    """Step 9: refuse a revoked key, and any key while the list is overdue.

    None means that the seller publishes no list. Raises SignatureError.
    """
    if revocations is None:
        return
    if keyid in revocations.revoked_kids:
        raise SignatureError(errors.KEY_REVOKED, "the key is revoked", step=9)
    if now > revocations.good_until:
        raise SignatureError(errors.REVOCATION_STALE, "the revocation list is overdue", step=9)


def revocations_url(anchor: str) -> str:
    """Where the operator whose brand.json (or key set) is at `anchor` publishes what it revoked."""
    parts = urlsplit(anchor)
    return f"{parts.scheme}://{parts.netloc}{_PATH}"


async def fetch_revocations(
    url: str,
    jwks: Mapping[str, Any],
    *,
    now: datetime,
    distrusted: frozenset[str] = frozenset(),
    allow_private: bool = False,
) -> Revocations:
    """The list at `url`, proven by a key of `jwks`.

    A key in `distrusted` proves nothing, nor does one that the list itself revokes. Raises KeysError;
    NotPublishedError where there is no list.
    """
    body = await fetch_body(url, MAX_LIST_BYTES, allow_private=allow_private)
    payload = read_signed(body, jwks, distrusted=distrusted)
    _check_issuer(payload.get("issuer"), url)
    return read_revocations(payload, fetched_at=now)


def read_signed(
    body: bytes, jwks: Mapping[str, Any], *, distrusted: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """The payload of a list in JWS form (JSON with one signature, or compact), verified; raises KeysError."""
    try:
        encoded, protected, signature = _parts(body)
        header = parse_object(decode_base64url(protected))
        kid, alg = header.get("kid"), header.get("alg")
        if (
            header.get("typ") != _TYPE
            or "crit" in header
            or not isinstance(alg, str)
            or alg not in ALGORITHMS
            or not isinstance(kid, str)
        ):
            raise KeysError("the list's signature is not of AdCP's form")
        jwk = find_jwk(jwks, kid)
        if jwk is None or not may_verify(jwk) or jwk.get("alg") != alg or kid in distrusted:
            raise KeysError("the list is signed with a key that proves nothing")
        check_raw(read_key(jwk), decode_base64url(signature), f"{protected}.{encoded}".encode())
        payload = parse_object(decode_base64url(encoded))
    except (FieldError, MalformedBody, SignatureError) as error:
        raise KeysError("the list or its signature cannot be read") from error
    except InvalidSignature as error:
        raise KeysError("the list's signature does not match") from error
    if kid in _kids(payload):
        raise KeysError("the list revokes the key it is signed with")
    return payload


def read_revocations(payload: Mapping[str, Any], *, fetched_at: datetime) -> Revocations:
    """The payload of a revocation list; raises KeysError.

    It may be relied on until `next_update` and four times the interval it announced (AdCP: grace), the
    interval counted within 1 to 30 minutes.
    """
    next_update, updated = parse_time(payload.get("next_update")), parse_time(payload.get("updated"))
    if not isinstance(payload.get("revoked_kids"), list) or next_update is None or updated is None:
        raise KeysError("the revocation list has no revoked_kids, updated or next_update")
    if updated > fetched_at + _SKEW:
        raise KeysError("the revocation list is from the future")
    interval = min(max(next_update - updated, _FLOOR), _CEILING)
    due = min(next_update, fetched_at + _CEILING)
    return Revocations(
        revoked_kids=_kids(payload),
        good_until=due + _GRACE * interval,
        next_at=max(due, fetched_at + _FLOOR),
        updated=updated,
    )


def _parts(body: bytes) -> tuple[str, str, str]:
    """Payload, protected header, signature: each as it is encoded. Raises KeysError, MalformedBody."""
    compact = body.strip().split(b".")
    if len(compact) == 3 and not body.lstrip().startswith(b"{"):
        protected, encoded, signature = (part.decode("ascii", "replace") for part in compact)
        return encoded, protected, signature
    document = parse_object(body, max_bytes=MAX_LIST_BYTES)
    signatures = document.get("signatures")
    listed = signatures if isinstance(signatures, list) else [document]
    one = listed[0] if len(listed) == 1 and isinstance(listed[0], dict) else {}
    found = (document.get("payload"), one.get("protected"), one.get("signature"))
    if not all(isinstance(part, str) and part for part in found):
        raise KeysError("the document is no signed revocation list")
    return found  # type: ignore[return-value]  # texts, as just checked


def _check_issuer(issuer: object, url: str) -> None:
    """The list is about the origin it is served from: no other operator's may stand in for it."""
    try:
        theirs, ours = urlsplit(str(issuer)), urlsplit(url)
        same = theirs.scheme == ours.scheme and canonical_authority(
            theirs.netloc, theirs.scheme
        ) == canonical_authority(ours.netloc, ours.scheme)
    except (UrlError, ValueError):
        same = False
    if not same:
        raise KeysError("the list is another issuer's")


def _kids(payload: Mapping[str, Any]) -> frozenset[str]:
    listed = payload.get("revoked_kids")
    return (
        frozenset(kid for kid in listed if isinstance(kid, str)) if isinstance(listed, list) else frozenset()
    )
