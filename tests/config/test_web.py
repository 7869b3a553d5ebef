"""The web process ends connections that only wait, and takes so many of one address."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ipaddress import ip_network
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from config import web
from config.web import BoundedProtocol
from tests.database import Database
from tests.support import PATIENCE_S, joined, until

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = 50_000_000
# A limit either cannot elapse within a test, or is waited for.
NEVER_S, SOON_S = 3600, 0.5


async def _app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    size = LARGE if scope["path"] == "/large/" else 1
    await send({"type": "http.response.body", "body": b"x" * size})


@contextmanager
def _served(*, idle_s: int) -> Iterator[int]:
    config = uvicorn.Config(_app, port=0, http=BoundedProtocol, lifespan="off", timeout_keep_alive=idle_s)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until(lambda: server.started and server.servers, "it listens")
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        joined(thread)


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = {"most": 8, "most_each": 3, "exempt": [ip_network("127.0.0.9")], "_open": Counter()}
    for name, value in bounds.items():
        monkeypatch.setattr(BoundedProtocol, name, value)
    for name in ("HEAD_WITHIN_S", "TAKEN_WITHIN_S"):
        monkeypatch.setattr(web, name, NEVER_S)


@pytest.fixture
def port(bounds: None) -> Iterator[int]:
    """Nothing is ended for the time it takes, unless the test says so."""
    with _served(idle_s=NEVER_S) as served:
        yield served


@pytest.fixture
def hasty(bounds: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of one that ends whatever only waits, maybe before the test has sent all."""
    monkeypatch.setattr(web, "HEAD_WITHIN_S", SOON_S)
    with _served(idle_s=1) as served:
        yield served


def opened(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S, source_address=(source, 0))


def ended(connection: socket.socket, sent: bytes) -> bool:
    """Whether the server ends it, within the socket's time, after that was sent or before."""
    try:
        connection.sendall(sent)
        while connection.recv(2**16):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"G",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ",
        GET,  # and then nothing more
        GET + b"GET / HTTP/1.1\r\nHost: x\r\n",  # a further head that does not come to its end
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx",  # answered, its body never comes
    ],
)
def test_what_only_waits_is_ended(hasty: int, sent: bytes) -> None:
    with opened(hasty) as connection:
        assert ended(connection, sent)


def trickling(connection: socket.socket, *pieces: bytes) -> Callable[[], bool]:
    """Sends the next of the pieces, the last one ever after; whether it was ended in the midst."""
    left = list(pieces)

    def trickled() -> bool:
        try:
            connection.sendall(left.pop(0) if len(left) > 1 else left[0])
        except ConnectionError:
            return True
        return False

    return trickled


def test_a_head_that_trickles_is_ended_all_the_same(hasty: int) -> None:
    with opened(hasty) as connection:
        until(trickling(connection, b"GET / HTTP/1.1\r\nHost: x\r\n", b"X-More: y\r\n"), "it is ended")


