"""What people do to an operation by hand: look now, send the same again, stop waiting, settle it.

Each takes the right to steer; what moves money is proposed here and decided by somebody else.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import timedelta
from itertools import islice
from typing import Any, Literal

from django.conf import settings
from django.db import transaction

from tasks_app import clock
from tasks_app.adcp.types import Seen, WireError
from tasks_app.adcp.values import identity_of
from tasks_app.approvals.kinds import Kind, Outcome, kind_register
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.plain import as_text
from tasks_app.approvals.question import Question
from tasks_app.approvals.sent import leaves
from tasks_app.approvals.services import approval_open
from tasks_app.approvals.subjects import questions_set_off
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.conflicts import conflict_asked
from tasks_app.operations.converge import observe
from tasks_app.operations.deadlines import overdue_tell
from tasks_app.operations.leases import operation_is_out
from tasks_app.operations.models import PENDING, SETTLED, UNKNOWN_TYPE, Channel, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.overdue import overdue_ask, overdue_withdraw, wait_on
from tasks_app.operations.pauses import answer_let_leave
from tasks_app.operations.publish import publish_or_leave
from tasks_app.operations.questions import operation_question
from tasks_app.operations.resend import refusal_of
from tasks_app.operations.selectors import conflicts_of
from tasks_app.operations.steered import (
    RESENT,
    SteeringRefusedError,
    led_to,
    senders,
    steered,
    steered_note,
)
from tasks_app.people.actors import SYSTEM, actor_ensure, actor_key
from tasks_app.people.models import User
from tasks_app.people.setting_off import reach_register, set_off_register

SETTLE = "settle_by_hand"
ENDS = ("completed", "failed", "rejected", "canceled")
_ENDS_OF_A_READ = ENDS[1:]
End = Literal["completed", "failed", "rejected", "canceled"]
_PROPOSED = ("end", "reason", "evidence", "result")
_LONGEST_ID = 255
_MOST_RESULT = 200  # values of what is recorded as the seller's answer, which whoever approves reads
_LEAST_EVIDENCE = 10  # characters: a letter's number, an address, who said it when


def register() -> None:
    """Called when the application starts."""
    set_off_register(senders)
    reach_register(led_to)
    kind_register(
        Kind(
            name=SETTLE,
            label="Settle by hand",
            apply=_apply,
            version=_version,
            asks=_question_again,
            reopen=_reopen,
            effects={
                "approve": "Records the end that the evidence shows, and what follows from it.",
                "reject": "Nothing is recorded; the seller’s own word is waited for.",
                "nothing": "Nothing is recorded. Waiting never approves.",
            },
            outlives_job=True,
            wished=True,
        )
    )


@transaction.atomic
def operation_poll(*, operation_id: uuid.UUID, user: User) -> Operation:
    """Make an operation that the seller knows by a task due to be looked at. Raises SteeringRefusedError."""
    operation = steered(operation_id, user)
    refused = poll_refusal(operation)
    if refused:
        raise SteeringRefusedError("state", refused)
    operation.next_poll_at = clock.now()
    operation.save(update_fields=["next_poll_at"])
    steered_note(operation, user, "poll now")
    return operation


@transaction.atomic
def operation_resend(*, operation_id: uuid.UUID, user: User, reason: str) -> Operation:
    """Send the same bytes under the same key once more; what was overdue is waited for again.

    Only while the seller replays the key. Raises SteeringRefusedError.
    """
    questions_set_off("operation", operation_id, actor=user, why=f"sent again: {reason}")
    operation = steered(operation_id, user)
    _reasoned(reason)
    refused = resend_refusal(operation)
    if refused:
        raise SteeringRefusedError("state", refused)
    if operation.status == S.TIMED_OUT:
        wait_on(operation, actor=user, reason=reason, send_again=True)
        overdue_withdraw(operation, "The same was sent again", user)
    else:
        Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
    steered_note(operation, user, RESENT, reason)
    return operation


@transaction.atomic
def operation_stop(*, operation_id: uuid.UUID, user: User, reason: str) -> Operation:
    """Declare it overdue now and ask whether to give it up; a read is given up at once.

    Somebody else decides: giving up fails what waits for it, while the seller may still act. Raises
    SteeringRefusedError.
    """
    operation = steered(operation_id, user)
    _reasoned(reason)
    refused = stop_refusal(operation)
    if refused:
        raise SteeringRefusedError("state", refused)
    transition(
        operation,
        S.TIMED_OUT,
        actor=user,
        reason=reason,
        changes={
            "overdue_at": clock.now(),
            "overdue_told_at": clock.now(),  # it is asked about here
            "send_at": None,
        },
    )
    steered_note(operation, user, "stop waiting", reason)
    overdue_ask(operation, requested_by=user, why=reason, opened_by=user)
    overdue_tell(operation, but=overdue_ask)
    return operation


@transaction.atomic
def operation_settle(
    *,
    operation_id: uuid.UUID,
    user: User,
    end: str,
    reason: str,
    evidence: str,
    result: Mapping[str, Any] | None = None,
) -> Approval | None:
    """Propose an end that the seller told by another way; the approval, or None where it is recorded. Of no
    team anybody else with the right to decide is asked.

    `end` is an AdCP task status of `ENDS`, `result` the task's own result (a purchase's names the media buy),
    `evidence` says where it stands. A read's end is recorded at once, and is a bad one: what it would have
    told is taken for its seller's word. Raises SteeringRefusedError.
    """
    operation = steered(operation_id, user)
    _reasoned(reason)
    refused = settle_refusal(operation)
    if refused:
        raise SteeringRefusedError("state", refused)
    waiting = _proposed(operation)
    if waiting is not None:
        raise SteeringRefusedError(
            "state", f"{waiting.reference} proposes another end already: have that decided first."
        )
    proposal = _proposal(operation, end, reason, evidence, result or {})
    steered_note(operation, user, f"settle by hand as {end}", f"{reason} ({proposal['evidence']})")
    if operation.is_mutation:
        return approval_open(question=_question(operation, proposal), requested_by=user, opened_by=user)
    _record(operation, proposal, actor_key(user))
    return None


@transaction.atomic
def conflict_write(*, conflict_id: uuid.UUID, user: User, reason: str) -> Conflict:
    """Record that the seller was written to about a contradiction; it stays open, and what is pending is
    looked at now. Raises SteeringRefusedError."""
    found = conflicts_of(user).filter(pk=conflict_id, resolved_at__isnull=True).first()
    if found is None:
        raise SteeringRefusedError("not_found", "There is no such open conflict in your teams.")
    operation = steered(found.operation_id, user)
    _reasoned(reason)
    conflict_asked(conflict=found, actor=actor_ensure(user=user).key)
    if not poll_refusal(operation):
        Operation.objects.filter(pk=operation.pk).update(next_poll_at=clock.now())
    steered_note(operation, user, f"wrote to the seller about {found.reference}", reason)
    return found


def question_of(operation: Operation) -> Approval | None:
    """The open question about it, such as what somebody proposed."""
    asked = Approval.objects.filter(subject_type="operation", subject_id=operation.pk)
    return asked.filter(status=ApprovalStatus.OPEN).order_by("-pk").first()


def _proposed(operation: Operation) -> Approval | None:
    """The open question whether an end that somebody proposed is recorded."""
    asked = Approval.objects.filter(kind=SETTLE, subject_type="operation", subject_id=operation.pk)
    return asked.filter(status=ApprovalStatus.OPEN).first()


def poll_refusal(operation: Operation) -> str:
    """Why it cannot be looked at; empty when it can."""
    if operation.status in SETTLED or not operation.task_id:
        return f"{operation.reference} is not waiting at the seller: there is nothing to poll."
    if operation.settled_at is not None and operation.next_poll_at is None:
        return f"{operation.reference} was given up."
    if operation.seller.task_tool is None:
        return f"{operation.seller.name} has no tool that tells of a task."
    return ""


def resend_refusal(operation: Operation) -> str:
    """Why the same cannot be sent again; empty when it can."""
    if operation.status in SETTLED or operation.settled_at is not None:
        return "It has ended: nothing is sent again."
    if operation.sent_at is None or operation.status == S.REQUESTED:
        return "It was not sent yet."
    if operation_is_out(operation.pk):
        return "A call is out at this moment."
    if operation.task_type == UNKNOWN_TYPE:
        return "It was found at the seller: there is nothing of ours to send."
    if answer_let_leave(operation):
        return "Our answer to its seller’s question waits: the first request is not sent beside it."
    refused = refusal_of(operation) if operation.is_mutation else ""
    if refused:
        return f"It was refused: {refused}"
    if operation.is_mutation and not _is_replayed(operation):
        return "The seller no longer recognises its key: the same again could buy twice."
    return ""


def stop_refusal(operation: Operation) -> str:
    """Why waiting cannot be stopped; empty when it can."""
    if operation.status == S.TIMED_OUT:
        return "It was given up." if operation.settled_at else "It is overdue: the open question decides."
    if operation.status not in (*PENDING, S.CALLING_ADCP):
        return "It is not waiting for the seller."
    return "A call is out at this moment." if operation_is_out(operation.pk) else ""


def settle_refusal(operation: Operation) -> str:
    """Why it cannot be settled by hand; empty when it can."""
    if operation.status in SETTLED:
        return "It has ended by the seller’s word."
    if operation.status == S.REQUESTED:
        return "It was not sent yet."
    return "A call is out at this moment." if operation_is_out(operation.pk) else ""


def ends_of(operation: Operation) -> tuple[str, ...]:
    """As what it can be settled by hand. What a read tells changes accounts, deals and offers in its seller's
    name, so only its seller tells it."""
    return ENDS if operation.is_mutation else _ENDS_OF_A_READ


def _is_replayed(operation: Operation) -> bool:
    """Whether the seller surely answers the key with what it did: its window less one call."""
    if operation.sent_at is None or operation.seller.idempotency_ttl_s is None:
        return False
    window = timedelta(seconds=operation.seller.idempotency_ttl_s - settings.WORKING_TIMEOUT_S)
    return clock.now() < operation.sent_at + window


def _reasoned(reason: str) -> None:
    if not reason.strip():
        raise SteeringRefusedError("reason", "Say why.")


def _proposal(
    operation: Operation, end: str, reason: str, evidence: str, result: Mapping[str, Any]
) -> dict[str, Any]:
    """Raises SteeringRefusedError."""
    ends = ends_of(operation)
    if end not in ends:
        raise SteeringRefusedError("evidence", f"An end of it by hand is one of {', '.join(ends)}.")
    if len(evidence.strip()) < _LEAST_EVIDENCE:
        where = "Say where the seller said so: a letter, a page, a call and its time."
        raise SteeringRefusedError("evidence", where)
    if sum(1 for _ in islice(leaves(dict(result)), _MOST_RESULT + 1)) > _MOST_RESULT:
        raise SteeringRefusedError(
            "result", f"At most {_MOST_RESULT} values: whoever approves reads them all."
        )
    named = identity_of(result.get("media_buy_id"), longest=_LONGEST_ID)
    if end == "completed" and operation.task_type == "create_media_buy" and named is None:
        raise SteeringRefusedError("evidence", "A purchase that was made has a media_buy_id: name it.")
    return {
        "end": end,
        "reason": reason.strip(),
        "evidence": evidence.strip(),
        "result": as_text(dict(result)),
    }


def _question(operation: Operation, proposal: Mapping[str, Any]) -> Question:
    return operation_question(
        operation,
        kind=SETTLE,
        team=operation.team,
        title=f"Settle {operation.reference} by hand: {proposal['end']}",
        evidence={
            "seller": operation.seller.name,
            "task": operation.task_type,
            "last_message": operation.message,
            "media_buy_id": str(proposal["result"].get("media_buy_id", "")),
            **proposal,
        },
        policy="Settled by hand, one approver",
    )


def _question_again(approval: Approval) -> Question:
    """About the operation as it is now; what is proposed stands in the question alone."""
    operation = Operation.objects.select_related("seller", "team").get(pk=approval.subject_id)
    return _question(operation, _proposed_in(approval))


def _apply(approval: Approval, outcome: Outcome) -> None:
    if outcome.answer != "approved":
        return
    operation = Operation.objects.select_related("seller").get(pk=approval.subject_id)
    _record(operation, approval.evidence, outcome.actor)


def _record(operation: Operation, proposal: Mapping[str, Any], actor: str) -> None:
    """The observation that settles it, by the person whose word it is in the end."""
    end = str(proposal["end"])
    error = None
    if end != "completed":
        error = WireError(code="X_FLIGHTDECK_BY_HAND", message=str(proposal["reason"]), recovery="terminal")
    seen = Seen(
        kind="answer",
        status=end,
        raw_status=end,
        message=f"Settled by hand: {proposal['reason']}",
        payload=dict(proposal["result"]) if end == "completed" else None,
        error=error,
        raw={**{k: proposal[k] for k in ("end", "reason", "evidence", "result")}, "by": actor},
    )
    observe(operation_id=operation.pk, seen=seen, channel=Channel.HUMAN, actor=actor)
    transaction.on_commit(lambda: publish_or_leave(operation_id=operation.pk))


def _version(approval: Approval) -> int | None:
    """The operation's; None once it has ended by the seller's word."""
    found = Operation.objects.filter(pk=approval.subject_id).exclude(status__in=SETTLED)
    # Held still until the decision's commit.
    return found.select_for_update(no_key=True).values_list("version", flat=True).first()


def _reopen(approval: Approval) -> None:
    operation = Operation.objects.select_related("seller", "team").get(pk=approval.subject_id)
    if operation.status not in SETTLED:
        question = _question(operation, _proposed_in(approval))
        approval_open(question=question, requested_by=approval.requested_by, opened_by=SYSTEM)


def _proposed_in(approval: Approval) -> dict[str, Any]:
    return {name: approval.evidence[name] for name in _PROPOSED}
