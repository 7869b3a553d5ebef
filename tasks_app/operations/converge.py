"""observe(): the one door through which everything that is seen of an operation goes.

First terminal observation wins, whatever channel brought it; an exact duplicate has no effect; older
news is stale; a contradiction is kept whole, for a person. Source: AdCP L3/async-identity-and-convergence,
document 001 section 6.5, document 000 "Async Operation Handler".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction

from tasks_app import clock
from tasks_app.adcp.errors import TOOL_ERROR
from tasks_app.adcp.types import Seen
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations import policy
from tasks_app.operations.canonical import canonical_digest
from tasks_app.operations.models import PENDING, SETTLED, Channel, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.resend import GARBLED, NOT_SENT, may_have_acted

_STATUS = {
    "submitted": S.SUBMITTED,
    "working": S.WORKING,
    "input-required": S.INPUT_REQUIRED,
    "auth-required": S.AUTH_REQUIRED,
    "completed": S.COMPLETED,
    "failed": S.FAILED,
    "canceled": S.CANCELED,
    "rejected": S.REJECTED,
}
_Outcome = Observation.Outcome
_MAX_IDENTITY = 255
_MAX_MESSAGE = 2000
_EARLIEST, _MAX_AHEAD = datetime(2000, 1, 1, tzinfo=UTC), timedelta(minutes=5)
# The seller knows the key and will not say what became of it (adcp.md "Idempotency").
_LOST_KEY = frozenset({"IDEMPOTENCY_EXPIRED", "IDEMPOTENCY_CONFLICT"})
_bound: list[Callable[[Operation], object]] = []


@dataclass(frozen=True, kw_only=True)
class _Verdict:
    """What an observation leads to: the status to move to (None: stay), columns to write, and a note."""

    outcome: str
    to: str | None = None
    changes: dict[str, Any] | None = None
    note: str = ""


def on_bound(listener: Callable[[Operation], object]) -> None:
    """Call `listener` after an operation learned the seller's task_id."""
    if listener not in _bound:
        _bound.append(listener)


def observe(*, operation_id: uuid.UUID, seen: Seen, channel: str) -> Observation:
    """Record what was seen and let it have its effect, in one commit.

    Answers the stored observation; its `outcome` says what it led to. A settled operation is then to be
    published (`publish.publish`), by the caller or by the next sweep. Raises Operation.DoesNotExist.
    """
    with transaction.atomic():
        operation = (
            Operation.objects.select_related("seller")
            .select_for_update(of=("self",), no_key=True)
            .get(pk=operation_id)
        )
        was_bound = bool(operation.task_id)
        seen = _credible(seen)
        digest = _digest(operation, seen)
        verdict = _judge(operation, seen, channel, digest)
        observation = _record(operation, seen, channel, digest, verdict)
        _apply(operation, seen, channel, verdict)
    if operation.task_id and not was_bound:
        for listener in _bound:
            listener(operation)
    return observation


def _credible(seen: Seen) -> Seen:
    """Without the seller's time where its clock cannot be believed: one far ahead would make all its later
    news look old."""
    if seen.at is None or _EARLIEST <= seen.at <= clock.now() + _MAX_AHEAD:
        return seen
    return replace(seen, at=None)


def _digest(operation: Operation, seen: Seen) -> str:
    """Equality of observations: {task_type, status, value}."""
    value = seen.payload if seen.status == "completed" or seen.error is None else asdict(seen.error)
    return canonical_digest({"task_type": operation.task_type, "status": seen.status, "value": value})


