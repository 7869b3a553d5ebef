"""observe(): the one door through which everything that is seen of an operation goes.

First terminal observation wins, whatever channel brought it; an exact duplicate has no effect; older
news is stale; a contradiction is kept whole, for a person. Source: AdCP L3/async-identity-and-convergence,
document 001 section 6.5, document 000 "Async Operation Handler".
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import rfc8785
from django.db import transaction

from tasks_app import clock
from tasks_app.adcp.errors import TOOL_ERROR
from tasks_app.adcp.types import Seen
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations import policy
from tasks_app.operations.models import PENDING, SETTLED, Channel, Observation, Operation
from tasks_app.operations.models import OperationStatus as S

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
_bound: list[Callable[[Operation], None]] = []


@dataclass(frozen=True, kw_only=True)
class _Verdict:
    """What an observation leads to: the status to move to (None: stay), columns to write, and a note."""

    outcome: str
    to: str | None = None
    changes: dict[str, Any] | None = None
    note: str = ""


def on_bound(listener: Callable[[Operation], None]) -> None:
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
        digest = _digest(operation, seen)
        verdict = _judge(operation, seen, channel, digest)
        observation = _record(operation, seen, channel, digest, verdict)
        _apply(operation, seen, channel, verdict)
    if operation.task_id and not was_bound:
        for listener in _bound:
            listener(operation)
    return observation


def _digest(operation: Operation, seen: Seen) -> str:
    """SHA-256 of RFC 8785 over {task_type, status, value}: equality of observations."""
    value = seen.payload if seen.status == "completed" or seen.error is None else asdict(seen.error)
    said = {"task_type": operation.task_type, "status": seen.status, "value": value}
    try:
        canonical = rfc8785.dumps(said)
    except (rfc8785.CanonicalizationError, TypeError):
        # A number outside I-JSON; still deterministic.
        canonical = json.dumps(said, sort_keys=True, default=str).encode()
    return hashlib.sha256(canonical).hexdigest()


def _judge(operation: Operation, seen: Seen, channel: str, digest: str) -> _Verdict:
    if seen.kind != "answer":
        return _unanswered(operation, seen, channel)
    if operation.task_id and seen.task_id and seen.task_id != operation.task_id:
        return _Verdict(
            outcome=_Outcome.CONFLICT,
            note=f"task_id changed from {operation.task_id} to {seen.task_id}",
            changes=_keep_looking(operation, seen),
        )
    if operation.status in SETTLED:
        return _after_the_end(operation, seen, digest)
    if seen.status == "unknown":
        return _unclear(operation, seen)
    if channel == Channel.REPLY and seen.status == "failed" and _is_transient(seen):
        return _try_again(operation, seen, certain=True)
    if channel == Channel.REPLY and operation.is_mutation and _is_crash(seen):
        return _try_again(operation, seen, certain=False)
    if channel == Channel.REPLY and not operation.is_mutation and seen.status == "auth-required":
        # A read is not worth waiting for new credentials: it says why and ends.
        return _Verdict(outcome=_Outcome.APPLIED, to=S.FAILED, changes=_settled(operation, seen, channel))
    return _news(operation, seen, channel, digest)


def _news(operation: Operation, seen: Seen, channel: str, digest: str) -> _Verdict:
    to = _STATUS[seen.status]
    if to in SETTLED:
        return _Verdict(outcome=_Outcome.APPLIED, to=to, changes=_settled(operation, seen, channel))
    if operation.status == S.TIMED_OUT:
        return _Verdict(
            outcome=_Outcome.INDETERMINATE,
            note="overdue: a person decides whether to wait on",
            changes=_keep_looking(operation, seen),
        )
    if _is_older(operation, seen):
        return _Verdict(outcome=_Outcome.STALE, note="older than what is known")
    changes = {**_identities(operation, seen), **_keep_looking(operation, seen, status=to)}
    changes["message"] = seen.message or operation.message
    if seen.at:
        changes["seller_news_at"] = seen.at
    if to == operation.status:
        return _Verdict(outcome=_Outcome.DUPLICATE, changes=changes)
    return _Verdict(outcome=_Outcome.APPLIED, to=to, changes={**changes, "send_at": None, "lease_until": None})


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


def _try_again(operation: Operation, seen: Seen, *, certain: bool) -> _Verdict:
    """The same bytes and key once more; or the end, where nothing can have happened at the seller.

    `certain`: this attempt had no effect. A purchase of unknown outcome is never failed by us: it is
    sent again under the same key until it is overdue, and then a person's.
    """
    in_flight = seen.error is not None and seen.error.code == "IDEMPOTENCY_IN_FLIGHT"
    harmless = not operation.is_mutation or (certain and not _ever_unclear(operation))
    if operation.attempts >= policy.MAX_ATTEMPTS and harmless and not in_flight:
        return _Verdict(
            outcome=_Outcome.APPLIED, to=S.FAILED,
            changes=_settled(operation, seen, Channel.REPLY), note=f"after {operation.attempts} attempts",
        )
    retry_after = seen.retry_after or (seen.error.retry_after if seen.error else None)
    again = clock.now() + policy.resend_delay(operation.attempts, retry_after)
    return _Verdict(
        outcome=_Outcome.INDETERMINATE, note=_why(seen), changes={"send_at": again, "lease_until": None}
    )


def _unclear(operation: Operation, seen: Seen) -> _Verdict:
    """A status outside the enum, or a status call that failed: keep observing, never fail."""
    changes = {**_identities(operation, seen), "message": seen.message or operation.message}
    note = _why(seen) if seen.error else f"the seller says {seen.raw_status!r}, which is not a task status"
    if operation.status == S.CALLING_ADCP and (operation.task_id or seen.task_id):
        changes |= {"send_at": None, "lease_until": None}
        changes |= _keep_looking(operation, seen, status=S.SUBMITTED)
        return _Verdict(outcome=_Outcome.APPLIED, to=S.SUBMITTED, changes=changes, note=note)
    if operation.status == S.CALLING_ADCP:
        return _try_again(operation, seen, certain=False)
    return _Verdict(
        outcome=_Outcome.INDETERMINATE, note=note, changes=changes | _keep_looking(operation, seen)
    )


def _identities(operation: Operation, seen: Seen) -> dict[str, Any]:
    """The seller's names, bound once."""
    told = {
        "task_id": seen.task_id, "a2a_task_id": seen.a2a_task_id, "a2a_context_id": seen.a2a_context_id
    }
    return {name: value for name, value in told.items() if value and not getattr(operation, name)}


