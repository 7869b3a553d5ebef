"""A seller's own headers (a tenant, a key of its gateway): as people write them, checked, and kept."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from django.core.exceptions import ValidationError

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,60}")  # RFC 9110 5.1
HEADERS_LOST = "its secret headers are under an encryption key that is lost: give them again on its page"
TOKEN_CHARS = 500
_MOST, _VALUE_CHARS, _SECRET_CHARS = 10, 500, 8
# What the wire itself decides, or what would be taken for it.
_OURS = (
    *("accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "cookie"),
    *("expect", "host", "keep-alive", "last-event-id", "te", "trailer", "transfer-encoding", "upgrade"),
)
_OURS_BEGIN = ("mcp-", "a2a-", "proxy-", "sec-")


def headers_parse(text: str) -> dict[str, str]:
    """Lines of `Name: value` as a mapping. Raises ValidationError."""
    found: dict[str, str] = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, colon, value = line.partition(":")
        if not colon:
            raise ValidationError("Write each header as Name: value, one a line.")
        found[name.strip()] = value.strip()
    headers_valid(found)
    return found


def headers_text(headers: Mapping[str, str]) -> str:
    """The mapping as such lines."""
    return "\n".join(f"{name}: {value}" for name, value in headers.items())


def headers_valid(headers: object) -> None:
    """Raises ValidationError for what is no mapping of a few names to plain values; quotes no value."""
    if not isinstance(headers, dict) or len(headers) > _MOST:
        raise ValidationError(f"At most {_MOST} headers.")
    if len({str(name).lower() for name in headers}) < len(headers):
        raise ValidationError("A header is named twice.")
    for name, value in headers.items():
        if not _NAME.fullmatch(str(name)):
            raise ValidationError("A header’s name holds letters, digits and hyphens, at most 60.")
        if name.lower() in _OURS or name.lower().startswith(_OURS_BEGIN):
            raise ValidationError(f"{name} is set by Flightdeck itself.")
        plain = isinstance(value, str) and value.isascii() and value.isprintable()
        if not plain or not 0 < len(value) <= _VALUE_CHARS:
            raise ValidationError(f"{name}: a value is one line of plain characters, at most {_VALUE_CHARS}.")


def secret_headers_parse(text: str) -> dict[str, str]:
    """As `headers_parse`; a secret is long enough to be hidden wherever it is repeated."""
    found = headers_parse(text)
    for name, value in found.items():
        if len(value) < _SECRET_CHARS:
            raise ValidationError(f"{name}: a secret has at least {_SECRET_CHARS} characters.")
    return found


def token_check(token: str, *, basic: bool = False) -> str:
    """Return the token. Raise ValidationError, which does not quote it, if no request can carry it.

    Basic credentials are encoded (RFC 7617), so any one line will do.
    """
    plain = token.isprintable() and (basic or (token.isascii() and " " not in token))
    if not plain or not 0 < len(token) <= TOKEN_CHARS:
        raise ValidationError(f"The token is one line of 1 to {TOKEN_CHARS} plain characters without spaces.")
    return token


def headers_sealed(headers: Mapping[str, str]) -> str | None:
    """As they are kept, encrypted."""
    return json.dumps(dict(headers), sort_keys=True) if headers else None


def headers_opened(kept: str | None) -> dict[str, str] | None:
    """What was kept; None where it is under a key that this process does not have."""
    try:
        return dict(json.loads(kept)) if kept else {}
    except ValueError:
        return None
