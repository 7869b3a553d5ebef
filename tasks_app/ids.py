"""Primary keys: UUID version 7, so that lists page by key and rows stand in order of time (RFC 9562)."""

import uuid

import uuid6


def new_id() -> uuid.UUID:
    """A time-ordered UUIDv7."""
    return uuid.UUID(int=uuid6.uuid7().int)
