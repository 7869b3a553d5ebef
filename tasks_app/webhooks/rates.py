"""How much one sender may send. A seller's deliveries are counted by all processes together in PostgreSQL,
refused ones of an address in each process's memory: nothing is written for a stranger.

Of a seller's allowance a process takes shares, a small part at a time, and spends them in memory: the
database is asked once in so many deliveries, and never is more let in than the allowance. What a process took
and did not spend is lost to the others until the next stretch of time.

An address that was refused of late, or is new while many are, is judged so often and no more, unless a
delivery of it was some seller’s within the hour: what is beyond that is turned away unread.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import connection
from django.db.models import Q, Sum

from tasks_app import clock
from tasks_app.allowances import Allowance, Rate, network_of
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.models import SenderTally

SELLER_WINDOW = timedelta(seconds=10)
SELLER_DAY = timedelta(days=1)
SOURCE_WINDOW = timedelta(seconds=60)
_SHARES = 50  # of what is counted for seconds
_SHARES_OF_A_DAY = 1000  # a day sees many processes come and go
_KB = 1024
_BYTES = "bytes:"
_REMEMBERED = 10_000  # senders in one process's memory
_TAKE = (
    "insert into tasks_app_sendertally as t (sender, starts, used) values (%s, %s, %s)"
    " on conflict (sender, starts) do update set used = t.used + excluded.used returning used"
)


@dataclass
class _Share:
    starts: datetime
    left: int


@dataclass
class _Stretch:
    """What was refused in one stretch of time: of each address, and of all that nothing proves."""

    starts: datetime
    of: Counter[str] = field(default_factory=Counter)
    in_all: int = 0


_shares: dict[str, _Share] = {}
_refused = _Stretch(datetime.min.replace(tzinfo=UTC))  # the present one
_proven: dict[str, float] = {}  # when an address last sent what was its seller’s
_PROVEN_S = 3600.0
_FEW, _MANY = 3, 300  # refused in a stretch: of one address, of all
LOOKS_EACH, LOOKS_IN_ALL = Rate(per_s=2, most=20), Rate(per_s=20, most=80)
JUDGED_EACH, JUDGED_IN_ALL = Rate(per_s=0.5, most=20), Rate(per_s=20, most=80)
_judgements = Allowance(each=JUDGED_EACH, in_all=JUDGED_IN_ALL)
_looks = Allowance(each=LOOKS_EACH, in_all=LOOKS_IN_ALL)
_lock = threading.Lock()


def seller_admit(seller: Seller) -> int | None:
    """Count an authenticated delivery; None: let it in, else the seconds after which the seller may send
    again."""
    return _admit(f"seller:{seller.pk}", settings.WEBHOOK_SELLER_CAP, SELLER_WINDOW, shares=_SHARES)


def bytes_admit(seller: Seller, size: int) -> int | None:
    """Count the bytes of an authenticated delivery, in whole kB, one at least: as much as its rows take.
    None: let it in, else the seconds until the seller's day begins anew."""
    return _admit(
        f"{_BYTES}{seller.pk}",
        settings.WEBHOOK_SELLER_BYTES // _KB,
        SELLER_DAY,
        shares=_SHARES_OF_A_DAY,
        amount=max(1, math.ceil(size / _KB)),
    )


def source_admit(source: str) -> int | None:
    """Count a refused delivery of an address (of an IPv6 network: who has one address has all of them); None,
    or the seconds until its refusals count anew."""
    now = clock.now()
    with _lock:
        stretch = _stretch(now)
        name = network_of(source)
        stretch.in_all += not _is_proven(name)
        if name not in stretch.of and len(stretch.of) >= _REMEMBERED:
            name = ""  # all further ones together
        stretch.of[name] += 1
        if stretch.of[name] <= settings.WEBHOOK_SOURCE_CAP:
            return None
    return max(1, math.ceil((stretch.starts + SOURCE_WINDOW - now).total_seconds()))


def source_proven(source: str) -> None:
    """Remember that a delivery of this address was its seller’s."""
    with _lock:
        if len(_proven) >= _REMEMBERED:
            _proven.clear()
        _proven[network_of(source)] = time.monotonic()


