"""Equality of JSON values: SHA-256 of RFC 8785."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import rfc8785

from tasks_app.adcp.hygiene import integral


def canonical_digest(value: Any) -> str:
    """SHA-256 (hex) of `value` in RFC 8785 form; what is outside I-JSON falls back to sorted JSON."""
    try:
        canonical = rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, TypeError, UnicodeEncodeError):  # the last: of an object's name
        # Still deterministic.
        text = json.dumps(integral(value), sort_keys=True, separators=(",", ":"), default=str)
        canonical = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(canonical).hexdigest()
