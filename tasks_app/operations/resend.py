"""Whether a call may be made again: a purchase that may have been made is repeated only while the seller
still recognises its key. Source: AdCP L1/security "Idempotency"; document 000 "Idempotency".
"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db.models import Q

from tasks_app import clock
from tasks_app.operations.models import UNKNOWN_TYPE, Channel, Operation

NOT_SENT, GARBLED = "not_sent", "garbled"  # Observation.kind


# What a seller says of a request that it has taken.
_TAKEN = ("submitted", "working", "input-required", "completed")


def may_have_acted(operation: Operation, *, observing: bool = False) -> bool:
    """Whether an earlier attempt had, or may have had, an effect at the seller.

    `observing`: the latest attempt is just being observed and does not count. An attempt that nobody
    observed (its worker was killed) may have had one too.
    """
    replies = operation.observations.filter(channel=Channel.REPLY)
    if operation.attempts > replies.count() + observing:
        return True
    unclear = ~Q(kind=NOT_SENT) & (Q(status="unknown") | Q(kind=GARBLED))
    return replies.filter(unclear | Q(status__in=_TAKEN)).exists()


def resend_is_safe(operation: Operation) -> bool:
    """Whether sending the same bytes and key (again) cannot buy twice: always for reads and for what
    certainly had no effect; else within the replay window the seller declares, less one call."""
    if operation.task_type == UNKNOWN_TYPE:
        return False  # there is nothing of ours to send
    if not operation.is_mutation or operation.sent_at is None:
        return True
    if not operation.task_id and not may_have_acted(operation):
        return True
    window = timedelta(seconds=(operation.seller.idempotency_ttl_s or 0) - settings.WORKING_TIMEOUT_S)
    return clock.now() < operation.sent_at + window
