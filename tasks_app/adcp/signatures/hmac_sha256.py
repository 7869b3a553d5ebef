"""The older webhook signature: HMAC-SHA256 over "{timestamp}." and the raw body.

Source: AdCP L1/security "Legacy HMAC-SHA256 fallback", L3/webhooks.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping

from ..strict_json import MalformedBody, parse_object
from ..values import parse_time
from . import errors
from .errors import SignatureError

SIGNATURE_HEADER = "X-AdCP-Signature"
TIMESTAMP_HEADER = "X-AdCP-Timestamp"
WINDOW_S = 300
MIN_SECRET_BYTES = 32

_TIMESTAMP = re.compile(r"[0-9]{1,12}", re.ASCII)
_SIGNATURE = re.compile(r"sha256=[0-9a-f]{64}", re.ASCII)
_MIN_DISTINCT_CHARACTERS = 8


def check_secret(secret: str) -> None:
    """Refuse a secret that is too short (32 bytes at least) or plainly weak; raises ValueError."""
    if len(secret.encode()) < MIN_SECRET_BYTES:
        raise ValueError(f"a webhook secret needs at least {MIN_SECRET_BYTES} bytes")
    if len(set(secret)) < _MIN_DISTINCT_CHARACTERS:
        raise ValueError("a webhook secret must be random")


def sign(secret: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The two headers for a body at a Unix time.

    Raises ValueError for a weak secret, and MalformedBody for a body that is JSON with duplicate keys.
    """
    check_secret(secret)
    _refuse_duplicate_keys(body)
    return {SIGNATURE_HEADER: _signature(secret, str(timestamp), body), TIMESTAMP_HEADER: str(timestamp)}


def verify(
    headers: Mapping[str, str],
    body: bytes,
    *,
    secrets: Iterable[str],
    now: float,
    read_body: bool = True,
) -> None:
    """Check the signature of `body`, as received, against any of `secrets` (two while one is being rotated).

    `headers` may be in any case, `now` is Unix seconds. Raises SignatureError: header_malformed for missing
    or unreadable headers, window_invalid outside ±300 s, invalid for a wrong signature, and
    webhook_body_malformed when the signature is right and the body repeats a key. Without `read_body` the
    body is not read: for a caller who does so next, strictly.
    """
    signature, timestamp = _headers(headers)
    if abs(now - int(timestamp)) > WINDOW_S:
        raise SignatureError(errors.WINDOW_INVALID, f"the timestamp is more than {WINDOW_S} s away")
    _compare(signature, [_signature(secret, timestamp, body) for secret in secrets])
    if read_body:
        try:
            _refuse_duplicate_keys(body)
        except MalformedBody as error:
            raise SignatureError(errors.BODY_MALFORMED, str(error)) from error


def verify_body_only(headers: Mapping[str, str], body: bytes, *, secrets: Iterable[str], now: float) -> None:
    """Check a seller from before AdCP 3: HMAC over the raw body alone, whose own `timestamp` must be at most
    300 s old (document 000 "Webhook Support with Reliability Patterns"); its `event_id` is the delivery's
    key.

    Raises SignatureError as `verify` does; webhook_body_malformed for a body that is no readable event.
    """
    signature = {name.lower(): value for name, value in headers.items()}.get(SIGNATURE_HEADER.lower())
    if not signature or not _SIGNATURE.fullmatch(signature):
        raise SignatureError(
            errors.HEADER_MALFORMED, "the signature is missing, or not sha256=<64 hex digits>"
        )
    _compare(signature, [_digest(secret, body) for secret in secrets])
    try:
        at = parse_time(parse_object(body).get("timestamp"))
    except MalformedBody as error:
        raise SignatureError(errors.BODY_MALFORMED, str(error)) from error
    if at is None or abs(now - at.timestamp()) > WINDOW_S:
        raise SignatureError(errors.WINDOW_INVALID, f"the event is more than {WINDOW_S} s away, or undated")


def _headers(headers: Mapping[str, str]) -> tuple[str, str]:
    lowered = {name.lower(): value for name, value in headers.items()}
    signature = lowered.get(SIGNATURE_HEADER.lower())
    timestamp = lowered.get(TIMESTAMP_HEADER.lower())
    if not signature or not timestamp:
        raise SignatureError(errors.HEADER_MALFORMED, "the signature or its timestamp is missing")
    if not _TIMESTAMP.fullmatch(timestamp):
        raise SignatureError(errors.HEADER_MALFORMED, "the timestamp is not a Unix time")
    if not _SIGNATURE.fullmatch(signature):
        raise SignatureError(errors.HEADER_MALFORMED, "the signature is not sha256=<64 hex digits>")
    return signature, timestamp


def _signature(secret: str, timestamp: str, body: bytes) -> str:
    return _digest(secret, timestamp.encode("ascii") + b"." + body)


def _digest(secret: str, message: bytes) -> str:
    return "sha256=" + hmac.digest(secret.encode(), message, "sha256").hex()


def _compare(signature: str, expected: Iterable[str]) -> None:
    matches = False
    for one in expected:
        # Every secret is tried, whatever came before: the time tells nothing.
        matches |= hmac.compare_digest(one, signature)
    if not matches:
        raise SignatureError(errors.INVALID, "the signature does not match")


def _refuse_duplicate_keys(body: bytes) -> None:
    """Raise MalformedBody for repeated keys alone; what else may be wrong with a body is its reader's
    business."""
    try:
        parse_object(body)
    except MalformedBody as error:
        if error.reason == "duplicate_key":
            raise
