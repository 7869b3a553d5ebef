"""Contradictions of sellers: opened once each with both payloads, put to people, resolved by their decision.

What was first stands until then (AdCP L3/async-identity-and-convergence, "One operation, competing
observations"). What taking the second does is the business of the storey that owns the operation's subject.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.kinds import Kind, Outcome, kind_register
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.plain import as_text
from tasks_app.approvals.services import DecisionRefusedError, Question, approval_open
from tasks_app.canonical import canonical_digest
from tasks_app.lifecycle.references import next_reference
from tasks_app.lifecycle.transitions import exact
from tasks_app.notifications.services import About, notify
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.converge import on_observed
from tasks_app.operations.matching import mismatch
from tasks_app.operations.models import SETTLED, Channel, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.people.actors import SYSTEM
from tasks_app.people.roles import STEER_OPERATION

KIND = "conflict"
_OPEN_VERSION = 1
_NEVER_REBOUND = "A task’s id never changes once it is bound: what came second cannot be taken."
_NOBODYS = "Nothing here can be changed by what came second."


@dataclass(frozen=True, kw_only=True)
class Taker:
    """What the owner of a subject makes of a contradiction about it.

    `why_not` says in a sentence why what came second cannot be taken (empty: it can); `words` what keeping
    the first and taking the second do. `keep` and `take` do it, rows only, in the commit of the decision.
    """

    why_not: Callable[[Conflict], str]
    words: Callable[[Conflict], tuple[str, str]]
    keep: Callable[[Conflict, Approval, Outcome], None]
    take: Callable[[Conflict, Approval, Outcome], None]


_takers: dict[str, Taker] = {}


def register() -> None:
    """Called when the application starts."""
    on_observed(_observed)
    kind_register(
        Kind(
            name=KIND,
            label="Conflict",
            apply=_apply,
            version=_version,
            reopen=_reopen,
            effects={
                "approve": "What was first stands.",
                "reject": "What came second is taken, by a change of its own.",
                "nothing": "What was first stands, and it is asked about again.",
            },
        )
    )


def taker_register(subject_type: str, taker: Taker) -> None:
    """Let the owner of `subject_type` say what its contradictions can come to."""
    _takers[subject_type] = taker


def conflict_open(
    *,
    operation: Operation,
    kind: str,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    note: str = "",
) -> Conflict | None:
    """Keep a contradiction whole and ask people, in the caller's transaction; None where it is known already.

    `first` and `second` are {channel, at, status, task_id, value, body}.
    """
    # Of a delivery key the body is bound, whatever it says; else what was said, whatever carried it.
    named = ("body",) if kind == Conflict.Kind.KEY else ("status", "task_id", "value")
    digest = canonical_digest([second.get(name) for name in named])
    if Conflict.objects.filter(operation=operation, kind=kind, digest=digest).exists():
        return None
    conflict = Conflict(
        reference=next_reference("CFL"),
        operation=operation,
        team=operation.team,
        kind=kind,
        digest=digest,
        note=note,
        first=exact(first, floats=True),
        second=exact(second, floats=True),
        at=clock.now(),
    )
    # Two processes may see the same at once: the operation's lock, or the database, makes it one.
    Conflict.objects.bulk_create([conflict], ignore_conflicts=True)
    if not Conflict.objects.filter(pk=conflict.pk).exists():
        return None
    notify(
        kind=KIND,
        title=f"{operation.seller} contradicts itself about {operation.reference}",
        body=f"{conflict.get_kind_display()}. The first stands until somebody decides {conflict.reference}.",
        level="warning",
        about=About(type="conflict", id=conflict.pk),
        team=operation.team,
        right="" if operation.team else STEER_OPERATION,
        key=f"conflict:{conflict.pk}",
    )
    conflict_ask(conflict)
    return conflict


def conflict_ask(conflict: Conflict) -> Approval | None:
    """Ask the operation's team; None where it has none (Ad Ops were told)."""
    operation = conflict.operation
    if conflict.team is None:
        return None
    return approval_open(
        question=Question(
            kind=KIND,
            team=conflict.team,
            title=f"{operation.seller} contradicts itself about {operation.reference}",
            subject_type="conflict",
            subject_id=conflict.pk,
            subject_version=_OPEN_VERSION,
            evidence={
                "conflict": conflict.reference,
                "operation": operation.reference,
                "seller": operation.seller.name,
                "task": operation.task_type,
                "what": conflict.get_kind_display(),
                "note": conflict.note,
                "first_said": f"{conflict.first['status']}, by {conflict.first['channel']}",
                "second_said": f"{conflict.second['status']}, by {conflict.second['channel']}",
                "first": as_text(conflict.first),
                "second": as_text(conflict.second),
            },
            policy="A seller contradicts itself",
        ),
        requested_by=SYSTEM,
    )


