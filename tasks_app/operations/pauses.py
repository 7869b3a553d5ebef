"""The pauses of a task, in step with what is seen: a generation each, and what becomes of its answer.

A pause becomes a generation when the reply that paused brings the transport's identity (A2A: Task.id and
contextId). Its answer is dispatched at most once: the mark is durable before the first byte leaves. The reply
consumes it and, where it pauses again, has made the next generation in the same commit. Whatever ends the
operation first makes what was not dispatched stale. Source: AdCP L3/async-identity-and-convergence,
"Resumability and continuation generations".
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Case, F, OuterRef, Q, QuerySet, Subquery, When

from tasks_app import clock
from tasks_app.adcp.errors import IN_FLIGHT
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.subjects import questions_withdraw
from tasks_app.commands.models import Command
from tasks_app.desk.items import raised
from tasks_app.notifications.services import About, notify
from tasks_app.operations import policy
from tasks_app.operations.continuation import NOT_KNOWN, Continuation
from tasks_app.operations.converge import on_observed
from tasks_app.operations.models import LOOKS, PENDING, SETTLED, Channel, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.services import send_with_time
from tasks_app.operations.tokens import for_eyes
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.models import Seller

ANSWER = "answer"  # the kind of approval that releases one
_TTL = timedelta(days=7)  # a paused task is answered within a week, or never
_AT_WORK = (S.SUBMITTED, S.WORKING)
_PAUSES = {"input-required": Continuation.Kind.INPUT, "auth-required": Continuation.Kind.AUTH}


@dataclass(frozen=True, kw_only=True)
class Resume:
    """An answer about to leave: its arguments and the transport's identity, both never shown."""

    arguments: dict[str, Any] = field(repr=False)
    continuation: dict[str, str] = field(repr=False)


def register() -> None:
    """Called when the application starts."""
    on_observed(_observed)


def continuation_current(operation: Operation) -> Continuation | None:
    """The generation that can be answered, or whose answer is on its way; None without a verified one."""
    latest = Continuation.objects.filter(operation=operation).order_by("-generation").first()
    return latest if latest is not None and latest.is_usable else None


def can_continue(operation: Operation) -> bool:
    """Whether its seller's transport has a way to answer what it asks: A2A; plain MCP has none."""
    return operation.seller.protocol == Seller.Protocol.A2A


def continuations_current(operations: Collection[Operation]) -> dict[uuid.UUID, Continuation]:
    """The same of several that wait at their sellers, by operation, without what is encrypted; one query."""
    asked = [operation.pk for operation in operations if operation.status in PENDING]
    latest = Continuation.objects.filter(operation__in=asked).order_by("operation_id", "-generation")
    found = latest.distinct("operation_id").defer("descriptor", "request_text", "answer") if asked else ()
    return {one.operation_id: one for one in found if one.is_usable}


def answer_waits(operation: Operation) -> bool:
    """Whether a released answer is still to be sent."""
    current = continuation_current(operation)
    return current is not None and current.released_at is not None and current.dispatched_at is None


def answer_let_leave(operation: Operation) -> bool:
    """Whether people let an answer leave that has not: it is still to be sent, or waits at a gate of its
    own."""
    current = continuation_current(operation)
    return current is not None and current.dispatched_at is None and _is_let_leave(current)


def _is_let_leave(current: Continuation) -> bool:
    own = current.is_given and Command.objects.filter(key=answer_key(current)).exists()
    return current.released_at is not None or own


def answer_key(current: Continuation) -> str:
    """The key of the command that the answer of a pause is: another answer is another one."""
    answered_at = int((current.answered_at or clock.now()).timestamp() * 1_000_000)
    return f"answer:{current.pk}:{answered_at}"


def answer_waiting(operation: Operation) -> dict[str, Any]:
    """The request of the answer that waits to be sent."""
    current = continuation_current(operation)
    return current.arguments if current is not None else {}


