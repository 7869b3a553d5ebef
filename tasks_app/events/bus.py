"""Subscribing to events: who wants which types, and what a subscriber is handed.

Delivery is at least once, in order per entity (document 002 "event bus"; decision 0009).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tasks_app.lifecycle.declarations import ENTITIES, lifecycle
from tasks_app.lifecycle.models import OutboxEvent

ANY = "*"
NOTED = "noted"  # what was recorded of an entity without its status
_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
DedupId = tuple[str, UUID, int]


@dataclass(frozen=True, kw_only=True)
class Event:
    """One committed status change: `payload` holds from, to, actor and, of what was imported, `imported`:
    true; or an event of another declared type. `position` is its place among all events. The same `dedup_id`
    may be delivered twice, never anything else under it."""

    type: str
    entity_type: str
    entity_id: UUID
    seq: int
    payload: Mapping[str, Any]
    at: datetime
    position: int

    @property
    def imported(self) -> bool:
        """Whether it happened elsewhere, before an import: nothing that a handler should act on now."""
        return self.payload.get("imported") is True

    @property
    def dedup_id(self) -> DedupId:
        """(entity type, entity id, seq): what a handler remembers where twice is not the same as once."""
        return self.entity_type, self.entity_id, self.seq


class LaterError(Exception):
    """What a handler raises for an event that it did not try: it is called again from `at` (a moment) on, and
    that costs the event no attempt."""

    def __init__(self, why: str, *, at: datetime) -> None:
        super().__init__(why)
        self.at = at


Handler = Callable[[Event], None]


@dataclass(frozen=True, kw_only=True)
class Subscriber:
    """A named handler and the types it wants."""

    name: str
    types: frozenset[str]
    handler: Handler

    def wants(self, event_type: str) -> bool:
        """Whether one of its types is this one, its entity's wildcard, or everything."""
        entity = event_type.partition(".")[0]
        return not self.types.isdisjoint((event_type, f"{entity}.*", ANY))


_subscribers: dict[str, Subscriber] = {}
_other_types: set[str] = set()


def type_declare(event_type: str) -> None:
    """Let events of this type be subscribed to, beside those of lifecycles."""
    _other_types.add(event_type)


def subscribe(name: str, types: Collection[str], handler: Handler) -> None:
    """Deliver events of `types` ("deal.booked", "deal.*", "*") to `handler`; called in AppConfig.ready().

    `name` is kept with the subscriber's position: renaming it begins anew, and takes a migration that
    deletes the row of the old name, for which events are kept otherwise. A new name begins with the first
    event that is not numbered yet. The handler is called outside a transaction, one event at a time; what it
    raises is retried, and with LaterError put off, for a day at most; it bounds its own waits, for the
    subscriber's next events wait meanwhile.
    Raises ValueError for a name taken or malformed, and for a type that nobody declares.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a subscriber's name: a-z, 0-9, _.- and at most 64 characters")
    if name in _subscribers:
        raise ValueError(f"there is a subscriber {name} already")
    if isinstance(types, str) or not types:
        raise ValueError(f"{name} subscribes to a list of event types")
    unknown = [one for one in types if not _declared(one)]
    if unknown:
        raise ValueError(f"{name}: no lifecycle declares {', '.join(unknown)}")
    _subscribers[name] = Subscriber(name=name, types=frozenset(types), handler=handler)


def subscribers() -> tuple[Subscriber, ...]:
    """Everybody who subscribed, in that order."""
    return tuple(_subscribers.values())


def position_of(row: OutboxEvent) -> int:
    """A row's place among all events. Raises ValueError for one that is not published yet."""
    if row.position is None:
        raise ValueError(f"event {row.pk} is not published yet")
    return row.position


def event_of(row: OutboxEvent) -> Event:
    """A published row as handlers see it. Raises ValueError for one that is not published yet."""
    return Event(
        type=row.type,
        entity_type=row.entity_type,
        entity_id=row.entity_id,
        seq=row.seq,
        payload=row.payload,
        at=row.at,
        position=position_of(row),
    )


def _declared(event_type: str) -> bool:
    entity, _, state = event_type.partition(".")
    if event_type == ANY or event_type in _other_types:
        return True
    return entity in ENTITIES and (state in (ANY, NOTED) or state in lifecycle(entity).states)
