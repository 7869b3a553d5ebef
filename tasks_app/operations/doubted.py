"""A purchase that came to nothing here, of which a webhook names a media buy all the same.

Its status is none of a task's, so that it contradicts nothing yet: the seller is asked how the task ended,
and what it says then does, or is what is known. One that has no tool to tell of a task is searched for the
task, or the media buy, itself. What tells no end is asked again, seldom and not for ever.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet

from tasks_app import clock
from tasks_app.adcp.meaning import PURCHASE
from tasks_app.adcp.types import Seen
from tasks_app.adcp.values import identity_of
from tasks_app.operations import policy
from tasks_app.operations.models import LOOKS, Channel, Observation, Operation
from tasks_app.operations.models import OperationStatus as S

DOUBTED = "names a media buy of a purchase that came to nothing: the seller is asked"
_NOTHING = (S.FAILED, S.CANCELED, S.REJECTED)


def is_doubt(operation: Operation, seen: Seen, channel: str) -> bool:
    """Whether `seen` names what a purchase bought that ended without having bought anything."""
    names_buy = identity_of((seen.payload or {}).get("media_buy_id")) is not None
    return (
        channel == Channel.WEBHOOK and seen.status == "unknown" and names_buy and _bought_nothing(operation)
    )


def look_soon(operation: Operation) -> dict[str, Any]:
    """After the shortest wait; the look that is due already stays, however many webhooks come."""
    again, due = clock.now() + policy.floor(operation.seller), operation.next_poll_at
    return {"next_poll_at": min(again, due) if due else again}


def look_on(operation: Operation, seen: Seen, channel: str) -> dict[str, Any] | None:
    """The next look at a doubted end after one that contradicted nothing: none where the seller was asked
    since the doubt and told an end, and none any more where the doubt is old."""
    waits = operation.publish_at is not None and clock.now() < operation.publish_at  # partial.py looks
    if channel not in LOOKS or waits or operation.next_poll_at is None or not _bought_nothing(operation):
        return None
    doubts = _doubts(operation)
    if seen.is_terminal:
        newer = seen.asked_at is not None and doubts.filter(at__gt=seen.asked_at).exists()
        return {"next_poll_at": clock.now() + policy.floor(operation.seller)} if newer else None
    if not doubts.exists():
        return None
    now = clock.now()
    return {"next_poll_at": policy.next_poll(operation, status=S.TIMED_OUT, now=now, retry_after_s=None)}


def doubted_among(ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Which of these operations came to nothing, of which a webhook has named a media buy lately."""
    if not ids:
        return set()
    named = _told().filter(operation=OuterRef("pk"))
    return set(
        Operation.objects.filter(Exists(named), pk__in=ids, status__in=_NOTHING).values_list("pk", flat=True)
    )


def _bought_nothing(operation: Operation) -> bool:
    return operation.status in _NOTHING and operation.type_asked in ("", PURCHASE)


def _doubts(operation: Operation) -> QuerySet[Observation]:
    return _told().filter(operation=operation)


def _told() -> QuerySet[Observation]:
    """The webhooks that are doubts, while the seller is asked about them."""
    since = clock.now() - settings.LOOK_AFTER_GIVING_UP
    return Observation.objects.filter(channel=Channel.WEBHOOK, note__startswith=DOUBTED, at__gt=since)
