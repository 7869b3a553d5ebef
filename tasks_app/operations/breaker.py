"""One circuit breaker per seller, its state shared by all processes: pybreaker decides, a row remembers.

After so many failures in a row a seller is left alone; then one call at a time probes whether it is back.
What counts is the network and the server, never what a seller says: an AdCP error is an answer. Source:
document 000 ("Error Recovery").
"""

from __future__ import annotations

import uuid
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from tasks_app.adcp.types import Seen
from tasks_app.database_clock import database_in, database_now
from tasks_app.sellers.models import SellerBreaker
from tasks_app.sellers.timing import timing

_State = SellerBreaker.State
_UNWELL = frozenset({"SERVICE_UNAVAILABLE"})
_REASON_CHARS = 500


def breaker_room(row: SellerBreaker | None, *, now: datetime) -> int | None:
    """How many calls a seller's breaker lets out at `now` (the database's): None for any number, 1 for a
    probe, 0 while left alone. `row` is the seller's, None where it never failed."""
    if row is None or row.state == _State.CLOSED:
        return None
    return 1 if row.probe_at is None or row.probe_at <= now else 0


def breaker_probe(row: SellerBreaker) -> bool:
    """Mark that a probe is out; another may follow once a call's lease is over if nobody hears of it. Called
    by who holds the seller's lock; answers whether it is the one: somebody may have marked theirs, or had an
    answer, since the row was read."""
    idle = Q(probe_at=None) | Q(probe_at__lte=database_now())
    probed = SellerBreaker.objects.filter(idle, pk=row.pk).exclude(state=_State.CLOSED)
    marked = probed.update(state=_State.HALF_OPEN, probe_at=database_in(settings.OPERATION_LEASE_S))
    return bool(marked)


def breaker_unprobe(row: SellerBreaker) -> None:
    """No probe is out after all: nothing of what it was marked for leaves. `row`: as it was before, in the
    transaction that marked it."""
    SellerBreaker.objects.filter(pk=row.pk).update(state=row.state, probe_at=row.probe_at)


def breaker_is_clean(row: SellerBreaker | None) -> bool:
    """Whether a further success would change nothing."""
    return row is None or (row.state == _State.CLOSED and row.failures == 0)


@transaction.atomic
def breaker_record(*, seller_id: uuid.UUID, seen: Seen) -> None:
    """Count what came of one call to a seller, and tell Ad Ops when that changes whether it is called."""
    # Imported late: few processes see a call fail.
    from tasks_app.operations.breaking import breaker_count

    failed = is_failure(seen)
    if failed:
        SellerBreaker.objects.bulk_create([SellerBreaker(seller_id=seller_id)], ignore_conflicts=True)
    locked = SellerBreaker.objects.select_related("seller").select_for_update(of=("self",))
    row = locked.filter(pk=seller_id).first()
    if row is None or row.state == _State.OPEN:
        return  # one that was out before it opened
    if failed:
        row.reason = _words(seen)[:_REASON_CHARS]
    breaker_count(row, failed=failed)
    reset = timing(row.seller, "breaker_reset_s") * settings.POLL_SCALE
    row.probe_at = database_in(reset) if row.state != _State.CLOSED else None
    row.save()


def is_failure(seen: Seen) -> bool:
    """Whether a call shows a seller that is not well: no connection, no answer, no AdCP, or its own word."""
    if seen.kind != "answer":
        return seen.error is None or seen.error.code != "RATE_LIMITED"
    return seen.error is not None and seen.error.code in _UNWELL


def _words(seen: Seen) -> str:
    return (seen.error.message or seen.error.code) if seen.error else seen.message or seen.kind
