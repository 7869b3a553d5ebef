"""Ports of this machine for servers that are about to start."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from itertools import count

_PORTS = range(20_000, 32_000)  # below what systems use for outgoing connections, and for "any port"
_APART = 257  # ports between two processes that were started one after the other
_walks: dict[int, Iterator[int]] = {}


def free_port() -> int:
    """A free port that nobody else takes before its server has started, or while that is being restarted: no
    outgoing connection is given it, it is not given twice here, and other processes begin elsewhere."""
    number = os.getpid()  # looked at each time: a fork is another process
    walk = _walks.setdefault(number, count(number * _APART))
    return next(port for port in (_PORTS[step % len(_PORTS)] for step in walk) if bindable(port))


def bindable(port: int) -> bool:
    """Whether the port can be had."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
