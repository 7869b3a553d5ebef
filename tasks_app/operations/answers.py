"""Answering a paused task: only through a continuation that the transport itself supplied, once a generation.

An answer is frozen, and released by a second person where money moves. New credentials answer a pause that
asked for them. What becomes of it then is in `pauses`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from tasks_app import clock
from tasks_app.approvals.kinds import Kind, Outcome, kind_register, on_closed
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.plain import as_text
from tasks_app.approvals.services import approval_open
from tasks_app.commands.questions import GateUnaskedError
from tasks_app.commands.services import Wanted, command_run
from tasks_app.lifecycle.transitions import exact
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.execution import ANSWER as SEND
from tasks_app.operations.execution import NAME
from tasks_app.operations.models import PENDING, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pauses import ANSWER, answer_take_back, continuation_current
from tasks_app.operations.questions import operation_question
from tasks_app.operations.resend import resend_is_safe
from tasks_app.operations.steered import SteeringRefusedError, steered, steered_note
from tasks_app.people.actors import actor_key
from tasks_app.people.models import Team, User
from tasks_app.sellers.models import Seller
from tasks_app.sellers.services import on_credentials

_MAX_ANSWER = 64 * 1024  # characters of JSON
# Ours to say, never part of an answer.
_OURS = frozenset(
    {"idempotency_key", "push_notification_config", "context", "adcp_version", "adcp_major_version"}
)


def register() -> None:
    """Called when the application starts."""
    on_credentials(_renewed)
    on_closed(_closed)
    kind_register(
        Kind(
            name=ANSWER,
            label="Answer to a seller",
            apply=_apply,
            version=_version,
            reopen=lambda approval: None,
            effects={
                "approve": "Sends the answer to the seller, once.",
                "reject": "Nothing is sent; the seller’s question stays open.",
                "nothing": "Nothing is sent. Waiting never approves.",
            },
        )
    )


@transaction.atomic
def operation_answer(
    *,
    operation_id: uuid.UUID,
    generation: int,
    user: User,
    text: str = "",
    changes: Mapping[str, Any] | None = None,
) -> Continuation:
    """Answer the pause `generation`: in words, and by arguments of the task that replace those sent before.

    For a task that may move money another person releases it. Raises SteeringRefusedError: `stale` when
    another generation is current (it names it), `in_progress` when this one was answered, `impossible`
    without a verified continuation.
    """
    operation = steered(operation_id, user)
    current = _answerable(operation, generation)
    changed = _checked(operation, text.strip(), changes or {})
    _freeze(current, operation, actor=actor_key(user), text=text.strip(), changes=changed)
    steered_note(operation, user, f"answered pause {generation}", text.strip())
    if operation.is_mutation and operation.team is not None:
        _ask(operation, operation.team, current)
    else:
        _release(operation, current, actor_key(user))
    return current


def _answerable(operation: Operation, generation: int) -> Continuation:
    """Raises SteeringRefusedError."""
    if operation.status == S.TIMED_OUT:
        raise SteeringRefusedError("state", "It is overdue: decide first whether to keep waiting.")
    current = continuation_current(operation)
    if operation.status not in PENDING or current is None:
        raise SteeringRefusedError(
            "impossible", "The seller’s transport gave no way to answer: wait, write to the seller, or stop."
        )
    if current.generation != generation:
        again = f"The seller has asked again: pause {current.generation} is current."
        raise SteeringRefusedError("stale", again)
    if current.answered_at is not None:
        raise SteeringRefusedError("in_progress", "It was answered already; the answer is on its way.")
    if current.expires_at <= clock.now():
        raise SteeringRefusedError("impossible", "The pause is too old to be answered.")
    return current


def _checked(operation: Operation, text: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    if not text and not changes:
        raise SteeringRefusedError("answer", "Say something, or change an argument of the task.")
    if len(text) + len(json.dumps(changes, default=str)) > _MAX_ANSWER:
        raise SteeringRefusedError("answer", "The answer is too long.")
    ours = sorted(_OURS & set(changes))
    if ours:
        raise SteeringRefusedError("answer", f"{', '.join(ours)} cannot be answered: they are ours.")
    return dict(changes)


def _freeze(
    current: Continuation, operation: Operation, *, actor: str, text: str, changes: dict[str, Any]
) -> None:
    """The complete request under a key of its own: other bytes under the old key would be a conflict."""
    sent = {**json.loads(operation.request_text), **changes}
    if operation.idempotency_key is not None:
        sent["idempotency_key"] = str(uuid.uuid4())
    current.request_text = json.dumps(sent, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    current.answer = exact({"text": text, "changes": changes}, floats=True)
    current.answered_by, current.answered_at = actor, clock.now()
    current.save(update_fields=["request_text", "answer", "answered_by", "answered_at"])


def _release(operation: Operation, current: Continuation, actor: str) -> None:
    """The answer is a command of its own: sent once, or waiting at a gate. Raises SteeringRefusedError."""
    answered_at = int((current.answered_at or clock.now()).timestamp() * 1_000_000)
    wanted = Wanted(
        kind=SEND,
        adapter=NAME,
        payload={
            "operation": str(operation.pk),
            "continuation": str(current.pk),
            "answer": exact(current.answer, floats=True),
        },
        team=operation.team,
        seller=operation.seller,
        subject_type="operation",
        subject_id=operation.pk,
    )
    try:
        command_run(key=f"answer:{current.pk}:{answered_at}", wanted=wanted, actor=actor)
    except GateUnaskedError as error:
        raise SteeringRefusedError("state", str(error)) from error


def _ask(operation: Operation, team: Team, current: Continuation) -> None:
    answer = current.answer or {}
    question = operation_question(
        operation,
        kind=ANSWER,
        team=team,
        title=f"Answer {operation.seller.name} about {operation.reference}",
        evidence={
            "seller": operation.seller.name,
            "task": operation.task_type,
            "asked_by_seller": current.asked,
            "answer": answer.get("text", ""),
            "changes": as_text(answer.get("changes", {})),
            "changes_in_words": json.dumps(answer.get("changes", {}), ensure_ascii=False),
        },
        policy="An answer may move money, one approver",
        version=current.generation,
    )
    approval_open(question=question, requested_by=current.answered_by)


def _apply(approval: Approval, outcome: Outcome) -> None:
    operation = Operation.objects.select_for_update(no_key=True).get(pk=approval.subject_id)
    current = continuation_current(operation)
    if current is None or current.released_at is not None:
        return
    if outcome.answer == "approved":
        _release(operation, current, current.answered_by)
        return
    answer_take_back(current.pk)


def _closed(approval: Approval) -> None:
    """A question that was voided (overdue meanwhile) leaves the pause to be answered anew."""
    if approval.kind != ANSWER or approval.status != ApprovalStatus.VOIDED:
        return
    current = continuation_current(Operation.objects.get(pk=approval.subject_id))
    waits = current is not None and current.generation == approval.subject_version
    if current is not None and waits and current.released_at is None:
        answer_take_back(current.pk)


def _version(approval: Approval) -> int | None:
    """The generation, while its answer waits for release."""
    operation = Operation.objects.select_for_update(no_key=True).get(pk=approval.subject_id)
    current = continuation_current(operation)
    if current is None or current.answered_at is None or operation.status not in PENDING:
        return None
    return current.generation


def _renewed(seller: Seller, actor: str) -> None:
    """New credentials: whatever waited for them goes on at once."""
    waiting = Operation.objects.filter(seller=seller, status=S.AUTH_REQUIRED, settled_at__isnull=True)
    for operation in waiting.select_related("seller").select_for_update(of=("self",), no_key=True):
        current = continuation_current(operation)
        if current is not None and current.answered_at is None and current.expires_at > clock.now():
            _freeze(current, operation, actor=actor, text="", changes={})
            _release(operation, current, actor)
        elif operation.task_id:
            Operation.objects.filter(pk=operation.pk).update(next_poll_at=clock.now())
        elif resend_is_safe(operation):
            Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
