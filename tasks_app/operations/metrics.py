"""Prometheus: what is out with sellers, how long they take to approve, and how often they reject, are late or
fail to answer.

Source: document 000, "Monitoring and Alerting". Read from the database when asked for, so that any web
process answers for all, and a restart loses nothing; each seller's latest rows only (health.py). So many
sellers are named one by one (METRICS_SELLERS: those in use first, of these who have most open); what others
have open is counted as "(others)".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from django.conf import settings
from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily, Metric

from tasks_app.metrics import metrics_register
from tasks_app.operations.health import sellers_health
from tasks_app.operations.models import Operation
from tasks_app.sellers.health import SellerHealth, WebhookState
from tasks_app.sellers.models import Seller

Told = list[tuple[str, SellerHealth]]


def register() -> None:
    """Called when the application starts."""
    metrics_register("operation", _families)


def _families() -> Iterator[Metric]:
    counts = _open_counts()
    sellers = _named(counts)
    health = sellers_health(sellers)
    told = [(seller.slug, health[seller.pk]) for seller in sellers]
    yield _open(counts, {slug for slug, _ in told})
    yield from _shares(told)
    yield _approval_times(told)
    yield _call_times(told)
    yield _webhooks_paused(told)


def _open_counts() -> Counter[tuple[str, str, str]]:
    """Operations that are not settled, by seller, task and status."""
    rows = Operation.objects.filter(settled_at__isnull=True).order_by()
    counted = rows.values_list("seller__slug", "task_type", "status").annotate(Count("pk"))
    return Counter({(slug, task, status): count for slug, task, status, count in counted})


def _named(counts: Counter[tuple[str, str, str]]) -> list[Seller]:
    busy: Counter[str] = Counter()
    for (slug, _, _), count in counts.items():
        busy[slug] += count
    sellers = Seller.objects.defer("capabilities", "tools", "token", "webhook_secret")
    first = sorted(sellers, key=lambda one: (not one.active, -busy[one.slug], one.slug))
    return first[: settings.METRICS_SELLERS]


def _open(counts: Counter[tuple[str, str, str]], named: set[str]) -> Metric:
    family = GaugeMetricFamily(
        "flightdeck_operations_open",
        "Operations not settled, by seller, task and status",
        labels=["seller", "task", "status"],
    )
    told: Counter[tuple[str, str, str]] = Counter()
    for (slug, task, status), count in counts.items():
        told[slug if slug in named else "(others)", task, status] += count
    for labels, count in sorted(told.items()):
        family.add_metric(labels, count)
    return family


def _shares(told: Told) -> Iterator[Metric]:
    """Ratios, 0 to 1; a seller without evidence has none."""
    for name, words, share in (
        (
            "rejection",
            "Rejected among the latest changes that ended; reads do not count",
            lambda h: h.share("rejected"),
        ),
        (
            "timeout",
            "Overdue now or once among the latest changes; reads do not count",
            lambda h: h.share("overdue"),
        ),
        (
            "api_error",
            "Calls without an AdCP answer or with an error, latest calls",
            lambda h: h.calls.error_share,
        ),
        ("webhook", "Told of by webhook among those that could have been", lambda h: h.webhooks.share),
    ):
        family = GaugeMetricFamily(f"flightdeck_seller_{name}_ratio", words, labels=["seller"])
        for slug, health in told:
            value = share(health)
            if value is not None:
                family.add_metric([slug], value)
        yield family


def _approval_times(told: Told) -> Metric:
    family = GaugeMetricFamily(
        "flightdeck_seller_answer_seconds",
        "From sending to settling, latest settled operations",
        labels=["seller", "task", "quantile"],
    )
    for slug, health in told:
        for one in health.outcomes:
            for quantile, took in (("0.5", one.median), ("0.9", one.ninetieth)):
                if took is not None:
                    family.add_metric([slug, one.task, quantile], took.total_seconds())
    return family


def _call_times(told: Told) -> Metric:
    family = GaugeMetricFamily(
        "flightdeck_seller_call_seconds", "Duration of the latest calls", labels=["seller", "quantile"]
    )
    for slug, health in told:
        calls = health.calls
        for quantile, took in (
            ("0.5", calls.median_ms),
            ("0.9", calls.ninetieth_ms),
            ("1", calls.slowest_ms),
        ):
            if took is not None:
                family.add_metric([slug, quantile], took / 1000)
    return family


def _webhooks_paused(told: Told) -> Metric:
    family = GaugeMetricFamily(
        "flightdeck_seller_webhooks_paused", "1 while a seller is polled for lost webhooks", labels=["seller"]
    )
    for slug, health in told:
        if health.webhooks.state != WebhookState.NONE:
            family.add_metric([slug], float(health.webhooks.state == WebhookState.PAUSED))
    return family