def answers_let_go(*, left: bool = False) -> QuerySet[Any]:
    """Answers that people let go, or that send what they had approved, and that nobody took off the way, each
    with the `amount` that was approved with it; of an operation the newest counts. `left`: only those that
    have left."""
    about = {"subject_id": OuterRef("operation_id"), "subject_version": OuterRef("generation")}
    asked = Approval.objects.filter(kind=ANSWER, subject_type="operation", **about).order_by("-pk")
    # The same pause may be answered anew: the last question is about the answer that it has now.
    amount = Case(When(status=ApprovalStatus.APPROVED, then=F("amount")))
    rows = Continuation.objects.annotate(
        asked_is=Subquery(asked.values("status")[:1]), amount=Subquery(asked.values(approved=amount)[:1])
    )
    waits = Q(stale_at__isnull=True, consumed_at__isnull=True, answered_at__isnull=False)
    let_go = waits & (Q(released_at__isnull=False) | Q(asked_is=ApprovalStatus.APPROVED))
    sent = Q(dispatched_at__isnull=False)
    return rows.filter(sent if left else sent | let_go).order_by("-generation")


def request_let_go(operation: Operation, *, left: bool = False) -> dict[str, Any]:
    """What the seller is asked for by now, for people's eyes: the newest answer that they let go, else the
    request itself. It is what counts, is shown, proved, compared and sent on; the first request never is."""
    return request_with(operation, answer_let_go(operation, left=left))


def request_with(operation: Operation, answer: Continuation | None) -> dict[str, Any]:
    """The same where the newest answer that they let go is known."""
    request: dict[str, Any] = operation.request if answer is None else for_eyes(answer.arguments)
    return request


def answer_let_go(operation: Operation, *, left: bool = False) -> Continuation | None:
    """The newest of `answers_let_go` of one operation; None without any."""
    return newest_let_go([operation.pk], left=left).get(operation.pk)


def newest_let_go(
    operation_ids: Collection[uuid.UUID], *, left: bool = False
) -> dict[uuid.UUID, Continuation]:
    """The same of several, by operation. Most never paused: which did is asked first, of few columns."""
    paused = set(
        Continuation.objects.filter(operation_id__in=operation_ids)
        .order_by()
        .values_list("operation_id", flat=True)
    )
    rows = answers_let_go(left=left).filter(operation_id__in=paused).reverse() if paused else ()
    return {row.operation_id: row for row in rows}


def arguments_let_go(operation: Operation) -> dict[str, Any]:
    """The same of what has left, as it left: what the next answer is made from. Never shown."""
    newest = answer_let_go(operation, left=True)
    arguments: dict[str, Any] = json.loads(operation.request_text) if newest is None else newest.arguments
    return arguments


def answer_release(operation: Operation, continuation_id: uuid.UUID) -> None:
    """Let the frozen answer of a pause be sent, where the pause still waits for it. The time it was with
    people, or held, is not the seller's: the deadline begins anew."""
    current = continuation_current(operation)
    if current is None or current.pk != continuation_id or current.released_at or not current.answered_at:
        return
    now = clock.now()
    current.released_at = now
    current.save(update_fields=["released_at"])
    send_with_time(operation, at=now)


def answer_take_back(continuation_id: uuid.UUID) -> None:
    """An answer that was not released is none: another may be given."""
    waits = {"released_at": None, "consumed_at": None, "stale_at": None}
    Continuation.objects.filter(pk=continuation_id, **waits).update(
        request_text=None, answer=None, answered_by="", answered_at=None
    )


def answer_refuse(operation: Operation) -> bool:
    """Somebody said no to what was on its way: an answer that waits to be sent is stale, and the pause may be
    answered anew. Answers whether there was one. What nobody has released is not on its way."""
    current = continuation_current(operation)
    if current is None or current.released_at is None or current.dispatched_at is not None:
        return False
    _open_anew(operation, current, "it was refused on its way")
    return True


def answer_hold_back(operation: Operation, why: str) -> None:
    """An answer on its way is not sent as it is, and people are told: the pause may be answered anew."""
    current = continuation_current(operation)
    if current is None:
        return
    anew = _open_anew(operation, current, why)
    Operation.objects.filter(pk=operation.pk).update(send_at=None)
    answered = "answer it anew" if anew.is_answerable and can_continue(operation) else "write to it"
    _tell_not_sent(operation, current, why, f"{operation.seller} still waits: {answered}, or stop waiting.")


def _tell_not_sent(operation: Operation, current: Continuation, why: str, then: str) -> None:
    notify(
        kind="answer_held_back",
        title=f"Our answer about {operation.reference} was not sent: {why}",
        body=then,
        level="warning",
        about=About(type="operation", id=operation.pk),
        team=operation.team,
        right="" if operation.team else STEER_OPERATION,
        key=f"answer_held_back:{current.pk}",
    )


