"""Time as the sellers write it: UTC, RFC 3339 with Z."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def now() -> datetime:
    """The present moment, UTC, whole milliseconds."""
    moment = datetime.now(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def stamp(moment: datetime) -> str:
    """`2026-03-01T09:30:00Z`."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse(text: str) -> datetime:
    """An RFC 3339 time; without a zone it is UTC.

    Raises:
        ValueError: not a time.
    """
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def days(number: float) -> timedelta:
    return timedelta(days=number)
