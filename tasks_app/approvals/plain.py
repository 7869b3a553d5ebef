"""A seller's JSON as evidence."""

from __future__ import annotations

from typing import Any


def as_text(value: Any) -> Any:
    """A seller's JSON with its numbers as text, so that the digest never depends on a float."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {k: as_text(v) for k, v in value.items()}
    return [as_text(v) for v in value] if isinstance(value, list) else value
