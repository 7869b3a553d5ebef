"""Idempotency keys of callers: what one of them asks for twice under one key is done once."""

from __future__ import annotations

import hashlib
import re

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
KEY_FORM = "has 1 to 255 printable characters without spaces"


def is_request_key(key: str) -> bool:
    """Whether it may be one."""
    return _KEY.fullmatch(key) is not None


def request_key(actor: str, key: str) -> str:
    """What is kept of an actor's key: SHA-256 (hex) of both; empty where there is none."""
    return hashlib.sha256(f"{actor} {key}".encode()).hexdigest() if key else ""
