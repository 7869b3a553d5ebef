"""Delivery to one subscriber: new events in batches; what fails steps aside with its entity's later events.

At least once: the position moves after the handlers have run. A relay killed in between leaves
`in_hand_to` set; those events then go the careful way (held.py), which counts an attempt before it is made,
so that an event that kills its relay gives up like one that raises.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog
from django.conf import settings
from django.db import transaction

from tasks_app import clock
from tasks_app.events.bus import ANY, Event, LaterError, Subscriber
from tasks_app.events.models import EventDelivery
from tasks_app.lifecycle.prepared import prepared_row, prepared_rows
from tasks_app.lifecycle.transitions import exact

log = structlog.get_logger(__name__)
BATCH = 100
PUT_OFF = timedelta(days=1)  # so long a subscriber may put an event off, from when it first did
REACH = 2000  # positions looked through in one turn, wanted or not
TURN_S = 1.0  # handlers that take longer than this together end the batch early
_ERROR_CHARS = 1000
_MAX_DOUBLINGS = 30
_LOOK = """
select s.position, s.in_hand_to, t.head,
       exists (select from tasks_app_eventdelivery d where d.subscriber = s.name),
       exists (select from tasks_app_eventdelivery d where d.subscriber = s.name and d.due_at <= %s)
  from tasks_app_eventsubscription s cross join tasks_app_eventstream t
 where s.name = %s and t.id = 1
"""
# What Subscriber.wants() says, by the server: what nobody here wants is not fetched.
_WANTED = """
select id, type, entity_type, entity_id, seq, payload, at, position
  from tasks_app_outboxevent
 where position > %s and position <= %s
   and (%s or type = any(%s) or split_part(type, '.', 1) || '.*' = any(%s))
 order by position limit %s
"""
_TAKE = """
update tasks_app_eventsubscription set in_hand_to = %s
 where name = %s and position = %s and in_hand_to is null returning name
"""
_MOVE = """
update tasks_app_eventsubscription set position = %s, in_hand_to = null
 where name = %s and position = %s and in_hand_to is not distinct from %s returning name
"""
Entity = tuple[str, object]
Stopped = Callable[[], bool]


class OvertakenError(RuntimeError):
    """Another relay moved this subscriber meanwhile."""


@dataclass(frozen=True)
class Standing:
    """Where a subscriber stood in one moment: its place, what a killed relay left in hand, the last position
    given to an event; whether any delivery is held, and whether one of them is due."""

    position: int
    in_hand_to: int | None
    head: int
    held: bool
    due: bool


class _Row(NamedTuple):
    """A published event and its row's id."""

    id: int
    event: Event


def never() -> bool:
    """For callers that are not asked to stop."""
    return False


def standing_of(subscriber: Subscriber) -> Standing | None:
    """Where it stands; None until the first numbering after its registration."""
    row = prepared_row(_LOOK, [clock.now(), subscriber.name])
    return None if row is None else Standing(*row)


def deliver_new(subscriber: Subscriber, *, stopped: Stopped = never) -> int:
    """As `deliver_from`, from where it stands now."""
    standing = standing_of(subscriber)
    return 0 if standing is None else deliver_from(subscriber, standing, stopped=stopped)


def deliver_from(subscriber: Subscriber, standing: Standing, *, stopped: Stopped = never) -> int:
    """Hand the subscriber the next events it wants, at most BATCH of the next REACH. Answers by how many
    events, wanted or not, it moved on.

    Raises OvertakenError; whatever was handled is then delivered again.
    """
    if standing.in_hand_to is not None:
        return _hold_what_was_in_hand(subscriber, standing, to=standing.in_hand_to)
    reach = min(standing.head, standing.position + REACH)
    if reach <= standing.position:
        return 0
    batch = _wanted(subscriber, after=standing.position, to=reach, limit=BATCH)
    if len(batch) == BATCH:
        reach = batch[-1].event.position
    if batch:
        reach = _deliver(subscriber, standing, batch, reach, stopped)
    else:
        _move(subscriber, standing.position, None, to=reach)
    return reach - standing.position


@dataclass(frozen=True, kw_only=True)
class NotTaken:
    """What a handler raised, in words; `again_at`: when it wants an event that it did not try."""

    error: str
    again_at: datetime | None = None


def call(subscriber: Subscriber, event: Event) -> NotTaken | None:
    """Call the handler; None when it took the event."""
    with structlog.contextvars.bound_contextvars(trace_id=f"event:{event.position}"):
        try:
            subscriber.handler(event)
        except LaterError as later:
            return NotTaken(error=str(exact(str(later)))[:_ERROR_CHARS], again_at=later.at)
        except Exception as error:  # a handler may raise anything; it costs this entity's events a while
            log.exception("event_not_taken", subscriber=subscriber.name, type=event.type)
            return NotTaken(error=str(exact(f"{type(error).__name__}: {error}"))[:_ERROR_CHARS])
    return None


