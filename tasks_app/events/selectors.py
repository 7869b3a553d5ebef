"""Reading deliveries of events."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from tasks_app.events.models import EventDelivery
from tasks_app.lifecycle.selectors import of_teams
from tasks_app.lifecycle.verify import entity_models
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION


def deliveries_visible(viewer: User) -> QuerySet[EventDelivery]:
    """What subscribers have yet to take, narrowed to events about entities of the viewer's teams; what is
    about none (an e-mail that is not taken) is for operators."""
    shown = of_teams(viewer, seq="event__seq")
    if not viewer.is_superuser and viewer.has_perm(STEER_OPERATION):
        shown |= ~Q(entity_type__in=list(entity_models()))
    return EventDelivery.objects.filter(shown).select_related("event")


def waiting_behind(delivery: EventDelivery) -> int:
    """How many later events of the same entity this subscriber takes only after this one."""
    behind = EventDelivery.objects.filter(
        subscriber=delivery.subscriber,
        entity_type=delivery.entity_type,
        entity_id=delivery.entity_id,
        position__gt=delivery.position,
    )
    return behind.count()
