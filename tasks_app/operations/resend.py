"""Whether a call may be made again: a purchase that may have been made is repeated only while the seller
still recognises its key. Source: AdCP L1/security "Idempotency"; document 000 "Idempotency".
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Exists, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from tasks_app import clock
from tasks_app.adcp.errors import IN_FLIGHT
from tasks_app.commands.models import Command
from tasks_app.operations.continuation import Continuation
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


def no_effect() -> Q:
    """Operations of which `had_no_effect` is true, in the database."""
    return Q(status=OperationStatus.REQUESTED) | (unsent() & cannot_have_acted())


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
    return operation.pk not in unsafe_to_resend([operation])


def unsafe_to_resend(operations: Collection[Operation]) -> set[uuid.UUID]:
    """Those of which `resend_is_safe` is false, each with its seller; three queries at most."""
    unknown = {one.pk for one in operations if one.task_type == UNKNOWN_TYPE}  # nothing of ours to send
    left = [one for one in operations if one.is_mutation and one.sent_at is not None]
    if not left:
        return unknown
    unwanted = _refused(left) | _answered_otherwise(left)
    nameless = [one.pk for one in left if not one.task_id]
    acted_never = Operation.objects.filter(cannot_have_acted(), pk__in=nameless)
    harmless = set(acted_never.values_list("pk", flat=True)) if nameless else set()
    known = {one.pk for one in left if one.pk in harmless or _is_recognised(one)}
    return unknown | {one.pk for one in left if one.pk in unwanted or one.pk not in known}


def _is_recognised(operation: Operation) -> bool:
    """Whether its seller recognises its key still, so that the same is done once."""
    window = timedelta(seconds=(operation.seller.idempotency_ttl_s or 0) - settings.WORKING_TIMEOUT_S)
    return operation.sent_at is not None and clock.now() < operation.sent_at + window


def _refused(operations: Collection[Operation]) -> set[uuid.UUID]:
    """Those that somebody refused to have sent again."""
    keys = Command.objects.filter(key__in=[one.purpose for one in operations], refused_at__isnull=False)
    refused = set(keys.values_list("key", flat=True))
    return {one.pk for one in operations if one.purpose in refused}


def _answered_otherwise(operations: Collection[Operation]) -> set[uuid.UUID]:
    """Those of which an answer has left that asks for something else: the first request is not wanted any
    more."""
    left = Continuation.objects.filter(
        operation__in=[one.pk for one in operations], dispatched_at__isnull=False
    )
    return set(left.exclude(answer__changes={}).values_list("operation_id", flat=True))