def _judge(operation: Operation, seen: Seen, channel: str, digest: str) -> _Verdict:
    if operation.status == S.REQUESTED:
        return _Verdict(outcome=_Outcome.CONFLICT, note="nothing was sent yet")
    if seen.kind != "answer":
        return _unanswered(operation, seen, channel)
    if operation.task_id and seen.task_id and seen.task_id != operation.task_id:
        return _Verdict(
            outcome=_Outcome.CONFLICT,
            note=f"task_id changed from {operation.task_id} to {seen.task_id}"[:_MAX_MESSAGE],
            changes=_keep_looking(operation, seen),
        )
    if operation.status in SETTLED:
        return _after_the_end(operation, seen, digest)
    unusable = _unusable_task(operation, seen)
    if unusable:
        changes = _to_a_person(unusable) if channel == Channel.REPLY else None
        return _Verdict(outcome=_Outcome.CONFLICT, note=unusable, changes=changes)
    if seen.status == "unknown":
        return _unclear(operation, seen, channel)
    if channel == Channel.REPLY:
        return _reply(operation, seen)
    return _news(operation, seen, channel)


def _unusable_task(operation: Operation, seen: Seen) -> str:
    """Why the task_id of a first binding cannot be this operation's; empty when it can."""
    if operation.task_id or not seen.task_id:
        return ""
    if len(seen.task_id) > _MAX_IDENTITY:
        return f"the seller's task_id has {len(seen.task_id)} characters"
    holder = Operation.objects.filter(seller=operation.seller, task_id=seen.task_id).first()
    return f"the seller's task_id {seen.task_id} is that of {holder.reference} already" if holder else ""


def _reply(operation: Operation, seen: Seen) -> _Verdict:
    """An answer to the call itself; some say no more than that the call failed, not the task."""
    if seen.status == "failed" and seen.error is not None:
        if seen.error.recovery == "transient":
            return _try_again(operation, seen, certain=True)
        if operation.is_mutation and _is_crash(seen):
            return _try_again(operation, seen, certain=False)
        if seen.error.code in _LOST_KEY and may_have_acted(operation, observing=True):
            return _Verdict(outcome=_Outcome.INDETERMINATE, note=_why(seen), changes=_to_a_person(_why(seen)))
    if not operation.is_mutation and seen.status == "auth-required":
        # A read is not worth waiting for new credentials: it says why and ends.
        changes = _settled(operation, seen, Channel.REPLY)
        return _Verdict(outcome=_Outcome.APPLIED, to=S.FAILED, changes=changes)
    return _news(operation, seen, Channel.REPLY)


def _news(operation: Operation, seen: Seen, channel: str) -> _Verdict:
    to = _STATUS[seen.status]
    if to in SETTLED:
        return _Verdict(outcome=_Outcome.APPLIED, to=to, changes=_settled(operation, seen, channel))
    if operation.status == S.TIMED_OUT:
        return _Verdict(
            outcome=_Outcome.INDETERMINATE,
            note="overdue: a person decides whether to wait on",
            changes={**_identities(operation, seen), **_keep_looking(operation, seen)},
        )
    if _is_older(operation, seen):
        return _Verdict(
            outcome=_Outcome.STALE, note="older than what is known", changes=_keep_looking(operation, seen)
        )
    changes = {
        **_identities(operation, seen),
        "message": _said(seen) or operation.message,
        "send_at": _after_auth(operation, seen) if to == S.AUTH_REQUIRED else None,
        "lease_until": None,
        **_keep_looking(operation, seen, status=to),
    }
    if seen.at:
        changes["seller_news_at"] = seen.at
    if to == operation.status:
        return _Verdict(outcome=_Outcome.DUPLICATE, changes=changes)
    return _Verdict(outcome=_Outcome.APPLIED, to=to, changes={**changes, "polls": 0})


def _after_auth(operation: Operation, seen: Seen) -> datetime | None:
    """When to send a refused call again, in case the credentials were put right; a task is polled instead."""
    if operation.task_id or seen.task_id:
        return None
    wait = policy.poll_interval(
        status=S.AUTH_REQUIRED,
        polls=operation.attempts,
        age_s=0,
        webhook=False,
        retry_after_s=_retry_after(seen),
    )
    return clock.now() + wait


