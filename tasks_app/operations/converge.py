"""observe(): the one door through which everything that is seen of an operation goes.

First terminal observation wins, whatever channel brought it; an exact duplicate has no effect; older
news is stale; a contradiction is kept whole, for a person. Source: AdCP L3/async-identity-and-convergence,
document 001 section 6.5, document 000 "Async Operation Handler".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.adcp.errors import TOOL_ERROR, read_error
from tasks_app.adcp.types import Seen
from tasks_app.lifecycle.transitions import Who, transition
from tasks_app.operations import partial, policy
from tasks_app.operations.canonical import observation_digest
from tasks_app.operations.lookup import after_lookup, is_fruitless
from tasks_app.operations.matching import identities, mismatch, unusable_task
from tasks_app.operations.models import PENDING, SETTLED, Channel, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.resend import GARBLED, NOT_SENT, may_have_acted
from tasks_app.operations.writes import Writes

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
_MAX_MESSAGE = 2000
_EARLIEST, _MAX_AHEAD = datetime(2000, 1, 1, tzinfo=UTC), timedelta(minutes=5)
# The seller knows the key and will not say what became of it (adcp.md "Idempotency").
_LOST_KEY = frozenset({"IDEMPOTENCY_EXPIRED", "IDEMPOTENCY_CONFLICT"})
_bound: list[Callable[[Operation], object]] = []
_observed: list[Callable[[Operation, Seen, Observation], object]] = []


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


def on_observed(listener: Callable[[Operation, Seen, Observation], object]) -> None:
    """Call `listener(operation, seen, observation)` in the commit of every observation, after its effect."""
    if listener not in _observed:
        _observed.append(listener)


def observe(*, operation_id: uuid.UUID, seen: Seen, channel: str, actor: Who = "") -> Observation:
    """Record what was seen and let it have its effect, in one commit. `actor`: the person whose word it is.

    Answers the stored observation; its `outcome` says what it led to. A settled operation is then to be
    published (`publish.publish`), by the caller or by the next sweep. Raises Operation.DoesNotExist.
    """
    with transaction.atomic():
        operation = _held().get(pk=operation_id)
        was_bound = bool(operation.task_id)
        seen = _credible(seen)
        with Writes() as writes:
            observation = _observe(operation, seen, channel, writes, actor)
        _tell_observed(operation, seen, observation)
    if operation.task_id and not was_bound:
        _tell_bound(operation)
    return observation


def observe_many(sights: Mapping[uuid.UUID, tuple[Seen, str]]) -> list[Observation]:
    """`observe` for many operations, by id what was seen and the channel, in one commit with few statements.

    Answers the stored observations; operations that somebody holds are left out. Raises what one of them
    raises, and then has recorded nothing.
    """
    with transaction.atomic():
        credible = {pk: (_credible(seen), channel) for pk, (seen, channel) in sights.items()}
        operations = list(_held(skip_locked=True).filter(pk__in=sights).order_by("pk"))
        unbound = [operation for operation in operations if not operation.task_id]
        with Writes() as writes:
            observations = [_observe(o, *credible[o.pk], writes) for o in operations]
        for operation, observation in zip(operations, observations, strict=True):
            _tell_observed(operation, credible[operation.pk][0], observation)
    for operation in unbound:
        if operation.task_id:
            _tell_bound(operation)
    return observations


def _held(*, skip_locked: bool = False) -> QuerySet[Operation]:
    """Operations, locked; without what was sent and our secrets, which no observation needs."""
    rows = Operation.objects.select_related("seller", "account").defer(
        "request_text", "webhook_token", "seller__token", "seller__webhook_secret", "seller__capabilities"
    )
    return rows.select_for_update(of=("self",), no_key=True, skip_locked=skip_locked)


def _observe(operation: Operation, seen: Seen, channel: str, writes: Writes, actor: Who = "") -> Observation:
    digest = _digest(operation, seen)
    verdict = _judge(operation, seen, channel, digest)
    observation = _record(operation, seen, channel, digest, verdict)
    writes.observation(observation)
    _apply(operation, seen, channel, verdict, writes, actor)
    return observation


def _tell_observed(operation: Operation, seen: Seen, observation: Observation) -> None:
    for listener in _observed:
        listener(operation, seen, observation)


def _tell_bound(operation: Operation) -> None:
    for listener in _bound:
        listener(operation)


def _credible(seen: Seen) -> Seen:
    """Without the seller's time where its clock cannot be believed: one far ahead would make all its later
    news look old. With the error of a bad end, where it stands alone in the result."""
    if seen.error is None and seen.status in ("failed", "rejected", "canceled"):
        seen = replace(seen, error=read_error((seen.payload or {}).get("error")))
    if seen.at is None or _EARLIEST <= seen.at <= clock.now() + _MAX_AHEAD:
        return seen
    return replace(seen, at=None)


def _digest(operation: Operation, seen: Seen) -> str:
    context = operation.request.get("context")
    return observation_digest(seen, task_type=operation.task_type, sent_context=context)


def _judge(operation: Operation, seen: Seen, channel: str, digest: str) -> _Verdict:
    if operation.status == S.REQUESTED:
        return _Verdict(outcome=_Outcome.CONFLICT, note="nothing was sent yet")
    if is_fruitless(operation, seen, channel):
        note, columns = after_lookup(operation, seen)
        return _Verdict(outcome=_Outcome.INDETERMINATE, note=note, changes=columns)
    if seen.kind != "answer":
        return _unanswered(operation, seen, channel)
    another = mismatch(operation, seen)
    if another:
        return _not_ours(operation, seen, channel, another)
    if operation.status in SETTLED:
        return _after_the_end(operation, seen, digest)
    unusable = unusable_task(operation, seen)
    if unusable:
        return _not_ours(operation, seen, channel, unusable)
    if seen.status == "unknown":
        return _unclear(operation, seen, channel)
    if channel == Channel.REPLY:
        return _reply(operation, seen)
    return _news(operation, seen, channel)


def _not_ours(operation: Operation, seen: Seen, channel: str, why: str) -> _Verdict:
    """Told of something else: kept, and this operation is looked at as before. The answer to a call that
    names no task of ours is a person's: nobody will answer that call again."""
    changes: dict[str, Any] = {}
    if operation.task_id:
        changes = _keep_looking(operation, seen)
    elif channel == Channel.REPLY and operation.status not in SETTLED:
        changes = _to_a_person(why)
    return _Verdict(outcome=_Outcome.CONFLICT, note=why[:_MAX_MESSAGE], changes=changes)


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
            changes={**identities(operation, seen), **_keep_looking(operation, seen)},
        )
    if _is_older(operation, seen):
        return _Verdict(
            outcome=_Outcome.STALE,
            note="older than what is known",
            changes={**identities(operation, seen), **_keep_looking(operation, seen)},
        )
    changes = {
        **identities(operation, seen),
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
        seller=operation.seller,
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
    same_end = winner is not None and winner.status == seen.status and partial.agrees(operation, seen)
    if same_end and seen.partial:
        return _Verdict(outcome=_Outcome.INDETERMINATE, note=f"{seen.status}, without the result")
    if same_end and winner is not None and winner.partial:
        return _Verdict(outcome=_Outcome.APPLIED, note="the result that was missing", changes=_result(seen))
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
        changes = {"send_at": None, "lease_until": None, **_keep_looking(operation, seen)}
        return _Verdict(outcome=_Outcome.INDETERMINATE, note=why, changes=changes)
    in_flight = seen.error is not None and seen.error.code == "IDEMPOTENCY_IN_FLIGHT"
    harmless = not operation.is_mutation or (certain and not may_have_acted(operation, observing=True))
    tried = 1 + operation.observations.filter(channel=Channel.REPLY, outcome=_Outcome.INDETERMINATE).count()
    if tried >= policy.max_attempts(operation.seller) and harmless and not in_flight:
        return _Verdict(
            outcome=_Outcome.APPLIED,
            to=S.FAILED,
            note=f"after {tried} attempts",
            changes=_settled(operation, seen, Channel.REPLY, message=why),
        )
    again = clock.now() + policy.resend_delay(operation.attempts, _retry_after(seen), operation.seller)
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
        **identities(operation, seen),
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


def _keep_looking(operation: Operation, seen: Seen, *, status: str | None = None) -> dict[str, Any]:
    """The next poll, for what is (or is about to be) pending at the seller under a known task."""
    status = status or operation.status
    if status not in (*PENDING, S.TIMED_OUT) or not (operation.task_id or seen.task_id):
        return {}
    due = policy.next_poll(operation, status=status, now=clock.now(), retry_after_s=_retry_after(seen))
    if seen.replayed:
        due = clock.now()  # as old as the first answer: what holds now is read at once
    return {"next_poll_at": due, "lease_until": None}


def _settled(operation: Operation, seen: Seen, channel: str, *, message: str = "") -> dict[str, Any]:
    changes: dict[str, Any] = {
        **identities(operation, seen),
        "settled_by": channel,
        "settled_at": clock.now(),
        "message": (message or _said(seen) or _why(seen))[:_MAX_MESSAGE],
        "send_at": None,
        "lease_until": None,
        **_result(seen),
        **partial.held(operation, seen),
    }
    if operation.status == S.TIMED_OUT:
        changes["published_at"] = None  # given up or not, this end is news
    if seen.at:
        changes["seller_news_at"] = seen.at
    return changes


def _result(seen: Seen) -> dict[str, Any]:
    """The end's own columns: nothing more is looked for, and it may be published."""
    changes: dict[str, Any] = {"next_poll_at": None, "publish_at": None}
    if seen.payload is not None:
        changes["result"] = seen.payload
    if seen.error is not None:
        changes["error"] = asdict(seen.error)
    return changes


def _record(operation: Operation, seen: Seen, channel: str, digest: str, verdict: _Verdict) -> Observation:
    return Observation(
        operation=operation,
        seller_id=operation.seller_id,
        channel=channel,
        kind=_kind(seen),
        status=seen.status,
        raw_status=(seen.raw_status or "")[:80],
        outcome=verdict.outcome,
        note=verdict.note,
        digest=digest,
        partial=seen.partial,
        body=seen.raw if isinstance(seen.raw, dict) else {"text": seen.raw} if seen.raw else None,
        seller_at=seen.at,
        duration_ms=seen.duration_ms,
        error_code=(seen.error.code if seen.error else "")[:80],
        at=clock.now(),
    )


def _apply(
    operation: Operation, seen: Seen, channel: str, verdict: _Verdict, writes: Writes, actor: Who
) -> None:
    if verdict.to is None:
        changes = {**partial.look_again(operation), **(verdict.changes or {})}
        if changes:
            writes.columns(operation, changes)
        return
    by_us = seen.kind != "answer"
    transition(
        operation,
        verdict.to,
        actor=actor or ("system" if by_us else f"agent:{operation.seller.slug}"),
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
