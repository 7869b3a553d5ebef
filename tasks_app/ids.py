"""Primary keys: UUID version 7, so that lists page by key and rows stand in order of time (RFC 9562)."""

import uuid
from datetime import datetime

import uuid6


def new_id() -> uuid.UUID:
    """A time-ordered UUIDv7."""
    return uuid.UUID(int=uuid6.uuid7().int)


def first_id_at(moment: datetime) -> uuid.UUID:
    """The smallest UUIDv7 of a moment: rows made later have a larger key (RFC 9562)."""
    milliseconds = max(0, int(moment.timestamp() * 1000))
    return uuid.UUID(int=(milliseconds << 80) | (0x7 << 76) | (0x2 << 62))