def _after_the_end(operation: Operation, seen: Seen, digest: str) -> _Verdict:
    if seen.status not in ("completed", "failed", "canceled", "rejected"):
        return _Verdict(outcome=_Outcome.STALE, note="already settled")
    winner = (
        operation.observations.filter(outcome=_Outcome.APPLIED, status=_wire(operation.status))
        .order_by("-id")
        .first()
    )
    if winner is not None and winner.digest == digest:
        return _Verdict(outcome=_Outcome.DUPLICATE)
    return _Verdict(
        outcome=_Outcome.CONFLICT, note=f"settled as {operation.status}, now told {seen.status} differently"
    )


def _unanswered(operation: Operation, seen: Seen, channel: str) -> _Verdict:
    if operation.status in SETTLED:
        return _Verdict(outcome=_Outcome.STALE, note=_why(seen))
    if channel != Channel.REPLY:
        return _Verdict(
            outcome=_Outcome.INDETERMINATE, note=_why(seen), changes=_keep_looking(operation, seen)
        )
    return _try_again(operation, seen, certain=not seen.request_left)


def _try_again(operation: Operation, seen: Seen, *, certain: bool, why: str = "") -> _Verdict:
    """The same bytes and key once more; or the end, where nothing can have happened at the seller.

    `certain`: this attempt had no effect. A purchase of unknown outcome is never failed by us: it is
    sent again under the same key until it is overdue, and then a person's.
    """
    why = why or _why(seen)
    if operation.task_id or operation.status == S.TIMED_OUT:
        # A webhook was faster, or the deadline: it is looked at, or a person's, not sent again.
        return _Verdict(outcome=_Outcome.INDETERMINATE, note=why, changes=_keep_looking(operation, seen))
    in_flight = seen.error is not None and seen.error.code == "IDEMPOTENCY_IN_FLIGHT"
    harmless = not operation.is_mutation or (certain and not may_have_acted(operation, observing=True))
    tried = 1 + operation.observations.filter(channel=Channel.REPLY, outcome=_Outcome.INDETERMINATE).count()
    if tried >= policy.MAX_ATTEMPTS and harmless and not in_flight:
        return _Verdict(
            outcome=_Outcome.APPLIED,
            to=S.FAILED,
            note=f"after {tried} attempts",
            changes=_settled(operation, seen, Channel.REPLY, message=why),
        )
    again = clock.now() + policy.resend_delay(operation.attempts, _retry_after(seen))
    return _Verdict(
        outcome=_Outcome.INDETERMINATE,
        note=why,
        changes={"send_at": again, "lease_until": None, "message": why[:_MAX_MESSAGE]},
    )


def _to_a_person(why: str) -> dict[str, Any]:
    """Overdue at once: sending again cannot help, and money may be committed."""
    return {"send_at": None, "lease_until": None, "deadline_at": clock.now(), "message": why[:_MAX_MESSAGE]}


def _unclear(operation: Operation, seen: Seen, channel: str) -> _Verdict:
    """A status outside the enum, or a status call that failed: keep observing, never fail."""
    note = _why(seen) if seen.error else f"the seller says {seen.raw_status!r}, which is not a task status"
    if channel == Channel.REPLY and not (operation.task_id or seen.task_id):
        return _try_again(operation, seen, certain=False, why=note)
    changes = {
        **_identities(operation, seen),
        "message": _said(seen) or operation.message or note,
        "send_at": None,
        "lease_until": None,
    }
    if operation.status == S.CALLING_ADCP:
        changes |= _keep_looking(operation, seen, status=S.SUBMITTED)
        return _Verdict(outcome=_Outcome.APPLIED, to=S.SUBMITTED, changes=changes, note=note)
    return _Verdict(
        outcome=_Outcome.INDETERMINATE, note=note, changes=changes | _keep_looking(operation, seen)
    )


def _identities(operation: Operation, seen: Seen) -> dict[str, Any]:
    """The seller's names, bound once."""
    told = {"task_id": seen.task_id, "a2a_task_id": seen.a2a_task_id, "a2a_context_id": seen.a2a_context_id}
    return {
        name: value
        for name, value in told.items()
        if value and len(value) <= _MAX_IDENTITY and not getattr(operation, name)
    }


