"""How much one sender may send, counted by all processes together in PostgreSQL.

A process takes shares of the sender's allowance, a fiftieth at a time, and spends them in memory: the
database is asked once in so many deliveries, and never is more let in than the allowance. What a process took
and did not spend is lost to the others until the next stretch of time.
"""

from __future__ import annotations

import ipaddress
import math
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import connection

from tasks_app import clock
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.models import SenderTally

SELLER_WINDOW = timedelta(seconds=10)
SOURCE_WINDOW = timedelta(seconds=60)
_SHARES = 50
_REMEMBERED = 10_000  # senders in one process's memory
_TAKE = (
    "insert into tasks_app_sendertally as t (sender, starts, used) values (%s, %s, %s)"
    " on conflict (sender, starts) do update set used = t.used + excluded.used returning used"
)


@dataclass
class _Share:
    starts: datetime
    left: int


_shares: dict[str, _Share] = {}
_lock = threading.Lock()


def seller_admit(seller: Seller) -> int | None:
    """Count an authenticated delivery; None: let it in, else the seconds after which the seller may send
    again."""
    return _admit(f"seller:{seller.pk}", settings.WEBHOOK_SELLER_CAP, SELLER_WINDOW)


def source_admit(source: str) -> int | None:
    """Count a refused delivery of an address (of an IPv6 network: who has one address has all of them)."""
    return _admit(f"source:{_network(source)}", settings.WEBHOOK_SOURCE_CAP, SOURCE_WINDOW)


def tallies_forget() -> int:
    """Drop what is counted no longer; the counts of refused deliveries stay as long as deliveries do."""
    now = clock.now()
    shares = SenderTally.objects.filter(starts__lt=now - timedelta(hours=1)).exclude(
        sender__startswith="refused:"
    )
    refused = SenderTally.objects.filter(starts__lt=now - settings.WEBHOOK_KEEP)
    return shares.delete()[0] + refused.delete()[0]


def tally_add(*, sender: str, starts: datetime, count: int) -> int:
    """Add to a count of all processes; answers what it is now."""
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, [sender, starts, count])
        return int(cursor.fetchone()[0])


def window_start(moment: datetime, window: timedelta) -> datetime:
    """The beginning of the stretch of time that `moment` falls in; the same for all processes."""
    return datetime.fromtimestamp(moment.timestamp() // window.total_seconds() * window.total_seconds(), UTC)


def _admit(sender: str, cap: int, window: timedelta) -> int | None:
    now = clock.now()
    starts = window_start(now, window)
    with _lock:
        if _spend(sender, starts):
            return None
        share = _shares.get(sender)
        exhausted = share is not None and share.starts == starts and share.left < 0
    if exhausted or not _take(sender, starts, cap):
        return max(1, math.ceil((starts + window - now).total_seconds()))
    return None


def _spend(sender: str, starts: datetime) -> bool:
    share = _shares.get(sender)
    if share is None or share.starts != starts or share.left <= 0:
        return False
    share.left -= 1
    return True


def _take(sender: str, starts: datetime, cap: int) -> bool:
    """Take a share and spend one of it; False when nothing is left."""
    wanted = max(1, cap // _SHARES)
    before = tally_add(sender=sender, starts=starts, count=wanted) - wanted
    granted = min(wanted, cap - before)
    with _lock:
        if len(_shares) >= _REMEMBERED:
            _shares.clear()
        share = _shares.get(sender)
        kept = share.left if share is not None and share.starts == starts else 0
        left = max(kept, 0) + max(granted, 0) - 1
        _shares[sender] = _Share(starts, left)
    return left >= 0


def _network(source: str) -> str:
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return "unknown"
    if address.version == 6 and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