def test_a_body_that_trickles_behind_its_answer_is_ended_all_the_same(port: int) -> None:
    """Each byte of it would put off the end of an idle connection."""
    with opened(port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx")
        assert connection.recv(20).startswith(b"HTTP/1.1 200")
        until(trickling(connection, b"x"), "it is ended")


def test_who_takes_nothing_of_an_answer_is_ended(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "TAKEN_WITHIN_S", SOON_S)
    with opened(port) as connection:
        connection.sendall(b"GET /large/ HTTP/1.1\r\nHost: x\r\n\r\n")
        got = len(connection.recv(1))
        until(lambda: not BoundedProtocol._open, "the server let go of it")
        try:
            while part := connection.recv(2**20):
                got += len(part)
        except ConnectionError:
            pass
        assert got < LARGE


def test_who_takes_it_piece_by_piece_gets_all(port: int) -> None:
    with opened(port) as connection:
        connection.sendall(b"GET /large/ HTTP/1.1\r\nHost: x\r\n\r\n")
        got = 0
        while got < LARGE:
            part = connection.recv(2**16)
            assert part, f"ended after {got} bytes"
            got += len(part)


def test_one_address_has_so_many_and_others_still_come_in(port: int) -> None:
    with ExitStack() as closing:
        for _ in range(3):
            closing.enter_context(opened(port, "127.0.0.2"))
        until(lambda: BoundedProtocol._open["127.0.0.2"] == 3)
        assert answers(closing.enter_context(opened(port, "127.0.0.2"))) is False
        assert answers(closing.enter_context(opened(port, "127.0.0.3"))) is True
        for _ in range(4):  # a proxy's are many people's
            assert answers(closing.enter_context(opened(port, "127.0.0.9"))) is True
        assert answers(closing.enter_context(opened(port, "127.0.0.4"))) is False, "and so many in all"
    until(lambda: not BoundedProtocol._open, "none is counted when all have gone")


class _Wire(asyncio.Transport):
    """A connection from an address that this machine has not."""

    def __init__(self, source: str) -> None:
        super().__init__({"peername": (source, 1), "sockname": ("::1", 80)})
        self.is_open = True

    def abort(self) -> None:
        self.is_open = False

    close = abort

    def is_closing(self) -> bool:
        return not self.is_open


async def _let_in(sources: Sequence[str]) -> list[bool]:
    config = uvicorn.Config(_app, http=BoundedProtocol, lifespan="off")
    config.load()
    made = []
    for source in sources:
        wire = _Wire(source)
        protocol = BoundedProtocol(config, ServerState(), {}, asyncio.get_running_loop())
        protocol.connection_made(wire)
        made.append((protocol, wire))
    let_in = [wire.is_open for _, wire in made]
    for protocol, _ in made:
        protocol.connection_lost(None)
    return let_in


def test_of_ipv6_a_whole_network_has_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has one address of a /64 has all of them."""
    bounds = {"most": 8, "most_each": 3, "exempt": [ip_network("2001:db8:9::/64")], "_open": Counter()}
    for name, value in bounds.items():
        monkeypatch.setattr(BoundedProtocol, name, value)
    one = [f"2001:db8:0:1::{number}" for number in range(4)]
    proxys = [f"2001:db8:9::{number}" for number in range(4)]
    assert asyncio.run(_let_in([*one, "2001:db8:0:2::1"])) == [True, True, True, False, True]
    assert asyncio.run(_let_in(proxys)) == [True] * 4, "a proxy's are many people's"
    assert not BoundedProtocol._open, "none is counted when all have gone"


def answers(connection: socket.socket) -> bool:
    try:
        connection.sendall(GET)
        return connection.recv(20).startswith(b"HTTP/1.1 200")
    except ConnectionError:
        return False


def test_the_web_process_bounds_its_connections_and_pools_those_to_the_database(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLIGHTDECK_CONNECTIONS", "77")
    monkeypatch.setenv("FLIGHTDECK_CONNECTIONS_EACH", "7")
    monkeypatch.setenv("FLIGHTDECK_PROXIES", "203.0.113.0/24")
    command = [sys.executable, "-c", _SERVED]
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert told.stdout.split() == ["True", "BoundedProtocol", "77", "7", "127.0.0.1/32,203.0.113.0/24", "5"]


_SERVED = """
import uvicorn
from config import web
from django.conf import settings
def run(*_, http, timeout_keep_alive, **__):
    print(bool(settings.DATABASES["default"]["OPTIONS"].get("pool")))
    print(http.__name__, http.most, http.most_each, ",".join(map(str, http.exempt)), timeout_keep_alive)
uvicorn.run = run
web.serve("config.asgi:application", host="127.0.0.1", port=0)
"""


@pytest.mark.parametrize(("said", "seconds"), [("", "10"), ("connect_timeout=3", "3")])
def test_a_database_host_that_answers_nothing_is_given_up(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch, said: str, seconds: str
) -> None:
    """The limits are libpq's, as the connection itself says; those of the URL go first."""
    url = committed_db.urls.app
    monkeypatch.setenv("DATABASE_URL", f"{url}{'&' if '?' in url else '?'}{said}" if said else url)
    command = [sys.executable, "-c", _LIMITS]
    told = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert told.stdout.split() == [seconds, "10", "5", "3", "30000"]


_LIMITS = """
import django
django.setup()
from django.db import connection
connection.ensure_connection()
said = connection.connection.info.get_parameters()
print(said["connect_timeout"], said["keepalives_idle"], said["keepalives_interval"], said["keepalives_count"])
print(said["tcp_user_timeout"])
"""


def test_strangers_are_counted_before_django_by_who_connects(
    committed_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In what is served; an address that they claim makes nobody else of them."""
    monkeypatch.setenv("FLIGHTDECK_STRANGERS_PAGES", "4")
    told = subprocess.run(
        [sys.executable, "-c", _STRANGER], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert told.stdout.split() == ["200", "200", "429", "429"]


_STRANGER = """
import asyncio
from config.asgi import application
async def ask(number):
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "https", "path": "/admin/login/",
        "raw_path": b"/admin/login/", "query_string": b"", "root_path": "",
        "client": ("192.0.2.7", 4711), "server": ("127.0.0.1", 8000),
        "headers": [(b"host", b"127.0.0.1"), (b"x-forwarded-for", b"198.51.100.%d" % number),
                    (b"x-forwarded-proto", b"https")],
    }
    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}
    async def send(message):
        if message["type"] == "http.response.start":
            print(message["status"])
    await application(scope, receive, send)
async def all_of_them():
    for number in range(4):
        await ask(number)
asyncio.run(all_of_them())
"""
