"""How much of a seller's deliveries is kept: allowances in bytes.

Whatever a seller signs counts against its bytes of a day, also what is about tasks that we know, repeats and
what is refused afterwards: each leaves rows. Beyond them it is to come again; the end of what was bought is
seen by polling meanwhile.

Of these few may be kept without effect. A delivery for a task that nobody knows yet is signed, so it is kept
whole until a reply names its task, or for its retry window; the first that comes under a bound key with
another body is kept for people. What is kept so is measured as it lies there, at least 1 kB each; what this
process is just keeping counts too, so that only what others keep in the same moment passes the bound.

What contradicts an operation is kept for good, so of each operation only so much: what its observations have,
measured alike. Beyond that a delivery is judged and counted as ever, and its body is not kept.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.core.cache import cache
from django.db import connection

from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.alarms import day_full_alarm, waiting_full_alarm
from tasks_app.webhooks.models import WebhookDelivery
from tasks_app.webhooks.rates import bytes_admit

FULL, DAY_FULL = "webhook_waiting_full", "webhook_day_full"
AGAIN_S = 60
_FULL_FOR_S = 5  # not measured anew, or told of, for each delivery of a flood
_LEAST = 1024
_WAITING = """
select count(*), coalesce(sum(greatest(pg_column_size(kept.body), %(least)s)), 0) from (
  select body from tasks_app_webhookdelivery
   where seller_id = %(seller)s and verdict = 'early' and body is not null
  union all
  select body from tasks_app_webhookdelivery
   where seller_id = %(seller)s and verdict = 'key_conflict' and body is not null) kept
"""
_CONTRADICTING = """
select coalesce(sum(greatest(pg_column_size(body), %(least)s)), 0) from tasks_app_webhookdelivery
 where operation_id = %(operation)s and verdict = 'conflict' and body is not null
"""
_keeping: Counter[uuid.UUID] = Counter()
_lock = threading.Lock()


def room_today(seller: Seller, *, size: int) -> int | None:
    """Count a signed delivery of `size` bytes, whatever it is about; None: let it in, else the seconds after
    which the seller may send again. Ad Ops are told once a day."""
    wait = bytes_admit(seller, size)
    name = f"{DAY_FULL}:{seller.pk}"
    if wait is not None and not cache.get(name):
        day_full_alarm(seller)
        cache.set(name, True, _FULL_FOR_S)
    return wait


@contextmanager
def room_for(delivery: WebhookDelivery, *, seller: Seller, size: int) -> Iterator[bool]:
    """Whether a delivery of `size` bytes may be kept for a task that is not known; the room is held for the
    block. What repeats a key that is bound needs none. Ad Ops are told once a day."""
    with _held(seller, size):
        yield _has_room(seller) or _is_bound(delivery)


@contextmanager
def room_beside(second: WebhookDelivery) -> Iterator[bool]:
    """Whether the body that came under a bound key may be kept too; the room is held for the block."""
    seller = second.seller
    if seller is None:
        yield False
        return
    with _held(seller, len(json.dumps(second.body))):
        yield _has_room(seller)


def has_room_of_its_own(operation: Operation, *, size: int) -> bool:
    """Whether a delivery of `size` bytes may be kept, should it contradict the operation."""
    with connection.cursor() as cursor:
        cursor.execute(_CONTRADICTING, {"least": _LEAST, "operation": operation.pk})
        (stored,) = cursor.fetchone()
    return bool(stored + max(size, _LEAST) <= settings.OBSERVED_BYTES)


@contextmanager
def _held(seller: Seller, size: int) -> Iterator[None]:
    size = max(size, _LEAST)
    with _lock:
        _keeping[seller.pk] += size
    try:
        yield
    finally:
        with _lock:
            _keeping[seller.pk] -= size
            if not _keeping[seller.pk]:
                del _keeping[seller.pk]


def _has_room(seller: Seller) -> bool:
    if cache.get(f"{FULL}:{seller.pk}"):
        return False
    with connection.cursor() as cursor:
        cursor.execute(_WAITING, {"least": _LEAST, "seller": seller.pk})
        count, stored = cursor.fetchone()
    if stored + _keeping[seller.pk] <= settings.WEBHOOK_WAITING_BYTES:
        return True
    cache.set(f"{FULL}:{seller.pk}", True, _FULL_FOR_S)
    waiting_full_alarm(seller, count=count, size=int(stored))
    return False


def _is_bound(delivery: WebhookDelivery) -> bool:
    """Whether it repeats a key, and is answered as that."""
    bound = WebhookDelivery.objects.filter(
        seller=delivery.seller_id, key=delivery.key, bound_until__isnull=False
    )
    return bool(delivery.key) and bound.exists()
