"""observe(): the one door through which everything that is seen of an operation goes.

First terminal observation wins, whatever channel brought it; an exact duplicate has no effect; older
news is stale; a contradiction is kept whole, for a person. Source: AdCP L3/async-identity-and-convergence,
document 001 section 6.5, document 000 "Async Operation Handler".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.adcp.errors import told_error
from tasks_app.adcp.types import ENDED_BADLY, Seen
from tasks_app.lifecycle.transitions import Who, note, transition
from tasks_app.operations import partial
from tasks_app.operations.bodies import body_of, is_whole
from tasks_app.operations.canonical import observation_digest
from tasks_app.operations.judging import Verdict, judge, kind_of, why_of
from tasks_app.operations.leases import Lease, leases_release
from tasks_app.operations.models import SETTLED, Channel, Observation, Operation
from tasks_app.operations.news import Known, known_since
from tasks_app.operations.writes import Writes
from tasks_app.people.actors import SYSTEM

_MAX_AHEAD = timedelta(minutes=5)
_END = frozenset({"result", "error"})
_bound: list[Callable[[Operation], object]] = []
_observed: list[Callable[[Operation, Seen, Observation], object]] = []
_learnt: list[Callable[[Operation], object]] = []


def on_bound(listener: Callable[[Operation], object]) -> None:
    """Call `listener` after an operation learned the seller's task_id."""
    if listener not in _bound:
        _bound.append(listener)


def on_observed(listener: Callable[[Operation, Seen, Observation], object]) -> None:
    """Call `listener(operation, seen, observation)` in the commit of every observation, after its effect."""
    if listener not in _observed:
        _observed.append(listener)


def on_late_result(listener: Callable[[Operation], object]) -> None:
    """Call `listener(operation)` when an operation whose end was published without a result learns it, in the
    commit that keeps it: news of its own."""
    if listener not in _learnt:
        _learnt.append(listener)


def observe(
    *, operation_id: uuid.UUID, seen: Seen, channel: str, actor: Who = "", answered: Lease | None = None
) -> Observation:
    """Record what was seen and let it have its effect, in one commit. `actor`: the person whose word it is.
    `answered`: the lease of the call of ours that ends with it; other news comes beside what is out.

    Answers the stored observation; its `outcome` says what it led to. A settled operation is then to be
    published (`publish.publish`), by the caller or by the next sweep. Raises Operation.DoesNotExist.
    """
    with transaction.atomic():
        operation = _held().get(pk=operation_id)
        was_bound = bool(operation.task_id)
        seen = _credible(seen)
        known = known_since({operation_id: (seen, channel)})
        with Writes() as writes:
            observation = _observe(operation, seen, channel, known, writes, actor)
        if answered is not None:
            leases_release([answered])
        _tell_observed(operation, seen, observation)
    if operation.task_id and not was_bound:
        _tell_bound(operation)
    return observation


def observe_many(
    sights: Mapping[uuid.UUID, tuple[Seen, str]], *, answered: Iterable[Lease] = ()
) -> list[Observation]:
    """`observe` for many operations, by id what was seen and the channel, in one commit with few statements.
    `answered`: the leases of the calls that end with it.

    Answers the stored observations; operations that somebody holds are left out. Raises what one of them
    raises, and then has recorded nothing.
    """
    with transaction.atomic():
        credible = {pk: (_credible(seen), channel) for pk, (seen, channel) in sights.items()}
        operations = list(_held(skip_locked=True).filter(pk__in=sights).order_by("pk"))
        unbound = [operation for operation in operations if not operation.task_id]
        known = known_since(credible)
        with Writes() as writes:
            observations = [_observe(o, *credible[o.pk], known, writes) for o in operations]
        held = {operation.pk for operation in operations}
        leases_release([lease for lease in answered if lease.id in held])
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


def _observe(
    operation: Operation, seen: Seen, channel: str, known: Known, writes: Writes, actor: Who = ""
) -> Observation:
    if _counts(operation, channel):
        operation.polls += 1  # written with what follows from it
    digest = _digest(operation, seen)
    verdict = judge(operation, seen, channel, digest, known)
    observation = _record(operation, seen, channel, digest, verdict)
    writes.observation(observation, whole=is_whole(channel, verdict))
    _apply(operation, seen, channel, verdict, writes, actor)
    return observation


def _tell_observed(operation: Operation, seen: Seen, observation: Observation) -> None:
    for listener in _observed:
        listener(operation, seen, observation)
    late = operation.status in SETTLED and operation.published_at is not None
    for learn in _learnt if late and observation.outcome == Observation.Outcome.APPLIED else ():
        learn(operation)


def _tell_bound(operation: Operation) -> None:
    for listener in _bound:
        listener(operation)


def _credible(seen: Seen) -> Seen:
    """Without the seller's time where its clock cannot be believed: one far ahead would make all its later
    news look old. With the error of a bad end, where it stands alone in the result."""
    if seen.error is None and seen.status in ENDED_BADLY:
        error = told_error((seen.payload or {}).get("error"))
        seen = replace(seen, error=error, message=seen.message or (error.message if error else None))
    if seen.at is None or clock.EARLIEST <= seen.at <= clock.now() + _MAX_AHEAD:
        return seen
    return replace(seen, at=None)


def _digest(operation: Operation, seen: Seen) -> str:
    context = operation.request.get("context")
    return observation_digest(seen, task_type=operation.task_type, sent_context=context)


def _record(operation: Operation, seen: Seen, channel: str, digest: str, verdict: Verdict) -> Observation:
    return Observation(
        operation=operation,
        seller_id=operation.seller_id,
        channel=channel,
        kind=kind_of(seen),
        status=seen.status,
        raw_status=(seen.raw_status or "")[:80],
        outcome=verdict.outcome,
        note=verdict.note,
        digest=digest,
        partial=seen.partial,
        body=body_of(seen),
        seller_at=seen.at,
        duration_ms=seen.duration_ms,
        error_code=(seen.error.code if seen.error else "")[:80],
        at=clock.now(),
    )


def _counts(operation: Operation, channel: str) -> bool:
    """Whether this is a poll by whose number the next one is timed."""
    return channel == Channel.POLL and operation.status not in SETTLED


def _apply(
    operation: Operation, seen: Seen, channel: str, verdict: Verdict, writes: Writes, actor: Who
) -> None:
    polled = {"polls": operation.polls} if _counts(operation, channel) else {}
    if verdict.to is None:
        changes = {**polled, **partial.look_again(operation), **(verdict.changes or {})}
        if operation.status in SETTLED and not _END.isdisjoint(changes):
            why = verdict.note or f"Seen by {channel}"
            note(operation, actor=actor or SYSTEM, reason=why, metadata={"channel": channel}, changes=changes)
        elif changes:
            writes.columns(operation, changes)
        return
    by_us = seen.kind != "answer"
    transition(
        operation,
        verdict.to,
        actor=actor or ("system" if by_us else f"agent:{operation.seller.slug}"),
        reason=f"Seen by {channel}: {seen.message or why_of(seen) or seen.raw_status or seen.status}"[:500],
        metadata={"channel": channel, "note": verdict.note},
        changes={**polled, **(verdict.changes or {})},
    )
