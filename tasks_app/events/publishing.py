"""Publishing: committed outbox rows get their position, and whoever listens is woken once for all of them.

An id says nothing about the order of commits: a lower one may commit after a higher one. So nobody reads
by id. A row is without a position until a transaction that sees it committed gives it one; numberings take
turns (the stream's row lock, held until their commit), so positions become visible in their own order and a
reader that asks for what is beyond its position misses nothing. The numbering is a function of the owner
(migrations/sql/events.sql): the application's role writes no event.
"""

from __future__ import annotations

from dataclasses import dataclass

from tasks_app.events.bus import subscribers
from tasks_app.lifecycle.prepared import prepared_row

CHANNEL = "fd_events"
AT_ONCE = 1000
_ANY_NEW = "select exists (select from tasks_app_outboxevent where position is null)"
_NUMBER = "select events, types from fd_events_number(%s, %s, %s)"


@dataclass(frozen=True)
class Numbered:
    """How many events were given their position, and which types are among them."""

    events: int
    types: frozenset[str] = frozenset()


def events_publish(*, limit: int = AT_ONCE) -> int:
    """As `events_number`; answers how many were numbered."""
    return events_number(limit=limit).events


def events_number(*, limit: int = AT_ONCE) -> Numbered:
    """Number up to `limit` committed events, in one commit that also wakes listeners of `fd_events`.

    Subscribers seen for the first time begin here.
    """
    if prepared_row(_ANY_NEW, []) == (False,):
        return Numbered(0)
    numbered = prepared_row(_NUMBER, [limit, [one.name for one in subscribers()], CHANNEL])
    events, types = numbered or (0, None)
    return Numbered(events, frozenset(types or ()))
