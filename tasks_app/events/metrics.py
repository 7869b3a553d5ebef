"""Prometheus: transitions by type, how far subscribers are behind, deliveries that gave up.

Read from the database when it is asked for, so that any web process answers for all workers, and a restart
loses nothing. Transitions are counted in the commit that publishes them: each exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Count
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tasks_app.events.bus import subscribers
from tasks_app.events.models import EventCount, EventDelivery, EventStream, EventSubscription
from tasks_app.metrics import metrics_register


def register() -> None:
    """Called when the application starts."""
    metrics_register("event", _families)


def _families() -> Iterator[Metric]:
    transitions = CounterMetricFamily(
        "flightdeck_transitions", "Status changes, and notifications told, by type", labels=["type"]
    )
    for kind, total in EventCount.objects.order_by("type").values_list("type", "total"):
        transitions.add_metric([kind], total)
    yield transitions

    names = [one.name for one in subscribers()]
    head = EventStream.objects.get(pk=1).head
    behind = GaugeMetricFamily(
        "flightdeck_events_behind", "Published events a subscriber has not passed yet", labels=["subscriber"]
    )
    reached = EventSubscription.objects.filter(pk__in=names).order_by("name")
    for name, position in reached.values_list("name", "position"):
        behind.add_metric([name], head - position)
    yield behind

    gave_up = GaugeMetricFamily(
        "flightdeck_event_deliveries_gave_up",
        "Event deliveries that wait for a person",
        labels=["subscriber"],
    )
    given_up = EventDelivery.objects.filter(gave_up_at__isnull=False)
    counts = dict(given_up.values_list("subscriber").annotate(Count("pk")).order_by())
    for name in sorted({*names, *counts}):
        gave_up.add_metric([name], counts.get(name, 0))
    yield gave_up