def _keep_looking(operation: Operation, seen: Seen, *, status: str | None = None) -> dict[str, Any]:
    """The next poll, for what is (or is about to be) pending at the seller under a known task."""
    status = status or operation.status
    if status not in (*PENDING, S.TIMED_OUT) or not (operation.task_id or seen.task_id):
        return {}
    due = policy.next_poll(operation, status=status, now=clock.now(), retry_after_s=_retry_after(seen))
    return {"next_poll_at": due, "lease_until": None}


def _settled(operation: Operation, seen: Seen, channel: str, *, message: str = "") -> dict[str, Any]:
    changes: dict[str, Any] = {
        **_identities(operation, seen),
        "settled_by": channel,
        "settled_at": clock.now(),
        "message": (message or _said(seen) or _why(seen))[:_MAX_MESSAGE],
        "next_poll_at": None,
        "send_at": None,
        "lease_until": None,
    }
    if operation.status == S.TIMED_OUT:
        changes["published_at"] = None  # given up or not, this end is news
    if seen.payload is not None:
        changes["result"] = seen.payload
    if seen.error is not None:
        changes["error"] = asdict(seen.error)
    if seen.at:
        changes["seller_news_at"] = seen.at
    return changes


def _record(operation: Operation, seen: Seen, channel: str, digest: str, verdict: _Verdict) -> Observation:
    return Observation.objects.create(
        operation=operation,
        seller_id=operation.seller_id,
        channel=channel,
        kind=_kind(seen),
        status=seen.status,
        raw_status=(seen.raw_status or "")[:80],
        outcome=verdict.outcome,
        note=verdict.note,
        digest=digest,
        body=seen.raw if isinstance(seen.raw, dict) else {"text": seen.raw} if seen.raw else None,
        seller_at=seen.at,
        duration_ms=seen.duration_ms,
        error_code=(seen.error.code if seen.error else "")[:80],
        at=clock.now(),
    )


def _apply(operation: Operation, seen: Seen, channel: str, verdict: _Verdict) -> None:
    if verdict.to is None:
        if verdict.changes:
            Operation.objects.filter(pk=operation.pk).update(**verdict.changes)
            for name, value in verdict.changes.items():
                setattr(operation, name, value)
        return
    by_us = seen.kind != "answer"
    transition(
        operation,
        verdict.to,
        actor="system" if by_us else f"agent:{operation.seller.slug}",
        reason=f"Seen by {channel}: {seen.message or _why(seen) or seen.raw_status or seen.status}"[:500],
        metadata={"channel": channel, "note": verdict.note},
        changes=verdict.changes,
    )


def _is_older(operation: Operation, seen: Seen) -> bool:
    return bool(seen.at and operation.seller_news_at and seen.at < operation.seller_news_at)


def _kind(seen: Seen) -> str:
    """As `may_have_acted` reads it: what surely never left, and what tells nothing of the outcome."""
    if not seen.request_left:
        return NOT_SENT
    return GARBLED if _is_crash(seen) else seen.kind


def _is_crash(seen: Seen) -> bool:
    """A tool that broke down in plain text: the purchase may or may not have been made."""
    return seen.status == "failed" and seen.error is not None and seen.error.code == TOOL_ERROR


def _retry_after(seen: Seen) -> float | None:
    return seen.retry_after or (seen.error.retry_after if seen.error else None)


def _said(seen: Seen) -> str:
    return (seen.message or "")[:_MAX_MESSAGE]


def _why(seen: Seen) -> str:
    if seen.error is None:
        return seen.message or ""
    where = f" ({seen.error.field})" if seen.error.field else ""
    return f"{seen.error.code}{where}: {seen.error.message}".rstrip(": ")


def _wire(status: str) -> str:
    return next(wire for wire, ours in _STATUS.items() if ours == status)
