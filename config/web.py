"""`python -m config.web --port 8000`: the web process, on uvicorn, with what a connection may take bounded.

h11, never httptools where that is installed: h11 refuses heads over 64 kB, and the bounds here hang on it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tasks_app.allowances import network_of

HEAD_WITHIN_S = 10.0  # from opening a connection, or the first byte of a further request
TAKEN_WITHIN_S = 30.0  # who takes nothing of an answer for so long has gone
IDLE_S = 5  # between requests of one connection
GRACE_S = 3
_SPARE_FILES = 200  # for the database, logs and what is read

Network = IPv4Network | IPv6Network


class BoundedProtocol(H11Protocol):
    """uvicorn's, with so many connections in all and of one address (IPv6: one /64), and an end to those that
    only wait."""

    most = 0
    most_each = 0
    exempt: Sequence[Network] = ()  # proxies, whose connections are many people's
    _open: Counter[str] = Counter()

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._counted = ""
        self._heading: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        source = self.client[0] if self.client else ""
        network = network_of(source)
        bounded = bool(source) and not _is_of(source, self.exempt)
        too_many = bounded and self._open[network] >= self.most_each
        if too_many or self._open.total() >= self.most:
            transport.abort()
            return
        self._counted = network
        self._open[self._counted] += 1
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._head_came()
        self.resume_writing()
        if self._counted:
            self._open[self._counted] -= 1
            if not self._open[self._counted]:
                del self._open[self._counted]
            self._counted = ""

    def data_received(self, data: bytes) -> None:
        if self._heading is None and self.conn.their_state is h11.IDLE:
            self._await_head()
        super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        if self.conn.their_state is not h11.IDLE:
            self._head_came()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:  # answered before its body came: nobody waits for that
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stuck is None:
            self._stuck = self.loop.call_later(TAKEN_WITHIN_S, self._end)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _await_head(self) -> None:
        self._heading = self.loop.call_later(HEAD_WITHIN_S, self._end)

    def _head_came(self) -> None:
        if self._heading is not None:
            self._heading.cancel()
            self._heading = None

    def _end(self) -> None:
        self.transport.abort()


def _is_of(source: str, networks: Sequence[Network]) -> bool:
    return bool(source) and any(ip_address(source) in network for network in networks)


def connections_bound(*, wanted: int, each: int, proxies: Sequence[Network]) -> None:
    """Set what `BoundedProtocol` lets in; no more than the process may have files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _SPARE_FILES
    if soft < needed and (hard == resource.RLIM_INFINITY or hard > soft):
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    BoundedProtocol.most = min(wanted, max(1, soft - _SPARE_FILES))
    BoundedProtocol.most_each = each
    BoundedProtocol.exempt = proxies


def serve(app: str, *, host: str, port: int) -> None:
    """Serve `app` ("module:name") until SIGTERM or Ctrl-C."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    os.environ.setdefault(
        "FLIGHTDECK_DB_POOL", "1"
    )  # before the settings are read; workers, which fork, pool none
    import django
    from django.conf import settings
    from django.db import OperationalError, connections

    django.setup()
    from tasks_app.installation import start_lacks

    with suppress(OperationalError):  # the database is away: requests are answered 503 until it is back
        for lack in start_lacks():
            sys.exit(lack)
    connections.close_all()
    exempt = [ip_network("127.0.0.1"), *settings.PROXIES]
    connections_bound(wanted=settings.CONNECTIONS, each=settings.CONNECTIONS_EACH, proxies=exempt)
    uvicorn.run(
        app,
        host=host,
        port=port,
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        access_log=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=GRACE_S,
        proxy_headers=False,  # config.middleware.TrustedProxies reads them
        server_header=False,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m config.web", description="The web process.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--app", default="config.asgi:application", help="what is served")
    options = parser.parse_args(arguments)
    serve(options.app, host=options.host, port=options.port)


if __name__ == "__main__":
    main()
