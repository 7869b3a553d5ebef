"""What PostgreSQL keeps in no text: NUL, and halves of surrogate pairs (JSON may escape both)."""

from __future__ import annotations

import re

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def is_storable(text: str) -> bool:
    """Whether every character of it can be kept."""
    return _UNSTORABLE.search(text) is None


def storable(text: str, *, instead: str = "\ufffd") -> str:
    """The text with `instead` for each character that cannot be kept."""
    return _UNSTORABLE.sub(instead, text)
