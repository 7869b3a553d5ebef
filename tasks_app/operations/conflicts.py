"""Contradictions of sellers: opened once each with both payloads, put to people, resolved by their decision.

The first answer stands until then (AdCP L3/async-identity-and-convergence, "One operation, competing
observations"). The storey that owns the operation's subject says what taking the second does.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.db.models import F, QuerySet

from tasks_app import clock
from tasks_app.adcp.types import Seen
from tasks_app.approvals.kinds import Effect, Kind, Outcome, kind_register
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.plain import as_text
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import DecisionRefusedError, approval_open
from tasks_app.canonical import canonical_digest
from tasks_app.lifecycle.references import next_reference
from tasks_app.lifecycle.transitions import exact
from tasks_app.notifications.services import About, notify
from tasks_app.operations.bodies import body_of
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.converge import on_observed
from tasks_app.operations.matching import mismatch
from tasks_app.operations.models import SETTLED, Channel, Observation, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.people.actors import SYSTEM
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.people.scope import asker_of

KIND = "conflict"
_OPEN_VERSION = 1
_NEVER_REBOUND = "A task’s id never changes once it is bound: what came second cannot be taken."
_NOBODYS = "Nothing here can be changed by what came second."


@dataclass(frozen=True, kw_only=True)
class ConflictResolution:
    """What the owner of a subject makes of a contradiction about it.

    `claim` records what the second answer names besides, if people have to decide about that by itself. It
    returns a sentence about it, and nobody decides about the contradiction (empty: people do). `add_subject`
    adds the subject to the question. `why_not` returns a sentence why the second answer cannot be taken
    (empty: it can), `effects` what keeping the first and taking the second do. `take` does it, rows only, in
    the commit of the decision.
    """

    claim: Callable[[Conflict], str]
    add_subject: Callable[[Conflict, Question], Question]
    why_not: Callable[[Conflict], str]
    effects: Callable[[Conflict], tuple[str, str]]
    take: Callable[[Conflict, Approval, Outcome], None]


_resolutions: dict[str, ConflictResolution] = {}


def register() -> None:
    """Called when the application starts."""
    on_observed(_observed)
    kind_register(
        Kind(
            name=KIND,
            label="Conflict",
            apply=_apply,
            version=_version,
            asks=lambda approval: _question(_locked(approval)),
            reopen=_reopen,
            effects={
                "approve": "What was first stands.",
                "reject": "What came second is taken, by a change of its own.",
                "nothing": "What was first stands, and it is asked about again.",
            },
            effects_now=_effects,
            outlives_job=True,
            decided={"approved": "what was first stands", "rejected": "what came second is taken"},
        )
    )


def resolution_register(subject_type: str, resolution: ConflictResolution) -> None:
    """Let the owner of `subject_type` say what its contradictions can come to."""
    _resolutions[subject_type] = resolution


def conflict_open(
    *,
    operation: Operation,
    kind: str,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    note: str = "",
) -> Conflict | None:
    """Keep a contradiction whole and ask people, in the caller's transaction.

    Return None if it is known already, or counted with one of its kind that is open: a seller that says
    something else at every look would otherwise put as many questions. `first` and `second` are {channel, at,
    status, task_id, value, body}.
    """
    # Of a delivery key the body is bound, whatever it says; else what was said, whatever carried it.
    named = ("body",) if kind == Conflict.Kind.KEY else ("status", "task_id", "value")
    digest = canonical_digest([second.get(name) for name in named])
    if Conflict.objects.filter(operation=operation, kind=kind, digest=digest).exists():
        return None
    # Two processes may see two at once.
    Operation.objects.select_for_update(no_key=True, of=("self",)).only("pk").get(pk=operation.pk)
    conflict = Conflict(
        operation=operation,
        team=operation.team,
        kind=kind,
        digest=digest,
        note=note,
        first=exact(first, floats=True),
        second=exact(second, floats=True),
        at=clock.now(),
    )
    resolution = _resolutions.get(operation.subject_type)
    claimed = resolution.claim(conflict) if resolution else ""
    known = _beside(conflict).filter(**({"reason": claimed} if claimed else {"resolved_at__isnull": True}))
    if known.update(more=F("more") + 1):
        return None
    if claimed:
        conflict.resolution, conflict.resolved_by = Conflict.Resolution.KEPT, SYSTEM
        conflict.resolved_at, conflict.reason = conflict.at, claimed
    if not _kept(conflict):
        return None
    stands = claimed or f"The first stands until somebody decides {conflict.reference}"
    _tell(conflict, f"{conflict.get_kind_display()}. {stands}.")
    if not claimed:
        conflict_ask(conflict)
    return conflict


def _beside(conflict: Conflict) -> QuerySet[Conflict]:
    """Those of its kind about the same operation."""
    return Conflict.objects.filter(operation=conflict.operation_id, kind=conflict.kind)


def _kept(conflict: Conflict) -> bool:
    """Whether it is kept now. Two processes may see the same at once: the operation's lock, or the database,
    makes it one."""
    conflict.reference = next_reference("CFL")
    Conflict.objects.bulk_create([conflict], ignore_conflicts=True)
    return Conflict.objects.filter(pk=conflict.pk).exists()


def _tell(conflict: Conflict, body: str) -> None:
    operation = conflict.operation
    notify(
        kind=KIND,
        title=f"{operation.seller} contradicts itself about {operation.reference}",
        body=body,
        level="warning",
        about=About(type="conflict", id=conflict.pk),
        team=operation.team,
        right="" if operation.team else STEER_OPERATION,
        key=f"conflict:{conflict.pk}",
    )


def conflict_ask(conflict: Conflict) -> Approval:
    """Ask the operation's team, else anybody with the right to decide; but who asked for what it is about."""
    asker = asker_of("operation", conflict.operation_id)
    return approval_open(question=_question(conflict), requested_by=asker, opened_by=SYSTEM)


