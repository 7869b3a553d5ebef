"""Prometheus metrics that are read from the database when they are asked for: any web process answers for all
workers, and a restart loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import structlog
from django.db import DatabaseError
from prometheus_client import REGISTRY
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

log = structlog.get_logger(__name__)


class _FromDatabase(Collector):
    def __init__(self, name: str, families: Callable[[], Iterator[Metric]]) -> None:
        self._name, self._families = name, families

    def describe(self) -> Iterable[Metric]:
        # Without it, registering would collect, and ask a database that is not there yet.
        return []

    def collect(self) -> Iterable[Metric]:
        try:
            return list(self._families())
        except DatabaseError as error:  # the other metrics are answered all the same
            log.warning("metrics_not_read", metrics=self._name, error=str(error))
            return []


def metrics_register(name: str, families: Callable[[], Iterator[Metric]]) -> None:
    """Answer `families()` among the metrics; `name` stands in the log where they cannot be read."""
    REGISTRY.register(_FromDatabase(name, families))
