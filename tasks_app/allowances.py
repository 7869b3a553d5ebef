"""How much strangers may have, counted in a process's memory before anything is read or written for them."""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

_REMEMBERED = 10_000
_REST = "the rest"  # whoever comes while so many are remembered


@dataclass(frozen=True, kw_only=True)
class Rate:
    """`per_s` come back each second, up to `most` that are saved."""

    per_s: float
    most: float


@dataclass
class _Bucket:
    left: float
    calm: float  # the same, had every wish been granted
    at: float


class Allowance:
    """So much for each sender, and for all of them together.

    Of what all share, half is kept for senders that were quiet, who would have half of their own left had
    all that they asked for been granted: who comes rarely is let in while many others ask without end.
    """

    def __init__(self, *, each: Rate, in_all: Rate, time: Callable[[], float] = time.monotonic) -> None:
        self._each, self._in_all, self._time = each, in_all, time
        self._lock = threading.Lock()
        self._shared = _Bucket(in_all.most, in_all.most, time())
        self._own: dict[str, _Bucket] = {}

    def take(self, sender: str) -> int | None:
        """Take one; None: it is had, else the seconds after which to come again."""
        with self._lock:
            now = self._time()
            own = self._bucket(sender, now)
            _fill(own, self._each, now)
            _fill(self._shared, self._in_all, now)
            quiet = own.calm >= self._each.most / 2
            own.calm = max(0.0, own.calm - 1)
            reserve = 0.0 if quiet else self._in_all.most / 2
            lacks_s = max(
                (1 - own.left) / self._each.per_s, (1 + reserve - self._shared.left) / self._in_all.per_s
            )
            if lacks_s > 0:
                return math.ceil(lacks_s)
            own.left -= 1
            self._shared.left -= 1
            return None

    def _bucket(self, sender: str, now: float) -> _Bucket:
        if sender not in self._own and len(self._own) >= _REMEMBERED:
            self._forget(now)
            if len(self._own) >= _REMEMBERED:
                sender = _REST
        return self._own.setdefault(sender, _Bucket(self._each.most, self._each.most, now))

    def _forget(self, now: float) -> None:
        """Drop those that have saved up everything again: they are as if they had never come."""
        filled_s = self._each.most / self._each.per_s
        self._own = {name: kept for name, kept in self._own.items() if now - kept.at < filled_s}


def _fill(bucket: _Bucket, rate: Rate, now: float) -> None:
    more = rate.per_s * (now - bucket.at)
    bucket.left, bucket.calm = min(rate.most, bucket.left + more), min(rate.most, bucket.calm + more)
    bucket.at = now


def per_minute(count: int, *, senders: int) -> Allowance:
    """`count` a minute for each sender, half a minute's saved up; for all of them as for so many `senders`
    without end, and saved up so much that one alone may have all of its own."""
    saved = max(1.0, count / 2)
    return Allowance(
        each=Rate(per_s=count / 60, most=saved),
        in_all=Rate(per_s=senders * count / 60, most=2 * saved + 1),
    )


def network_of(source: str) -> str:
    """Whose an address is: of IPv6 the /64, for who has one address has all of them."""
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return "unknown"
    if address.version == 6 and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
