"""Primary keys: UUID version 7, so that lists page by key and rows stand in order of time (RFC 9562). Keys of
requests: what a caller asks for twice under one idempotency key is done once."""

import hashlib
import re
import uuid
from datetime import datetime

import uuid6

_REQUEST_KEY = re.compile(r"[\x21-\x7e]{1,255}")
REQUEST_KEY_FORM = "has 1 to 255 printable characters without spaces"


def new_id() -> uuid.UUID:
    """A time-ordered UUIDv7."""
    return uuid.UUID(int=uuid6.uuid7().int)


def first_id_at(moment: datetime) -> uuid.UUID:
    """The smallest UUIDv7 of a moment: rows made later have a larger key (RFC 9562)."""
    milliseconds = max(0, int(moment.timestamp() * 1000))
    return uuid.UUID(int=(milliseconds << 80) | (0x7 << 76) | (0x2 << 62))


def is_request_key(key: str) -> bool:
    """Whether a caller may name a request by it."""
    return _REQUEST_KEY.fullmatch(key) is not None


def request_key(actor: str, key: str) -> str:
    """What is kept of an actor's key: SHA-256 (hex) of both; empty where there is none."""
    return hashlib.sha256(f"{actor} {key}".encode()).hexdigest() if key else ""
