"""Time comes from one clock; tests put their own in its place."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

# Moments that anybody can mean: beyond them a zone or a day more leaves the calendar.
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2199, 12, 31, tzinfo=UTC)


def _system() -> datetime:
    return datetime.now(UTC)


_read: Callable[[], datetime] = _system


def now() -> datetime:
    """The present moment, aware, UTC."""
    return _read()


def frozen() -> datetime | None:
    """The moment of an injected clock, None while the system's runs (the database then uses its own)."""
    return None if _read is _system else _read()


@contextmanager
def injected(read: Callable[[], datetime]) -> Iterator[None]:
    """Within the block, `now()` is `read()`."""
    global _read
    before, _read = _read, read
    try:
        yield
    finally:
        _read = before
