"""Making what strangers sent fit to keep: secrets out, nothing that a database or a log cannot hold."""

from __future__ import annotations

import hmac
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from tasks_app.storable import storable

from .strict_json import MAX_DEPTH, MalformedBody, parse_object
from .values import EXACT_FLOAT, identity_of

REDACTED = "[redacted]"
TOO_DEEP = "[nested too deep]"
_REGISTRATION = "push_notification_config"
# What is ours where it stands, or nobody's business.
_OURS = frozenset({"context", "ext", "targeting_overlay", _REGISTRATION})

# PostgreSQL writes a number out in all its digits: six bytes of a body could be three hundred when read.
_FEW_DIGITS = 1e30
# Of what a seller repeats as our secrets: ours are longer and fewer. What is shorter, or masked ("****4711"),
# is hidden where it stands, as hiding it everywhere would make text of a word; each more costs a look at
# every text.
_ECHOED_CHARS, _ECHOED_MOST, _ECHOED_VARIETY = 16, 16, 8


def clean(value: Any, secrets: Sequence[str] = (), *, echoed: Sequence[str] = ()) -> Any:
    """A copy of a JSON value that may be stored and shown, not much larger than the value.

    Every occurrence of a secret becomes "[redacted]", also as JSON escapes it, and so do the secrets of a
    webhook registration that a seller echoes (`push_notification_config.token`, `authentication.credentials`;
    `echoed` are more of them): where they stand, and the first 16 of at least 16 characters in whatever other
    value they stand; names of fields never hold one. NUL and lone surrogates become U+FFFD, numbers
    that are not finite become null, those of more than 30 places text, and whatever nests deeper than 64
    levels is cut.
    """
    repeated = dict.fromkeys(one for one in (*echoed, *_echoed(value, 0)) if _is_telling(one))
    ours = _as_written(secrets)
    return _clean(value, _Hidden(ours, _as_written([*secrets, *islice(repeated, _ECHOED_MOST)])), 0)


def integral(value: Any) -> Any:
    """A copy in which floats that are whole numbers are integers: A2A turns `revision: 1` into `1.0`."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < EXACT_FLOAT else value
    if isinstance(value, dict):
        return {key: integral(item) for key, item in value.items()}
    if isinstance(value, list):
        return [integral(item) for item in value]
    return value


def identified(value: Any) -> Any:
    """A copy in which identities are text (`identity_of`): some sellers number what they sell and book, and
    everything behind compares text. What we sent and a seller repeats (`context`, targeting) stays as it is,
    as it is compared with what was sent."""
    if isinstance(value, list):
        return [identified(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: item if key in _OURS else _identified(key, item) for key, item in value.items()}


def token_matches(expected: str, given: object) -> bool:
    """Compare a webhook token in constant time; False for anything that is not the expected, non-empty
    text."""
    if not expected or not isinstance(given, str):
        return False
    return hmac.compare_digest(
        expected.encode("utf-8", "surrogatepass"), given.encode("utf-8", "surrogatepass")
    )


def _identified(key: str, value: Any) -> Any:
    if key == "id" or key.endswith("_id"):
        named = identity_of(value)
        return identified(value) if named is None else named
    if key.endswith("_ids") and isinstance(value, list):
        return [_identified("id", item) for item in value]
    return identified(value)


class _Hidden(NamedTuple):
    """What is hidden in names of fields, and what in values."""

    in_names: tuple[str, ...]
    in_values: tuple[str, ...]


def _as_written(secrets: Sequence[str]) -> tuple[str, ...]:
    """The secrets as they may stand in a text, and what is hidden already: it is such a place too, so that
    what was cleaned once stays as it is."""
    plain = [secret for secret in secrets if secret]
    escaped = [json.dumps(secret)[1:-1] for secret in plain]
    written = dict.fromkeys([*plain, *escaped, *(one.replace("/", "\\/") for one in escaped)])
    return (*written, REDACTED) if written else ()


def _is_telling(echo: str) -> bool:
    """Whether what somebody repeats as our secret can be one, and no mask or word."""
    return len(echo) >= _ECHOED_CHARS and len(set(echo)) >= _ECHOED_VARIETY


def _clean(value: Any, hidden: _Hidden, depth: int) -> Any:
    if isinstance(value, str):
        return _clean_text(value, hidden.in_values)
    if isinstance(value, bool | int) or value is None:
        return value
    if isinstance(value, float):
        return _storable(value)
    if depth > MAX_DEPTH:
        return TOO_DEEP
    if isinstance(value, Mapping):
        return {
            _clean_text(str(key), hidden.in_names): _clean(_unregistered(key, item), hidden, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_clean(item, hidden, depth + 1) for item in value]
    return _clean_text(str(value), hidden.in_values)


def _storable(number: float) -> float | str | None:
    if not math.isfinite(number):
        return None
    size = abs(number)
    return number if size == 0 or 1 / _FEW_DIGITS < size < _FEW_DIGITS else repr(number)


def _unregistered(key: object, value: Any) -> Any:
    """A webhook registration without its secrets; any other value as it is."""
    if key != _REGISTRATION or not isinstance(value, Mapping):
        return value
    found = {name: REDACTED if name == "token" and item else item for name, item in value.items()}
    authentication = found.get("authentication")
    if isinstance(authentication, Mapping) and authentication.get("credentials"):
        found["authentication"] = {**authentication, "credentials": REDACTED}
    return found


def _echoed(value: Any, depth: int, *, is_text: bool = False) -> Iterator[str]:
    """The secrets of webhook registrations that somebody repeats to us, also in JSON that stands as text in
    JSON (once: text in text in text would be read as often as it is wrapped)."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key == _REGISTRATION and isinstance(item, Mapping):
                yield from _registered(item)
            yield from _echoed(item, depth + 1, is_text=is_text)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _echoed(item, depth + 1, is_text=is_text)
    elif isinstance(value, str) and not is_text and _REGISTRATION in value:
        try:
            yield from _echoed(parse_object(value), depth + 1, is_text=True)
        except MalformedBody:
            return  # plain text that happens to name the field


def _registered(registration: Mapping[str, Any]) -> Iterator[str]:
    authentication = registration.get("authentication")
    credentials = authentication.get("credentials") if isinstance(authentication, Mapping) else None
    for secret in (registration.get("token"), credentials):
        if isinstance(secret, str):
            yield secret


def _clean_text(text: str, secrets: tuple[str, ...]) -> str:
    return storable(_hide(text, secrets))


def _hide(text: str, secrets: tuple[str, ...]) -> str:
    """The text in one pass: places that overlap are hidden as one, and nothing is looked for in what was put
    in their place."""
    parts, end = [], 0
    for start, stop in sorted(span for secret in secrets for span in _places(text, secret)):
        if start >= end:
            parts += [text[end:start], REDACTED]
        end = max(end, stop)
    return "".join((*parts, text[end:])) if parts else text


def _places(text: str, secret: str) -> Iterator[tuple[int, int]]:
    """Where a secret stands, from left to right, none overlapping the one before."""
    start = text.find(secret)
    while start >= 0:
        yield start, start + len(secret)
        start = text.find(secret, start + len(secret))
