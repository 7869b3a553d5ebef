"""Reading deliveries of events."""

from __future__ import annotations

from django.db.models import QuerySet

from tasks_app.events.models import EventDelivery
from tasks_app.lifecycle.selectors import of_teams
from tasks_app.people.models import User


def deliveries_visible(viewer: User) -> QuerySet[EventDelivery]:
    """What subscribers have yet to take, narrowed to events about entities of the viewer's teams."""
    return EventDelivery.objects.filter(of_teams(viewer)).select_related("event")


def waiting_behind(delivery: EventDelivery) -> int:
    """How many later events of the same entity this subscriber takes only after this one."""
    behind = EventDelivery.objects.filter(
        subscriber=delivery.subscriber,
        entity_type=delivery.entity_type,
        entity_id=delivery.entity_id,
        position__gt=delivery.position,
    )
    return behind.count()