def _keep_looking(operation: Operation, seen: Seen, *, status: str | None = None) -> dict[str, Any]:
    """The next poll, for what is (or is about to be) pending at the seller under a known task."""
    status = status or operation.status
    if status not in (*PENDING, S.TIMED_OUT) or not (operation.task_id or seen.task_id):
        return {}
    retry_after = seen.retry_after or (seen.error.retry_after if seen.error else None)
    due = policy.next_poll(operation, status=status, now=clock.now(), retry_after_s=retry_after)
    return {"next_poll_at": due, "lease_until": None}


def _settled(operation: Operation, seen: Seen, channel: str) -> dict[str, Any]:
    changes: dict[str, Any] = {
        **_identities(operation, seen),
        "settled_by": channel,
        "settled_at": clock.now(),
        "message": seen.message or _why(seen),
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
        channel=channel,
        kind=seen.kind if seen.request_left else "not_sent",
        status=seen.status,
        raw_status=(seen.raw_status or "")[:80],
        outcome=verdict.outcome,
        note=verdict.note,
        digest=digest,
        body=seen.raw if isinstance(seen.raw, dict) else {"text": seen.raw} if seen.raw else None,
        seller_at=seen.at,
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


def _is_transient(seen: Seen) -> bool:
    return seen.error is not None and seen.error.recovery == "transient"


def _is_crash(seen: Seen) -> bool:
    """A tool that broke down in plain text: the purchase may or may not have been made."""
    return seen.status == "failed" and seen.error is not None and seen.error.code == TOOL_ERROR


def _ever_unclear(operation: Operation) -> bool:
    return operation.observations.filter(kind__in=("no_answer", "garbled")).exists()


def _why(seen: Seen) -> str:
    if seen.error is None:
        return seen.message or ""
    where = f" ({seen.error.field})" if seen.error.field else ""
    return f"{seen.error.code}{where}: {seen.error.message}".rstrip(": ")


def _wire(status: str) -> str:
    return next(wire for wire, ours in _STATUS.items() if ours == status)


