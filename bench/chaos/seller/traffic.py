"""How many calls a seller has in flight at once: each beginning and end of one stands in its books, with how
many of them look at a task, and how many of these one process of the buyer has at most."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import psutil

from bench.chaos.plan import SHARE
from bench.chaos.seller.books import Books


class Traffic:
    """The calls that a seller is at, each by the connection it came on. A buyer that has hung up waits for
    nothing any more: its call is out no longer, however long the seller goes on with it."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._lock = threading.Lock()
        self._out: dict[socket.socket, bool] = {}

    @contextmanager
    def call(self, connection: socket.socket, *, looks: bool) -> Iterator[None]:
        """A call, until the seller begins to answer it: then the buyer may make the next one. `looks`: at how
        a task stands."""
        with self._lock:
            self._out = {one: looking for one, looking in self._out.items() if not has_hung_up(one)}
            self._out[connection] = looks
            self._note(begun=True)
        try:
            yield
        finally:
            with self._lock:
                self._out.pop(connection, None)
                self._note(begun=False)

    def _note(self, *, begun: bool) -> None:
        looks = [connection for connection, looking in self._out.items() if looking]
        of_one = len(looks) if len(looks) <= SHARE else begun and max(_buyers(looks).values(), default=0)
        now = (time.time(), begun, len(self._out), len(looks), of_one)
        with self._books.changing() as db:
            db.execute(
                "insert into traffic (at, begun, out, looking, of_one) values (?, ?, ?, ?, ?)",
                now,
            )


def _buyers(connections: Iterable[socket.socket]) -> Counter[int]:
    """How many of them each process of the buyer has. While one sweep takes over from another both are at
    work, and each has a share of its own."""
    ends = {(one.getpeername()[1], one.getsockname()[1]) for one in connections}
    return Counter(
        one.pid
        for one in psutil.net_connections("tcp")
        if one.pid and one.laddr and one.raddr and (one.laddr.port, one.raddr.port) in ends
    )


def has_hung_up(connection: socket.socket) -> bool:
    """Whether whoever called has closed the connection."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
