"""When a media buy is read from its seller again: soon after booking, at the ends of its flight, else hourly.

Each number is a setting; settings.POLL_SCALE shortens all of them, as it does polling.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.conf import settings

from orders.models import Deal, DealMirror
from tasks_app import clock

_AFTER_AN_EDGE = timedelta(minutes=1)
_MOST_DOUBLINGS = 4


def mirror_begin(deal: Deal, *, stated_at: datetime | None, as_stated: Mapping[str, str]) -> None:
    """Follow a media buy that was just confirmed, or found: its first reading is due next_proof_reading.

    `stated_at`: the seller's own time of what it confirmed; `as_stated`: what nobody can read in it.
    Called in a transaction that holds the deal's lock.
    """
    now = clock.now()
    DealMirror.objects.update_or_create(
        deal=deal,
        defaults={
            "due_at": now + _scaled(settings.MIRROR_FIRST_S),
            "lease_until": None,
            "failures": 0,
            "unread": "",
            "asked_at": now,
            "stated_at": stated_at,
            "as_stated": dict(as_stated),
        },
    )


def next_reading(deal: Deal, *, moved: bool, now: datetime) -> datetime:
    """When a live media buy is read again; sooner where something `moved`, and at the ends of its flight."""
    due = now + _scaled(settings.MIRROR_MOVED_S if moved else settings.MIRROR_EVERY_S)
    edges = [at + _AFTER_AN_EDGE for at in (deal.start_at, deal.end_at) if at + _AFTER_AN_EDGE > now]
    return min([due, *edges])


def next_proof_reading(now: datetime) -> datetime:
    """When a media buy is read again that is to show a change."""
    return now + _scaled(settings.MIRROR_FIRST_S)


def next_attempt(failures: int, *, now: datetime) -> datetime:
    """When a reading that failed so many times in a row is tried again: doubling, up to the usual time."""
    first = _scaled(settings.MIRROR_FIRST_S) * 2 ** min(failures, _MOST_DOUBLINGS)
    return now + min(first, _scaled(settings.MIRROR_EVERY_S))


def _scaled(seconds: float) -> timedelta:
    return timedelta(seconds=seconds * settings.POLL_SCALE)