def _open_anew(operation: Operation, current: Continuation, why: str) -> Continuation:
    _stale(current, why)
    _withdraw_question(operation, raised(why))
    return Continuation.objects.create(
        operation=operation,
        generation=current.generation + 1,
        kind=current.kind,
        descriptor=current.descriptor,
        asked=current.asked,
        at=clock.now(),
        expires_at=current.expires_at,
    )


def resume_take(operation: Operation) -> Resume | None:
    """The released answer of an operation whose row is locked, marked dispatched: it is never taken again.

    Until its reply comes, the operation is looked at, or without a task of the seller's soon a person's.
    """
    current = continuation_current(operation)
    if current is None or current.released_at is None or current.dispatched_at is not None:
        return None
    now = clock.now()
    current.dispatched_at, current.deadline_at = now, operation.deadline_at
    current.save(update_fields=["dispatched_at", "deadline_at"])
    Operation.objects.filter(pk=operation.pk).update(send_at=None, **_fallback(operation))
    identity = json.loads(current.descriptor)
    answer = current.answer or {}
    return Resume(
        arguments=current.arguments,
        continuation={**identity, "message_id": str(current.pk), "text": str(answer.get("text", ""))},
    )


def _fallback(operation: Operation) -> dict[str, Any]:
    """What happens when the worker dies with the answer on its way, or no reply comes."""
    soon = clock.now() + timedelta(
        seconds=2 * policy.call_timeout_s(operation.task_type) + settings.OPERATION_LEASE_S
    )
    if operation.task_id:
        return {"next_poll_at": soon}
    return {"deadline_at": min(operation.deadline_at or soon, soon)}


def _observed(operation: Operation, seen: Seen, observation: Observation) -> None:
    """Keep the pauses in step with what was seen; in the observation's commit, the operation's row locked."""
    is_reply = observation.channel == Channel.REPLY
    applied = observation.outcome == Observation.Outcome.APPLIED
    goes_on = (applied and operation.status in _AT_WORK) or _goes_on_as_before(operation, observation)
    if not (is_reply or applied or goes_on or operation.status in SETTLED):
        return  # most looks: nothing has moved, and no answer of ours was replied to
    current = continuation_current(operation)
    if current is not None and current.dispatched_at is not None and is_reply:
        _replied(operation, current, seen)
    if operation.status in SETTLED:
        _overtaken(operation, current)
    elif is_reply and seen.status in _PAUSES and observation.outcome != Observation.Outcome.CONFLICT:
        _pause(operation, seen)
    elif goes_on:
        _went_on(operation, current, observation.status)


def _goes_on_as_before(operation: Operation, observation: Observation) -> bool:
    """Whether a seller says that it works on what is overdue, or was and people wait on: it may have asked
    before that. Nobody knows when a webhook was made."""
    if operation.overdue_at is None or observation.status not in ("submitted", "working"):
        return False
    if operation.status == S.TIMED_OUT:
        return observation.channel in LOOKS and observation.outcome == Observation.Outcome.INDETERMINATE
    return operation.status in _AT_WORK and observation.outcome == Observation.Outcome.DUPLICATE


def _went_on(operation: Operation, current: Continuation | None, said: str) -> None:
    """The seller works again, though no answer of ours has left."""
    if current is None or current.dispatched_at is not None:
        return
    why, let_leave = f"the seller went on by itself: {said}", _is_let_leave(current)
    _stale(current, why)
    _withdraw_question(operation)
    if let_leave:
        _tell_not_sent(operation, current, why, "Nothing has to be answered, unless it asks again.")


def _pause(operation: Operation, seen: Seen) -> None:
    """The next generation, where the transport supplied its identity and it is a new pause."""
    if not seen.continuation:
        return
    descriptor = json.dumps(dict(seen.continuation), sort_keys=True)
    latest = Continuation.objects.filter(operation=operation).order_by("-generation").first()
    if latest is not None and latest.is_usable:
        if latest.dispatched_at is None and latest.descriptor == descriptor:
            return  # told again
        # The successor is found from the operation before the one it follows is consumed.
        _next(operation, seen, descriptor, latest.generation + 1)
        if latest.dispatched_at is None:
            _replaced(operation, latest)
        else:
            latest.consumed_at = clock.now()
            latest.save(update_fields=["consumed_at"])
        return
    _next(operation, seen, descriptor, latest.generation + 1 if latest else 1)