def _question(conflict: Conflict) -> Question:
    question = _said(conflict)
    resolution = _resolutions.get(conflict.operation.subject_type)
    return resolution.add_subject(conflict, question) if resolution else question


def _said(conflict: Conflict) -> Question:
    """What was said first and second."""
    operation = conflict.operation
    return Question(
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
    )


def take_refusal(conflict: Conflict) -> str:
    """Why what came second cannot be taken; empty where it can."""
    if conflict.operation.status not in SETTLED:
        return _NEVER_REBOUND if conflict.kind == Conflict.Kind.TASK else _NOBODYS
    resolution = _resolutions.get(conflict.operation.subject_type)
    return resolution.why_not(conflict) if resolution else _NOBODYS


def choice_words(conflict: Conflict) -> tuple[str, str]:
    """Return what keeping the first and taking the second will do. The second is empty if refused."""
    resolution = _resolutions.get(conflict.operation.subject_type)
    keep, take = resolution.effects(conflict) if resolution else ("Nothing changes.", "")
    return keep, "" if take_refusal(conflict) else take


def _effects(asked: Sequence[Approval]) -> dict[uuid.UUID, dict[str, Effect]]:
    """What each answer to questions about contradictions does as things stand."""
    rows = Conflict.objects.filter(pk__in=[one.subject_id for one in asked], resolved_at__isnull=True)
    conflicts = {row.pk: row for row in rows.select_related("operation__seller")}
    found = {}
    for one in asked:
        if (conflict := conflicts.get(one.subject_id)) is not None:
            (keep, take), why_not = choice_words(conflict), take_refusal(conflict)
            said = {"approve": keep, "reject": f"Not possible: {why_not}" if why_not else take}
            found[one.pk] = {answer: Effect(words=words, sends=False) for answer, words in said.items()}
    return found


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
    resolution = _resolutions.get(conflict.operation.subject_type)
    if resolution is not None and taken:
        resolution.take(conflict, approval, outcome)


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
            "status": _word(seen.status, seen.raw_status),
            "task_id": seen.task_id or "",
            "value": _value(seen.payload, asdict(seen.error) if seen.error else None),
            "body": body_of(seen),
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
    seen = _applied(operation).first()
    return {
        "channel": operation.settled_by or (seen.channel if seen else Channel.REPLY),
        "at": seen.at if seen else operation.status_since,
        "status": _word(seen.status, seen.raw_status) if seen else operation.status,
        "task_id": operation.task_id,
        "value": _value(operation.result, operation.error),
        "body": seen.body if seen else None,
    }


def _applied(operation: Operation) -> QuerySet[Observation]:
    """What was taken in of it, the last first."""
    return operation.observations.filter(outcome=Observation.Outcome.APPLIED).order_by("-id")


def _word(status: str, raw: str | None) -> str:
    """The task's status, in whichever words it was told; theirs where it is none."""
    return (raw or status) if status == "unknown" else status


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
