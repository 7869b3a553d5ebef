"""The careful way: what failed, was put off, or stands behind such a one; one by one, and counted before the
attempt."""

from __future__ import annotations

import time
import uuid
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.events.bus import Subscriber, event_of
from tasks_app.events.delivery import PUT_OFF, TURN_S, NotTaken, Stopped, backoff, call, never
from tasks_app.events.models import EventDelivery, EventSubscription
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User

log = structlog.get_logger(__name__)
_KILLED = "The relay ended during the attempt"


class NotGivenUpError(ValueError):
    """The delivery has not given up: it is tried by itself, or was meanwhile."""


def deliver_held(subscriber: Subscriber, *, stopped: Stopped = never) -> int:
    """Try what is due again, oldest first, for a turn. Answers how many attempts were made."""
    until, tried = time.monotonic() + TURN_S, 0
    while not stopped() and time.monotonic() < until:
        delivery = _claim(subscriber)
        if delivery is None:
            break
        _attempt(subscriber, delivery)
        tried += 1
    return tried


def delivery_retry(*, delivery_id: uuid.UUID, user: User) -> None:
    """Give a delivery that gave up its whole budget again, attempts and days, at once. Raises
    NotGivenUpError."""
    who, now = actor_key(user), clock.now()
    rows = EventDelivery.objects.filter(pk=delivery_id, gave_up_at__isnull=False)
    if not rows.update(gave_up_at=None, due_at=now, created_at=now, attempts=0, retried_by=who):
        raise NotGivenUpError(str(delivery_id))
    log.info("event_delivery_retried", delivery=str(delivery_id), actor=who)


def deliveries_hasten(*, subscriber: str, entities: QuerySet[Any], put_off: str) -> int:
    """Try at once what was put off in words that begin so, and is about one of `entities` (rows of keys):
    not what failed, which has its back-off. Answers how many."""
    now = clock.now()
    waiting = EventDelivery.objects.filter(subscriber=subscriber, due_at__gt=now, entity_id__in=entities)
    return waiting.filter(error__startswith=put_off).update(due_at=now)


@transaction.atomic
def _claim(subscriber: Subscriber) -> EventDelivery | None:
    """The next due one, its attempt counted and its next moment set before the attempt is made."""
    due = EventDelivery.objects.filter(subscriber=subscriber.name, due_at__lte=clock.now())
    ordered = due.select_related("event").order_by("due_at", "position")
    delivery = ordered.select_for_update(of=("self",), skip_locked=True).first()
    if delivery is None:
        return None
    delivery.attempts += 1
    delivery.due_at = clock.now() + backoff(delivery.attempts)
    delivery.save(update_fields=["attempts", "due_at"])
    return delivery


def _attempt(subscriber: Subscriber, delivery: EventDelivery) -> None:
    if delivery.attempts > settings.EVENT_ATTEMPTS:  # the last one was counted, and killed its relay
        _give_up(delivery, delivery.error or _KILLED)
        return
    refused = call(subscriber, event_of(delivery.event))
    if refused is None:
        _delivered(delivery)
    elif _is_last(delivery, refused):
        _give_up(delivery, refused.error)
    else:
        _later(delivery, refused)


def _is_last(delivery: EventDelivery, refused: NotTaken) -> bool:
    if refused.again_at is None:
        return delivery.attempts == settings.EVENT_ATTEMPTS
    return clock.now() >= delivery.created_at + PUT_OFF


def _later(delivery: EventDelivery, refused: NotTaken) -> None:
    """After the backoff, or when the subscriber said: an attempt that it put off itself costs none."""
    due = refused.again_at or clock.now() + backoff(delivery.attempts)
    attempts = delivery.attempts - (refused.again_at is not None)
    _mine(delivery).update(due_at=due, error=refused.error, attempts=attempts)


def _give_up(delivery: EventDelivery, error: str) -> None:
    attempts = min(delivery.attempts, settings.EVENT_ATTEMPTS)
    _mine(delivery).update(due_at=None, gave_up_at=clock.now(), error=error, attempts=attempts)
    log.error(
        "event_delivery_gave_up",
        subscriber=delivery.subscriber,
        type=delivery.event.type,
        id=str(delivery.entity_id),
        seq=delivery.event.seq,
        error=error,
    )


@transaction.atomic
def _delivered(delivery: EventDelivery) -> None:
    """Forget it, and let the entity's next event have its turn."""
    EventSubscription.objects.select_for_update().get(pk=delivery.subscriber)  # see delivery._move
    deleted, _ = _mine(delivery).delete()
    behind = EventDelivery.objects.filter(
        subscriber=delivery.subscriber, entity_type=delivery.entity_type, entity_id=delivery.entity_id
    )
    following = behind.order_by("position").first()
    if deleted and following is not None:
        EventDelivery.objects.filter(pk=following.pk).update(due_at=clock.now())


def _mine(delivery: EventDelivery) -> QuerySet[EventDelivery]:
    """The row, unless another relay has it by now."""
    return EventDelivery.objects.filter(pk=delivery.pk, attempts=delivery.attempts, gave_up_at__isnull=True)
