"""Making what strangers sent fit to keep: secrets out, nothing that a database or a log cannot hold."""

from __future__ import annotations

import hmac
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .strict_json import MAX_DEPTH, MalformedBody, parse_object

REDACTED = "[redacted]"
TOO_DEEP = "[nested too deep]"
_REGISTRATION = "push_notification_config"

# NUL and lone surrogates are legal in JSON text and refused by PostgreSQL.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_EXACT_FLOAT = 2**53


def clean(value: Any, secrets: Sequence[str] = ()) -> Any:
    """A copy of a JSON value that may be stored and shown.

    Every occurrence of a secret becomes "[redacted]", and so do the secrets of a webhook registration that a
    seller echoes (`push_notification_config.token`, `authentication.credentials`), wherever they stand; NUL
    and lone surrogates become U+FFFD, numbers that are not finite become null, and whatever nests deeper than
    64 levels is cut.
    """
    hidden = {secret for secret in (*secrets, *_echoed(value, 0)) if secret}
    return _clean(value, tuple(sorted(hidden, key=len, reverse=True)), 0)


def integral(value: Any) -> Any:
    """A copy in which floats that are whole numbers are integers: A2A turns `revision: 1` into `1.0`."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _EXACT_FLOAT else value
    if isinstance(value, dict):
        return {key: integral(item) for key, item in value.items()}
    if isinstance(value, list):
        return [integral(item) for item in value]
    return value


def token_matches(expected: str, given: object) -> bool:
    """Compare a webhook token in constant time; False for anything that is not the expected, non-empty
    text."""
    if not expected or not isinstance(given, str):
        return False
    return hmac.compare_digest(
        expected.encode("utf-8", "surrogatepass"), given.encode("utf-8", "surrogatepass")
    )


def _clean(value: Any, secrets: tuple[str, ...], depth: int) -> Any:
    if isinstance(value, str):
        return _clean_text(value, secrets)
    if isinstance(value, bool | int) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth > MAX_DEPTH:
        return TOO_DEEP
    if isinstance(value, Mapping):
        return {
            _clean_text(str(key), secrets): _clean(item, secrets, depth + 1) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_clean(item, secrets, depth + 1) for item in value]
    return _clean_text(str(value), secrets)


def _echoed(value: Any, depth: int) -> Iterator[str]:
    """The secrets of webhook registrations that somebody repeats to us, also in JSON that stands as text in
    JSON."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key == _REGISTRATION and isinstance(item, Mapping):
                yield from _registered(item)
            yield from _echoed(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _echoed(item, depth + 1)
    elif isinstance(value, str) and _REGISTRATION in value:
        try:
            yield from _echoed(parse_object(value), depth + 1)
        except MalformedBody:
            return  # plain text that happens to name the field


def _registered(registration: Mapping[str, Any]) -> Iterator[str]:
    authentication = registration.get("authentication")
    credentials = authentication.get("credentials") if isinstance(authentication, Mapping) else None
    for secret in (registration.get("token"), credentials):
        if isinstance(secret, str):
            yield secret


def _clean_text(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return _UNSTORABLE.sub("\ufffd", text)
