"""The bytes of an audit entry that are hashed: netstrings of 13 fields, in this order.

Format 1: format version, entity, id, seq, from, to, microseconds since 1970 (UTC), actor, reason, metadata,
changes, trace id, previous hash in hex. Written by fd_audit_append and fd_body (sql/).
"""

from __future__ import annotations

from collections.abc import Iterator

FIELDS = (
    "format_version",
    "entity_type",
    "entity_id",
    "seq",
    "from_status",
    "to_status",
    "at",
    "actor",
    "reason",
    "metadata",
    "changes",
    "trace_id",
    "prev_hash",
)


def netstring(data: bytes) -> bytes:
    """`data` with its length before it: 5:hello,"""
    return b"%d:%b," % (len(data), data)


def body_fields(body: bytes) -> dict[str, bytes]:
    """Field name to bytes. Raises ValueError for bytes that are no body of format 1."""
    found = list(_netstrings(body))
    if len(found) != len(FIELDS):
        raise ValueError(f"{len(found)} fields instead of {len(FIELDS)}")
    return dict(zip(FIELDS, found, strict=True))


def _netstrings(body: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(body):
        colon = body.index(b":", at)
        end = colon + 1 + int(body[at:colon])
        if end <= colon or body[end : end + 1] != b",":
            raise ValueError("a field does not end where it says")
        yield body[colon + 1 : end]
        at = end + 1