def conflict_reopen(*, conflict_id: uuid.UUID, why: str) -> None:
    """What was decided could not be done: the question is open again."""
    conflict = _select().get(pk=conflict_id)
    if conflict.resolved_at is None:
        return
    conflict.resolution, conflict.resolved_by, conflict.resolved_at = "", "", None
    conflict.note = f"{conflict.note}; {why}".lstrip("; ")
    conflict.save(update_fields=["resolution", "resolved_by", "resolved_at", "note"])
    conflict_ask(conflict)


def take_refusal(conflict: Conflict) -> str:
    """Why what came second cannot be taken; empty where it can."""
    if conflict.operation.status not in SETTLED:
        return _NEVER_REBOUND if conflict.kind == Conflict.Kind.TASK else _NOBODYS
    taker = _takers.get(conflict.operation.subject_type)
    return taker.why_not(conflict) if taker else _NOBODYS


def choice_words(conflict: Conflict) -> tuple[str, str]:
    """What keeping the first and taking the second will do; the second is empty where it cannot be."""
    taker = _takers.get(conflict.operation.subject_type)
    keep, take = taker.words(conflict) if taker else ("Nothing changes.", "")
    return keep, "" if take_refusal(conflict) else take


def _apply(approval: Approval, outcome: Outcome) -> None:
    conflict = _locked(approval)
    if conflict.resolved_at is not None:
        return
    if outcome.answer == "expired":
        conflict_ask(conflict)
        return
    taken = outcome.answer == "rejected"
    why_not = take_refusal(conflict) if taken else ""
    if why_not:
        raise DecisionRefusedError("impossible", why_not)
    conflict.resolution = Conflict.Resolution.TAKEN if taken else Conflict.Resolution.KEPT
    conflict.resolved_by, conflict.resolved_at, conflict.reason = outcome.actor, clock.now(), outcome.comment
    conflict.save(update_fields=["resolution", "resolved_by", "resolved_at", "reason"])
    taker = _takers.get(conflict.operation.subject_type)
    if taker is not None:
        (taker.take if taken else taker.keep)(conflict, approval, outcome)


def _reopen(approval: Approval) -> None:
    conflict_ask(_locked(approval))


def _version(approval: Approval) -> int | None:
    """None once it is resolved: what is shown never changes before."""
    found = Conflict.objects.filter(pk=approval.subject_id, resolved_at__isnull=True)
    # Held still until the decision's commit.
    return _OPEN_VERSION if found.select_for_update(no_key=True).exists() else None


def _locked(approval: Approval) -> Conflict:
    return _select().get(pk=approval.subject_id)


def _select() -> QuerySet[Conflict]:
    # The operation is read, not locked: its own door (observe) is the only one that changes its end.
    return Conflict.objects.select_related("operation__seller", "operation__team", "team").select_for_update(
        of=("self",), no_key=True
    )


def _observed(operation: Operation, seen: Seen, observation: Observation) -> None:
    if observation.outcome != Observation.Outcome.CONFLICT:
        return
    conflict_open(
        operation=operation,
        kind=_kind_of(operation, seen),
        first=_first_of(operation),
        second={
            "channel": observation.channel,
            "at": observation.at,
            "status": seen.raw_status or seen.status,
            "task_id": seen.task_id or "",
            "value": _value(seen.payload, asdict(seen.error) if seen.error else None),
            "body": observation.body,
        },
        note=observation.note,
    )


def _kind_of(operation: Operation, seen: Seen) -> str:
    if operation.status == S.REQUESTED:
        return Conflict.Kind.UNSENT
    another_end = operation.status in SETTLED and not mismatch(operation, seen)
    return Conflict.Kind.TERMINAL if another_end else Conflict.Kind.TASK


def _first_of(operation: Operation) -> dict[str, Any]:
    """What stands: the winner's, or the last that was taken in."""
    seen = operation.observations.filter(outcome=Observation.Outcome.APPLIED).order_by("-id").first()
    return {
        "channel": operation.settled_by or (seen.channel if seen else Channel.REPLY),
        "at": seen.at if seen else operation.status_since,
        "status": seen.raw_status or seen.status if seen else operation.status,
        "task_id": operation.task_id,
        "value": _value(operation.result, operation.error),
        "body": seen.body if seen else None,
    }


def _value(result: dict[str, Any] | None, error: dict[str, Any] | None) -> dict[str, Any] | None:
    """The task's own result, with its error where there is one."""
    return result if error is None else {**(result or {}), "error": error}


def conflict_asked(*, conflict: Conflict, actor: str) -> None:
    """Record that somebody wrote to the seller about it; it stays open."""
    Conflict.objects.filter(pk=conflict.pk).update(asked_by=actor, asked_at=clock.now())


def conflict_question(conflict: Conflict) -> Approval | None:
    """The open question about it."""
    return Approval.objects.filter(
        kind=KIND, subject_type="conflict", subject_id=conflict.pk, status=ApprovalStatus.OPEN
    ).first()
