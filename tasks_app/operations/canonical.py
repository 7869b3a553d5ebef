"""Equality of JSON values, whatever bytes carried them: SHA-256 of RFC 8785."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import rfc8785


def canonical_digest(value: Any) -> str:
    """SHA-256 (hex) of `value` in RFC 8785 form; numbers outside I-JSON fall back to sorted JSON."""
    try:
        canonical = rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, TypeError):
        # Still deterministic.
        canonical = json.dumps(value, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
    return hashlib.sha256(canonical).hexdigest()