def _replaced(operation: Operation, latest: Continuation) -> None:
    """The seller asks by another task of its transport than the one that our answer would be about."""
    why, let_leave = "its seller asks anew", _is_let_leave(latest)
    _stale(latest, why)
    _withdraw_question(operation)
    if let_leave:
        # What waited to be sent is none any more, and the first request is not sent in its place.
        Operation.objects.filter(pk=operation.pk).update(send_at=None)
        _tell_not_sent(operation, latest, why, f"{operation.seller} waits for another: answer it anew.")


def _next(operation: Operation, seen: Seen, descriptor: str, generation: int) -> None:
    Continuation.objects.create(
        operation=operation,
        generation=generation,
        kind=_PAUSES[seen.status],
        descriptor=descriptor,
        asked=(seen.message or "")[:2000],
        at=clock.now(),
        expires_at=clock.now() + _TTL,
    )


def _replied(operation: Operation, current: Continuation, seen: Seen) -> None:
    """What the reply to an answer does to it."""
    code, recovery = (seen.error.code, seen.error.recovery) if seen.error else ("", None)
    refused_for_now = recovery == "transient" and code != IN_FLIGHT
    if not seen.request_left or (seen.kind == "answer" and seen.status == "failed" and refused_for_now):
        # It surely had no effect: the same answer leaves again when the operation is due.
        current.dispatched_at = None
        current.save(update_fields=["dispatched_at"])
        _put_back(operation, current)
        Operation.objects.filter(pk=operation.pk, send_at__isnull=True).update(
            send_at=clock.now() + policy.resend_delay(operation.attempts, seen.asks_to_wait, operation.seller)
        )
        return
    if code == IN_FLIGHT:
        _unclear(operation, current, "the seller works on it", asks_to_wait_s=seen.asks_to_wait)
    elif seen.kind == "answer" and seen.status != "unknown":
        _put_back(operation, current)
        if seen.status not in _PAUSES or not seen.continuation:
            current.consumed_at = clock.now()
            current.save(update_fields=["consumed_at"])
    else:
        _unclear(operation, current, NOT_KNOWN)


def _put_back(operation: Operation, current: Continuation) -> None:
    """The operation's own deadline, that an answer on its way had brought nearer."""
    if current.deadline_at is not None and operation.status in PENDING:
        Operation.objects.filter(pk=operation.pk).update(deadline_at=current.deadline_at)
        operation.deadline_at = current.deadline_at


def _unclear(
    operation: Operation, current: Continuation, why: str, *, asks_to_wait_s: float | None = None
) -> None:
    """The answer left and nobody knows what becomes of it: looked at, no sooner than its seller asks, or a
    person's; never sent again."""
    current.note = why
    current.save(update_fields=["note"])
    if operation.status not in PENDING:
        return
    due = {"next_poll_at" if operation.task_id else "deadline_at": clock.now()}
    if operation.task_id and asks_to_wait_s:
        later = policy.next_poll(
            operation, status=operation.status, now=clock.now(), retry_after_s=asks_to_wait_s
        )
        due = {"next_poll_at": later}
    said = f"Our answer left; {why}. {operation.message}"
    Operation.objects.filter(pk=operation.pk).update(send_at=None, message=said[:2000], **due)


def _overtaken(operation: Operation, current: Continuation | None) -> None:
    """The end came by another way: what was not dispatched never will be, what was is told to people."""
    if current is None or not current.is_usable:
        return
    if current.dispatched_at is None:
        _stale(current, f"the operation ended first: {operation.status}")
    else:
        _stale(current, f"on its way when the operation ended: {operation.status}")
        notify(
            kind="answer_overtaken",
            title=f"{operation.reference} ended while our answer was on its way",
            body=f"{operation.seller} says {operation.status}; whether that is before or after our answer is "
            "not known. Compare it with what was answered.",
            level="warning",
            about=About(type="operation", id=operation.pk),
            team=operation.team,
            right="" if operation.team else STEER_OPERATION,
            key=f"answer_overtaken:{current.pk}",
        )
    _withdraw_question(operation)


def _stale(current: Continuation, why: str) -> None:
    current.stale_at, current.note = clock.now(), why[:200]
    current.save(update_fields=["stale_at", "note"])


def _withdraw_question(operation: Operation, why: str = "The seller went on without the answer") -> None:
    questions_withdraw("operation", operation.pk, kinds=(ANSWER,), reason=why)
