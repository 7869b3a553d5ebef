"""Which of two things seen of an operation is newer, where neither is its end (the first end wins).

The seller's own times decide where both tell one. Else the first answer to a call is older than whatever came
besides since it left, and a look older than what was applied after it was asked. Nobody knows when a webhook
was made that tells no time: it takes back no question of the seller's, which is asked. Source: AdCP
L3/async-identity-and-convergence.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime

from tasks_app import clock
from tasks_app.adcp.types import TERMINAL_STATUSES, Seen
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.models import LOOKS, PENDING, Channel, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.resend import may_have_acted

OLDER = "older than what is known"
TOLD_ANEW = "the answer to another call of the same read"
_KNOWN = (Observation.Outcome.APPLIED, Observation.Outcome.DUPLICATE)
Known = Mapping[uuid.UUID, Observation]  # by operation
_QUESTIONS, _GOES_ON = (S.INPUT_REQUIRED, S.AUTH_REQUIRED), ("submitted", "working")


def is_older(operation: Operation, seen: Seen) -> bool:
    """By the seller's own times."""
    return bool(seen.at and operation.seller_news_at and seen.at < operation.seller_news_at)


def result_at(operation: Operation) -> datetime:
    """The moment that the result of an operation is of: the seller's own where what brought it tells one,
    else that of its arrival; never before it was asked for, nor after it came."""
    applied = operation.observations.filter(outcome=Observation.Outcome.APPLIED).order_by("-id")
    told = applied.values_list("at", "seller_at").first()
    if told is None:
        return operation.settled_at or clock.now()
    came, sellers = told
    return max(operation.sent_at or operation.created_at, min(sellers or came, came))


def known_since(sights: Mapping[uuid.UUID, tuple[Seen, str]]) -> Known:
    """Of locked operations what was applied last since the looks at them were asked, by one query for all.
    `sights`: by id what was seen, and the channel."""
    asked = [seen.asked_at for seen, channel in sights.values() if channel in LOOKS and seen.asked_at]
    if not asked:
        return {}
    since = Observation.objects.filter(operation__in=sights, outcome__in=_KNOWN, at__gt=min(asked))
    latest = since.order_by("operation_id", "-at", "-id").distinct("operation_id")
    return {one.operation_id: one for one in latest.only("operation_id", "at", "seller_at")}


def is_overtaken(operation: Operation, seen: Seen, channel: str, known: Known) -> bool:
    """Whether newer news was applied while `seen`, which is no end, was on its way. `known`: of
    `known_since`."""
    if operation.status not in PENDING or seen.status in TERMINAL_STATUSES:
        return False
    if channel == Channel.REPLY:
        besides = operation.observations.filter(outcome__in=_KNOWN).exclude(channel=Channel.REPLY)
        if seen.asked_at is not None:
            besides = besides.filter(at__gte=seen.asked_at)
        return besides.exists() and _is_first_call(operation)
    if channel == Channel.WEBHOOK:
        return _may_take_back(operation, seen)
    asked_at = seen.asked_at
    if channel not in LOOKS or asked_at is None:
        return False
    latest = known.get(operation.pk)
    return latest is not None and latest.at > asked_at and (seen.at is None or latest.seller_at is None)


def _may_take_back(operation: Operation, seen: Seen) -> bool:
    """Whether a webhook that says that work goes on may have been made before a task's question was asked,
    and not since we answered it."""
    untimed = seen.at is None or operation.seller_news_at is None
    if not untimed or seen.status not in _GOES_ON or not operation.task_id:
        return False
    return _is_asked(operation) and not _answers_a_question(operation)


def _is_asked(operation: Operation) -> bool:
    """Whether its seller's question is open; also while people wait on for it, since it was overdue."""
    if operation.status in _QUESTIONS or operation.overdue_at is None:
        return operation.status in _QUESTIONS
    pauses = Continuation.objects.filter(operation=operation, dispatched_at=None)
    return pauses.filter(consumed_at=None, stale_at=None).exists()


def is_told_anew(operation: Operation, channel: str) -> bool:
    """Whether it may answer another call of the same read than the one that was believed: each tells how
    things stand at its own moment, maybe by a task of its own, and none contradicts the others. What is
    answered after our answer to the seller's question is about that one task."""
    if operation.is_mutation or channel != Channel.REPLY or operation.attempts < 2:
        return False
    return not Continuation.objects.filter(operation=operation, dispatched_at__isnull=False).exists()


def _is_first_call(operation: Operation) -> bool:
    """Whether the call that is answered now is the first that the seller can have had: of the request, or of
    our answer to its question. Of a call made again nobody knows which of them is answered."""
    return _answers_a_question(operation) or not may_have_acted(operation, observing=True)


def _answers_a_question(operation: Operation) -> bool:
    on_its_way = Continuation.objects.filter(operation=operation, dispatched_at__isnull=False)
    return on_its_way.filter(consumed_at=None, stale_at=None).exists()