def backoff(attempts: int) -> timedelta:
    """The wait after so many failed attempts: doubling from settings.EVENT_RETRY_FIRST_S, bounded."""
    doubled = settings.EVENT_RETRY_FIRST_S * 2 ** min(attempts - 1, _MAX_DOUBLINGS)
    return timedelta(seconds=min(doubled, settings.EVENT_RETRY_CAP_S))


def _wanted(subscriber: Subscriber, *, after: int, to: int, limit: int | None) -> list[_Row]:
    types = list(subscriber.types)
    rows = prepared_rows(_WANTED, [after, to, ANY in subscriber.types, types, types, limit])
    return [
        _Row(
            pk,
            Event(
                type=type_,
                entity_type=entity_type,
                entity_id=entity_id,
                seq=seq,
                payload=payload,
                at=at,
                position=position,
            ),
        )
        for pk, type_, entity_type, entity_id, seq, payload, at, position in rows
    ]


def _deliver(
    subscriber: Subscriber, standing: Standing, batch: Sequence[_Row], reach: int, stopped: Stopped
) -> int:
    """Answers the position reached: `reach`, or that of the last event before the stop."""
    in_hand_to = _take(subscriber, standing, to=batch[-1].event.position)
    # Only who moves the position holds anything more, so that what stood in that look stands still.
    held = _entities_held(subscriber, (row.event for row in batch)) if standing.held else set()
    aside: list[EventDelivery] = []
    until = time.monotonic() + TURN_S
    reached = standing.position
    for row in batch:
        if stopped() or time.monotonic() >= until:
            break
        one = _aside(subscriber, row) if _entity(row.event) in held else _tried(subscriber, row)
        if one is not None:
            held.add(_entity(row.event))
            aside.append(one)
        reached = row.event.position
    else:
        reached = reach
    _move(subscriber, standing.position, in_hand_to, to=reached, aside=aside)
    return reached


def _tried(subscriber: Subscriber, row: _Row) -> EventDelivery | None:
    refused = call(subscriber, row.event)
    if refused is None:
        return None
    delivery = _aside(subscriber, row)
    delivery.attempts, delivery.error = 1, refused.error
    if refused.again_at is not None:
        delivery.attempts, delivery.due_at = 0, refused.again_at
    elif settings.EVENT_ATTEMPTS > 1:
        delivery.due_at = clock.now() + backoff(1)
    else:
        delivery.gave_up_at = clock.now()
    return delivery


def _aside(subscriber: Subscriber, row: _Row) -> EventDelivery:
    return EventDelivery(
        subscriber=subscriber.name,
        event_id=row.id,
        position=row.event.position,
        entity_type=row.event.entity_type,
        entity_id=row.event.entity_id,
        created_at=clock.now(),
    )


def _hold_what_was_in_hand(subscriber: Subscriber, standing: Standing, *, to: int) -> int:
    rows = _wanted(subscriber, after=standing.position, to=to, limit=None)
    log.warning("event_relay_was_killed", subscriber=subscriber.name, events=len(rows))
    aside = [_aside(subscriber, row) for row in rows]
    _move(subscriber, standing.position, to, to=to, aside=aside)
    return to - standing.position


def _take(subscriber: Subscriber, standing: Standing, *, to: int) -> int:
    if prepared_row(_TAKE, [to, subscriber.name, standing.position]) is None:
        raise OvertakenError(subscriber.name)
    return to


def _move(
    subscriber: Subscriber,
    position: int,
    in_hand_to: int | None,
    *,
    to: int,
    aside: Sequence[EventDelivery] = (),
) -> None:
    """From `position` to `to`; with what steps aside in one commit."""
    if not aside:
        _advance(subscriber, position, in_hand_to, to)
        return
    with transaction.atomic():
        _advance(subscriber, position, in_hand_to, to)
        _put_aside(subscriber, aside)


def _advance(subscriber: Subscriber, position: int, in_hand_to: int | None, to: int) -> None:
    if prepared_row(_MOVE, [to, subscriber.name, position, in_hand_to]) is None:
        raise OvertakenError(subscriber.name)


def _put_aside(subscriber: Subscriber, aside: Sequence[EventDelivery]) -> None:
    # Asked under the subscription's lock, as deliveries are removed: none is left waiting behind nothing.
    held = _entities_held(subscriber, aside)
    for delivery in aside:
        if _entity(delivery) not in held:
            held.add(_entity(delivery))
            if delivery.gave_up_at is None and delivery.due_at is None:
                delivery.due_at = clock.now()
    EventDelivery.objects.bulk_create(aside)


def _entities_held(subscriber: Subscriber, rows: Iterable[Event | EventDelivery]) -> set[Entity]:
    types, ids = zip(*(_entity(row) for row in rows), strict=True)
    held = EventDelivery.objects.filter(
        subscriber=subscriber.name, entity_type__in=set(types), entity_id__in=set(ids)
    )
    return set(held.values_list("entity_type", "entity_id").distinct())


def _entity(row: Event | EventDelivery) -> Entity:
    return row.entity_type, row.entity_id
