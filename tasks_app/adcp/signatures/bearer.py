"""Bearer credentials: what a registration with `schemes: ["Bearer"]` asks the seller to send back.

Source: AdCP L3/webhooks "Legacy Bearer token". It proves nothing about the body; removed in AdCP 4.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping

from . import errors
from .errors import SignatureError

HEADER = "Authorization"
_SCHEME = "bearer "


def is_bearer(headers: Mapping[str, str]) -> bool:
    """Whether a request, its header names in lower case, carries bearer credentials."""
    return headers.get(HEADER.lower(), "").lower().startswith(_SCHEME)


def verify(headers: Mapping[str, str], *, secrets: Iterable[str]) -> None:
    """Compare the credentials with any of `secrets`, in constant time; names of headers in lower case.

    Raises SignatureError: header_malformed where there are none, invalid for other ones.
    """
    if not is_bearer(headers):
        raise SignatureError(errors.HEADER_MALFORMED, "the request carries no bearer credentials")
    given = headers[HEADER.lower()][len(_SCHEME) :].strip().encode("utf-8", "surrogateescape")
    matches = False
    for secret in secrets:
        matches |= hmac.compare_digest(secret.encode(), given)
    if not matches:
        raise SignatureError(errors.INVALID, "the credentials are not the registered ones")
