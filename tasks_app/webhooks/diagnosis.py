"""Why a delivery of a known seller does not verify, in words for people: what it was tried against.

Nothing of this proves anything; it tells people which of the usual faults it is. Without a database. Whoever
sends it may be a stranger: what is done is a few times the body at most, and a long one is not written anew.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from tasks_app.adcp import strict_json
from tasks_app.adcp.signatures import SignatureError, bearer, errors, hmac_sha256
from tasks_app.desk import text
from tasks_app.sellers.models import Seller

Mode = Seller.WebhookMode
_SIGNATURE, _TIMESTAMP = hmac_sha256.SIGNATURE_HEADER.lower(), hmac_sha256.TIMESTAMP_HEADER.lower()
_REWRITTEN_BYTES = 64 * 2**10  # a body up to this is written anew
_GROWS = (
    4  # so many times longer than its body a form is given up: deep nesting, indented, grows as its square
)
_WRITTEN: dict[str, dict[str, Any]] = {
    "JSON without spaces": {"separators": (",", ":")},
    "JSON with spaces": {},
    "JSON in lines": {"indent": 2},
}
_OTHER_BYTES = "it signs other bytes than it sends"
# What a seller's registration may be changed to, beside what it is.
_INSTEAD: dict[str, str] = {
    Mode.BEARER: "bearer credentials, where the seller cannot sign the bytes that it sends",
    Mode.RFC9421: "RFC 9421, where it publishes keys",
    Mode.HMAC: "HMAC-SHA256 with a time",
    Mode.HMAC_BODY: "HMAC-SHA256 over the body alone, where it is from before AdCP 3",
    Mode.NONE: "polling only",
}


def tried_words(
    seller: Seller, headers: Mapping[str, str], body: bytes, error: SignatureError, *, now: datetime
) -> str:
    """What was tried and what came of it, a clause; names of `headers` are in lower case. Quotes nothing of
    the delivery and no secret."""
    if error.code == errors.MODE_MISMATCH:
        return str(error)
    if error.code == errors.WINDOW_INVALID:
        return _time_words(headers, now) or str(error)
    if error.code == errors.KEY_UNKNOWN and seller.keys_elsewhere:
        return "it declares its keys at another origin than where they are read"
    if error.code == errors.DIGEST_MISMATCH:
        return f"{_OTHER_BYTES}: its Content-Digest is not that of the body"
    if _SIGNATURE in headers and seller.webhook_mode in (Mode.HMAC, Mode.HMAC_BODY):
        return _hmac_words(seller, headers, body)
    if not ({"signature", "signature-input", _SIGNATURE} & headers.keys() or bearer.is_bearer(headers)):
        return "it carries no proof at all"
    return str(error)


def instead_words(seller: Seller) -> str:
    """What it may be set to instead, a list in words."""
    return "; ".join(words for mode, words in _INSTEAD.items() if mode != seller.webhook_mode)


def _time_words(headers: Mapping[str, str], now: datetime) -> str:
    stamp = headers.get(_TIMESTAMP, "")
    if not stamp.isdecimal() or len(stamp) > 12:
        return ""
    off = abs(now.timestamp() - int(stamp))
    return f"its time is {text.number(off, 0)} s from ours, where 300 s are allowed"


def _hmac_words(seller: Seller, headers: Mapping[str, str], body: bytes) -> str:
    """Which secret, which bytes and which way of writing would have made the signature that came."""
    given = headers[_SIGNATURE].strip()
    stamp = headers.get(_TIMESTAMP, "").encode("latin-1", "replace")
    timed = seller.webhook_mode == Mode.HMAC
    messages = list(_messages(body, stamp, timed=timed))
    for which, secret in (("", seller.webhook_secret), ("the secret before", seller.webhook_secret_previous)):
        if not secret:
            continue
        for what, message in messages:
            how = _matches(given, hmac.digest(secret.encode(), message, hashlib.sha256))
            if how is not None:
                told = ", ".join(
                    part for part in (what, how, which and f"with {which}, which has run out") if part
                )
                return told or "it would verify now"
    anew = "" if len(body) > _REWRITTEN_BYTES else ", and over its JSON written anew"
    return (
        f"tried with our secret over its bytes, with and without the time{anew}: "
        "none makes this signature. It has another secret, or signs something else"
    )


def _messages(body: bytes, stamp: bytes, *, timed: bool) -> Iterator[tuple[str, bytes]]:
    """(what is odd about it, the bytes that may have been signed), what is right first."""
    with_time, alone = stamp + b"." + body, body
    yield "", with_time if timed else alone
    if timed:
        yield "it signs the body alone, without the time", alone
    elif stamp:
        yield "it signs the time with the body", with_time
    for written, form in _forms(body):
        for message in (stamp + b"." + form, form) if stamp else (form,):
            yield f"{_OTHER_BYTES}: {written}", message


def _forms(body: bytes) -> Iterator[tuple[str, bytes]]:
    """The body's JSON as others write it; nothing of a body that is too long."""
    if len(body) > _REWRITTEN_BYTES:
        return
    try:
        parsed = strict_json.parse_object(body)
    except strict_json.MalformedBody:
        return
    for written, options in _WRITTEN.items():
        for is_sorted in (False, True):
            for is_ascii in (False, True):
                encoder = json.JSONEncoder(sort_keys=is_sorted, ensure_ascii=is_ascii, **options)
                form = _bounded(encoder, parsed, most=_GROWS * len(body) + 1000)
                words = f"{written}, names sorted" if is_sorted else written
                if form is not None:
                    yield words, form.encode("utf-8", "surrogatepass")


def _bounded(encoder: json.JSONEncoder, parsed: dict[str, Any], *, most: int) -> str | None:
    """What the encoder writes; None where that is longer than `most` characters."""
    pieces: list[str] = []
    size = 0
    for piece in encoder.iterencode(parsed):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            return None
    return "".join(pieces)


def _matches(given: str, digest: bytes) -> str | None:
    """How `given` writes the digest ("" as it should be), None where it does not."""
    plain = given.removeprefix("sha256=")
    if plain == digest.hex():
        return "" if given != plain else "its signature lacks sha256="
    if plain.lower() == digest.hex():
        return "its signature is in capitals"
    return "its signature is base64, not hex" if plain == base64.b64encode(digest).decode() else None
