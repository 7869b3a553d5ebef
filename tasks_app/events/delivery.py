"""Delivery to one subscriber: new events in batches; what fails steps aside with its entity's later events.

At least once: the position moves after the handlers have run. A relay killed in between leaves
`in_hand_to` set; those events then go the careful way (held.py), which counts an attempt before it is made,
so that an event that kills its relay gives up like one that raises.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import structlog
from django.conf import settings
from django.db import transaction

from tasks_app import clock
from tasks_app.events.bus import Subscriber, event_of, position_of
from tasks_app.events.models import EventDelivery, EventSubscription
from tasks_app.lifecycle.models import OutboxEvent
from tasks_app.lifecycle.transitions import exact

log = structlog.get_logger(__name__)
BATCH = 100
TURN_S = 1.0  # handlers that take longer than this together end the batch early
_ERROR_CHARS = 1000
_MAX_DOUBLINGS = 30
Entity = tuple[str, object]
Stopped = Callable[[], bool]


class OvertakenError(RuntimeError):
    """Another relay moved this subscriber meanwhile."""


def never() -> bool:
    """For callers that are not asked to stop."""
    return False


def deliver_new(subscriber: Subscriber, *, stopped: Stopped = never) -> int:
    """Hand the subscriber its next events, at most BATCH. Answers by how many events it moved on.

    Raises OvertakenError; whatever was handled is then delivered again.
    """
    subscription = EventSubscription.objects.filter(pk=subscriber.name).first()
    if subscription is None:
        return 0  # the first numbering after its registration makes it
    if subscription.in_hand_to is not None:
        return _hold_what_was_in_hand(subscriber, subscription)
    following = OutboxEvent.objects.filter(position__gt=subscription.position)
    batch = list(following.order_by("position")[:BATCH])
    if not batch:
        return 0
    _take(subscription, to=position_of(batch[-1]))
    return _deliver(subscriber, subscription, batch, stopped)


def call(subscriber: Subscriber, row: OutboxEvent) -> str | None:
    """Call the handler; None when it took the event, else what it raised, in words."""
    event = event_of(row)
    with structlog.contextvars.bound_contextvars(trace_id=f"event:{event.position}"):
        try:
            subscriber.handler(event)
        except Exception as error:  # a handler may raise anything; it costs this entity's events a while
            log.exception("event_not_taken", subscriber=subscriber.name, type=event.type)
            return str(exact(f"{type(error).__name__}: {error}"))[:_ERROR_CHARS]
    return None


def backoff(attempts: int) -> timedelta:
    """The wait after so many failed attempts: doubling from settings.EVENT_RETRY_FIRST_S, bounded."""
    doubled = settings.EVENT_RETRY_FIRST_S * 2 ** min(attempts - 1, _MAX_DOUBLINGS)
    return timedelta(seconds=min(doubled, settings.EVENT_RETRY_CAP_S))


def _deliver(
    subscriber: Subscriber, subscription: EventSubscription, batch: list[OutboxEvent], stopped: Stopped
) -> int:
    held = _entities_held(subscriber.name, batch)
    aside: list[EventDelivery] = []
    until = time.monotonic() + TURN_S
    reached, passed = subscription.position, 0
    for row in batch:
        if stopped() or time.monotonic() >= until:
            break
        if subscriber.wants(row.type):
            one = _aside(subscriber, row) if _entity(row) in held else _tried(subscriber, row)
            if one is not None:
                held.add(_entity(row))
                aside.append(one)
        reached, passed = position_of(row), passed + 1
    _move(subscription, to=reached, aside=aside)
    return passed


def _tried(subscriber: Subscriber, row: OutboxEvent) -> EventDelivery | None:
    error = call(subscriber, row)
    if error is None:
        return None
    delivery = _aside(subscriber, row)
    delivery.attempts, delivery.error = 1, error
    if settings.EVENT_ATTEMPTS > 1:
        delivery.due_at = clock.now() + backoff(1)
    else:
        delivery.gave_up_at = clock.now()
    return delivery


def _aside(subscriber: Subscriber, row: OutboxEvent) -> EventDelivery:
    return EventDelivery(
        subscriber=subscriber.name,
        event=row,
        position=position_of(row),
        entity_type=row.entity_type,
        entity_id=row.entity_id,
        created_at=clock.now(),
    )


def _hold_what_was_in_hand(subscriber: Subscriber, subscription: EventSubscription) -> int:
    between = OutboxEvent.objects.filter(
        position__gt=subscription.position, position__lte=subscription.in_hand_to
    )
    rows = [row for row in between.order_by("position") if subscriber.wants(row.type)]
    log.warning("event_relay_was_killed", subscriber=subscriber.name, events=len(rows))
    aside = [_aside(subscriber, row) for row in rows]
    _move(subscription, to=int(subscription.in_hand_to or 0), aside=aside)
    return max(1, len(rows))


def _take(subscription: EventSubscription, *, to: int) -> None:
    rows = EventSubscription.objects.filter(
        pk=subscription.pk, position=subscription.position, in_hand_to__isnull=True
    )
    if rows.update(in_hand_to=to) != 1:
        raise OvertakenError(subscription.name)
    subscription.in_hand_to = to


@transaction.atomic
def _move(subscription: EventSubscription, *, to: int, aside: Sequence[EventDelivery]) -> None:
    rows = EventSubscription.objects.filter(
        pk=subscription.pk, position=subscription.position, in_hand_to=subscription.in_hand_to
    )
    if rows.update(position=to, in_hand_to=None) != 1:
        raise OvertakenError(subscription.name)
    if not aside:
        return
    # Asked under the subscription's lock, as deliveries are removed: none is left waiting behind nothing.
    held = _entities_held(subscription.name, aside)
    for delivery in aside:
        if _entity(delivery) not in held:
            held.add(_entity(delivery))
            if delivery.gave_up_at is None and delivery.due_at is None:
                delivery.due_at = clock.now()
    EventDelivery.objects.bulk_create(aside)


def _entities_held(subscriber: str, rows: Sequence[OutboxEvent | EventDelivery]) -> set[Entity]:
    held = EventDelivery.objects.filter(
        subscriber=subscriber,
        entity_type__in={row.entity_type for row in rows},
        entity_id__in={row.entity_id for row in rows},
    )
    return set(held.values_list("entity_type", "entity_id").distinct())


def _entity(row: OutboxEvent | EventDelivery) -> Entity:
    return row.entity_type, row.entity_id
