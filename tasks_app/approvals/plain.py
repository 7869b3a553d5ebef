"""A seller's JSON, and its texts, as evidence."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

_DIGEST = 8  # hex digits


def as_text(value: Any) -> Any:
    """A seller's JSON with its numbers as text, so that the digest never depends on a float."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {k: as_text(v) for k, v in value.items()}
    return [as_text(v) for v in value] if isinstance(value, list) else value


def shortened(text: str, most: int) -> str:
    """A text of at most so many characters; of a longer one the beginning, with a digest of the whole: two
    that differ differ still, whatever they begin with."""
    if len(text) <= most:
        return text
    mark = f"… ({sha256(text.encode(errors='replace')).hexdigest()[:_DIGEST]})"
    return f"{text[: most - len(mark)]}{mark}"
