"""Whether a call may be made again: a purchase that may have been made is repeated only while the seller
still recognises its key. Source: AdCP L1/security "Idempotency"; document 000 "Idempotency".
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Exists, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from tasks_app import clock
from tasks_app.adcp.errors import IN_FLIGHT
from tasks_app.commands.models import Command
from tasks_app.operations.models import UNKNOWN_TYPE, Channel, Observation, Operation, OperationStatus

NOT_SENT, GARBLED = "not_sent", "garbled"  # Observation.kind


_UNSENT = (OperationStatus.REQUESTED, OperationStatus.CALLING_ADCP)
# What a seller says of a request that it has taken.
_TAKEN = ("submitted", "working", "input-required", "completed")
_UNCLEAR = ~Q(kind=NOT_SENT) & (Q(status="unknown") | Q(kind=GARBLED))
_WORKS_ON_IT = Q(error_code=IN_FLIGHT)  # whichever of our requests under that key it was
_MAY_HAVE_ACTED = _UNCLEAR | Q(status__in=_TAKEN) | _WORKS_ON_IT


def refusal_of(operation: Operation) -> str:
    """Why somebody refused to have it sent (again); empty where nobody did."""
    refused = Command.objects.filter(key=operation.purpose, refused_at__isnull=False)
    return refused.values_list("refused_why", flat=True).first() or ""


def may_have_acted(operation: Operation, *, observing: bool = False) -> bool:
    """Whether an earlier attempt had, or may have had, an effect at the seller.

    `observing`: the latest attempt is just being observed and does not count. An attempt that nobody
    observed (its worker was killed) may have had one too.
    """
    replies = operation.observations.filter(channel=Channel.REPLY)
    if operation.attempts > replies.count() + observing:
        return True
    return replies.filter(_MAY_HAVE_ACTED).exists()


def is_unaccounted(operation: Operation, since: datetime) -> bool:
    """Whether nobody knows what came of an attempt after `since`, or of one that is out."""
    replies = operation.observations.filter(channel=Channel.REPLY)
    lost = replies.filter(_UNCLEAR | _WORKS_ON_IT, at__gt=since)
    return operation.attempts > replies.count() or lost.exists()


def cannot_have_acted() -> Q:
    """Operations of which `may_have_acted` is false, in the database."""
    replies = Observation.objects.filter(operation=OuterRef("pk"), channel=Channel.REPLY).order_by()
    counted = replies.values("operation").annotate(n=Count("pk")).values("n")
    return Q(attempts__lte=Coalesce(Subquery(counted), 0)) & ~Q(Exists(replies.filter(_MAY_HAVE_ACTED)))


def had_no_effect(operation: Operation) -> bool:
    """Whether an operation that has not ended certainly had none at the seller so far: it was never sent, or
    each attempt was refused at the door (nobody was reached, other credentials are wanted)."""
    if operation.status == OperationStatus.REQUESTED:
        return True
    return is_unsent(operation) and not may_have_acted(operation)


def unsent() -> Q:
    """What has not left, or has no answer yet: also what was turned away until there are new credentials."""
    return Q(status__in=_UNSENT) | Q(status=OperationStatus.AUTH_REQUIRED, task_id="")


def is_unsent(operation: Operation) -> bool:
    """The same of one that was read."""
    locked_out = operation.status == OperationStatus.AUTH_REQUIRED and not operation.task_id
    return operation.status in _UNSENT or locked_out


def resend_is_safe(operation: Operation) -> bool:
    """Whether sending the same bytes and key (again) cannot buy twice: always for reads and for what
    certainly had no effect; else within the replay window the seller declares, less one call. Never where
    somebody refused to have it sent again, or let something else go in its place."""
    if operation.task_type == UNKNOWN_TYPE:
        return False  # there is nothing of ours to send
    if not operation.is_mutation or operation.sent_at is None:
        return True
    if refusal_of(operation) or _answered_otherwise(operation):
        return False
    if not operation.task_id and not may_have_acted(operation):
        return True
    window = timedelta(seconds=(operation.seller.idempotency_ttl_s or 0) - settings.WORKING_TIMEOUT_S)
    return clock.now() < operation.sent_at + window


def _answered_otherwise(operation: Operation) -> bool:
    """Whether an answer has left that asks for something else: the first request is not wanted any more."""
    left = operation.continuations.filter(dispatched_at__isnull=False)
    return left.exclude(answer__changes={}).exists()