def source_suspected(source: str) -> bool:
    """Whether deliveries of this address were refused of late."""
    with _lock:
        return _stretch(clock.now()).of[network_of(source)] >= _FEW


def judge_admit(source: str) -> int | None:
    """Whether to read and judge a delivery of this address: None, else the seconds to come again after."""
    name = network_of(source)
    with _lock:
        stretch = _stretch(clock.now())
        calm = stretch.of[name] < _FEW and stretch.in_all < _MANY
        if calm or _is_proven(name):
            return None
    return _judgements.take(name)


def look_admit(source: str) -> bool:
    """Whether a delivery that memory refuses is judged again by what is stored: one query, of so many."""
    return _looks.take(network_of(source)) is None


def tallies_forget() -> int:
    """Drop what is counted no longer; the counts of refused deliveries stay as long as deliveries do."""
    now = clock.now()
    days = Q(sender__startswith=_BYTES)
    seconds = ~days & ~Q(sender__startswith="refused:")
    past = Q(starts__lt=now - settings.WEBHOOK_KEEP)
    past |= days & Q(starts__lt=now - 2 * SELLER_DAY)
    past |= seconds & Q(starts__lt=now - timedelta(hours=1))
    return SenderTally.objects.filter(past).delete()[0]


def tally_add(*, sender: str, starts: datetime, count: int) -> int:
    """Add to a count of all processes; answers what it is now."""
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, [sender, starts, count])
        return int(cursor.fetchone()[0])


def refused_count(*, since: datetime, seller_id: uuid.UUID | None = None) -> int:
    """How many deliveries were refused in the hours since then, of one seller or of all and nobody; whether
    kept as rows, looked at more closely, or neither."""
    counted = SenderTally.objects.filter(sender__startswith="refused:", starts__gte=since)
    if seller_id is not None:
        counted = counted.filter(sender=refused_name(seller_id))
    return int(counted.aggregate(Sum("used"))["used__sum"] or 0)


def refused_name(seller_id: uuid.UUID | None) -> str:
    """Under which refused deliveries of a seller, or of nobody, are counted."""
    return f"refused:{seller_id or ''}"


def window_start(moment: datetime, window: timedelta) -> datetime:
    """The beginning of the stretch of time that `moment` falls in; the same for all processes."""
    return datetime.fromtimestamp(moment.timestamp() // window.total_seconds() * window.total_seconds(), UTC)


def _stretch(now: datetime) -> _Stretch:
    """The present one; a new one forgets the last."""
    global _refused
    starts = window_start(now, SOURCE_WINDOW)
    if _refused.starts != starts:
        _refused = _Stretch(starts)
    return _refused


def _is_proven(name: str) -> bool:
    return time.monotonic() - _proven.get(name, -math.inf) < _PROVEN_S


def _admit(sender: str, cap: int, window: timedelta, *, shares: int, amount: int = 1) -> int | None:
    """Spend `amount` of what a sender has in this stretch of time; None, or the seconds to its end."""
    now = clock.now()
    starts = window_start(now, window)
    with _lock:
        if _spend(sender, starts, amount):
            return None
        share = _shares.get(sender)
        exhausted = share is not None and share.starts == starts and share.left < 0
    if exhausted or not _take(sender, starts, cap, amount, shares):
        return max(1, math.ceil((starts + window - now).total_seconds()))
    return None


def _spend(sender: str, starts: datetime, amount: int) -> bool:
    share = _shares.get(sender)
    if share is None or share.starts != starts or share.left < amount:
        return False
    share.left -= amount
    return True


def _take(sender: str, starts: datetime, cap: int, amount: int, shares: int) -> bool:
    """Take a share and spend `amount`; False when not so much is left."""
    wanted = max(amount, cap // shares)
    before = tally_add(sender=sender, starts=starts, count=wanted) - wanted
    granted = min(wanted, cap - before)
    with _lock:
        if len(_shares) >= _REMEMBERED:
            _shares.clear()
        share = _shares.get(sender)
        kept = share.left if share is not None and share.starts == starts else 0
        left = max(kept, 0) + max(granted, 0) - amount
        _shares[sender] = _Share(starts, left)
    return left >= 0
