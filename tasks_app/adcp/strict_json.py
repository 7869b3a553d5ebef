"""Strict JSON for bytes that strangers send: one reading only, or a clear refusal.

Source: AdCP L1/security "Body well-formedness" (duplicate keys are a parser-differential attack), RFC 8259.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

MAX_DEPTH = 64
MAX_BYTES = 10 * 2**20
MAX_TYPED_BYTES = 64 * 2**10

# What must never reach a log line from a hostile key name (AdCP L1/security 14b, the required minimum).
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_LOGGED_NAME_BYTES = 32
_LOGGED_NAMES = 4


class MalformedBody(ValueError):  # noqa: N818 (what it is, not that it is one)
    """The body has no single safe reading as a JSON object.

    `reason` is one of: too_large, not_utf8, not_json, duplicate_key, not_finite, too_deep, not_an_object.
    The text never quotes the body, except sanitised names of duplicate keys.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def parse_typed(text: str) -> dict[str, Any]:
    """Read one JSON object that a person typed into a form, at most `MAX_TYPED_BYTES` of it; nothing is an
    empty one. Raises MalformedBody and nothing else."""
    return parse_object(text.strip().encode("utf-8", "surrogatepass") or b"{}", max_bytes=MAX_TYPED_BYTES)


def parse_object(
    body: bytes | str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH
) -> dict[str, Any]:
    """Read one JSON object from `body`; raises MalformedBody and nothing else.

    `max_bytes` bounds the encoded size, `max_depth` the nesting of objects and arrays together.
    """
    text = _decode(body, max_bytes)
    _check_depth(text, max_depth)
    duplicates: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            duplicates.extend(_repeated(pairs))
        return found

    try:
        value = json.loads(
            text, object_pairs_hook=collect, parse_constant=_refuse_constant, parse_float=_finite
        )
    except MalformedBody:
        raise
    except (ValueError, RecursionError) as error:
        # ValueError also covers an integer with more digits than Python agrees to convert.
        raise MalformedBody("not_json", "the body is not valid JSON") from error
    if duplicates:
        raise MalformedBody("duplicate_key", f"duplicate object keys: {sanitise_names(duplicates)}")
    if not isinstance(value, dict):
        raise MalformedBody("not_an_object", "the body is not a JSON object")
    return value


def sanitise_names(names: list[str]) -> str:
    """Key names made safe for a log line: cut at the first unprintable, 32 bytes each, four names at most."""
    distinct = list(dict.fromkeys(names))
    shown = [_sanitise(name) for name in distinct[:_LOGGED_NAMES]]
    if len(distinct) > _LOGGED_NAMES:
        shown.append(f"<...{len(distinct) - _LOGGED_NAMES} more>")
    return ", ".join(shown)


def _decode(body: bytes | str, max_bytes: int) -> str:
    if isinstance(body, str):
        # A lone surrogate cannot be encoded: such text never came from valid UTF-8.
        try:
            body = body.encode()
        except UnicodeEncodeError as error:
            raise MalformedBody("not_utf8", "the body is not valid UTF-8") from error
    if len(body) > max_bytes:
        raise MalformedBody("too_large", f"the body is larger than {max_bytes} bytes")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedBody("not_utf8", "the body is not valid UTF-8") from error


_BRACKETS_OR_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


def _check_depth(text: str, max_depth: int) -> None:
    """Refuse deep nesting before the recursive parser sees it."""
    depth = 0
    for match in _BRACKETS_OR_STRING.finditer(text):
        token = match.group()
        if token in ("[", "{"):
            depth += 1
            if depth > max_depth:
                raise MalformedBody("too_deep", f"the body nests deeper than {max_depth} levels")
        elif token in ("]", "}"):
            depth -= 1


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedBody("not_finite", f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise MalformedBody("not_finite", "a number is too large to represent")
    return value


def _repeated(pairs: list[tuple[str, Any]]) -> Iterator[str]:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            yield key
        seen.add(key)


def _sanitise(name: str) -> str:
    bad = _UNPRINTABLE.search(name)
    if bad is not None:
        return f"<sanitized:{len(name[: bad.start()].encode('utf-8', 'replace'))}>"
    return name.encode("utf-8", "replace")[:_LOGGED_NAME_BYTES].decode("utf-8", "ignore")
