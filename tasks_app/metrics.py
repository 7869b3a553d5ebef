"""Prometheus metrics that are read from the database when they are asked for: any web process answers for all
workers, and a restart loses nothing.

`/metrics` is closed but to who brings the token or asks from a network that settings name, and each process
makes its page at most every five seconds.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address
from time import monotonic

import structlog
from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
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


class _Page:
    """One is made at a time; who asks meanwhile, or soon after, is given the same."""

    _KEPT_S = 5.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made_at: float | None = None
        self._body = b""

    def read(self) -> bytes:
        with self._lock:
            if self._made_at is None or monotonic() - self._made_at >= self._KEPT_S:
                self._body = generate_latest(REGISTRY)
                self._made_at = monotonic()
            return self._body

    def forget(self) -> None:
        with self._lock:
            self._made_at = None


page = _Page()


def metrics_view(request: HttpRequest) -> HttpResponse:
    given = request.headers.get("authorization", "")
    if not metrics_may_be_read(source=request.META.get("REMOTE_ADDR", ""), authorization=given):
        return HttpResponse("Metrics are not for everybody.\n", status=403, content_type="text/plain")
    return HttpResponse(page.read(), content_type=CONTENT_TYPE_LATEST)


def metrics_may_be_read(*, source: str, authorization: str) -> bool:
    """By who asks from `source` with that header."""
    scheme, _, token = authorization.partition(" ")
    wanted = settings.METRICS_TOKEN.encode()
    if wanted and scheme.lower() == "bearer" and secrets.compare_digest(token.strip().encode(), wanted):
        return True
    try:
        address = ip_address(source)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return any(address in network for network in settings.METRICS_NETWORKS)
