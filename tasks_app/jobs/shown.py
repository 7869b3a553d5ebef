"""Inputs, outputs and events as they may leave: without what looks like a secret."""

from __future__ import annotations

import json
import re
from typing import Any

from tasks_app.adcp.hygiene import REDACTED, clean

MOST_BYTES = 100_000
_SECRET = re.compile(
    r"(^|_)(token|secret|password|passphrase|authorization|credentials?|api_?key|private_?key)$",
    re.IGNORECASE,
)


def shown(value: Any) -> Any:
    """A copy of a JSON value in which texts under the name of a secret, and the secrets of an echoed webhook
    registration, are `[redacted]`."""
    return _hidden(clean(value))


def fits(value: Any) -> bool:
    """Whether a value is small enough to be shown beside others (100 kB of JSON)."""
    return len(json.dumps(value, default=str)) <= MOST_BYTES


def _hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: REDACTED if isinstance(inner, str) and inner and _SECRET.search(key) else _hidden(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_hidden(inner) for inner in value]
    return value
