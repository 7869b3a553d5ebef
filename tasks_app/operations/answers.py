"""Answering a paused task: only through a continuation that the transport itself supplied, once a generation.

An answer is frozen, and released by a second person where money moves. New credentials answer a pause that
asked for them. What becomes of it then is in `pauses`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction

from tasks_app import clock
from tasks_app.approvals.kinds import EffectRefusedNowError, Kind, Outcome, kind_register, on_closed
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.plain import as_text
from tasks_app.approvals.question import Question, is_as_shown
from tasks_app.approvals.services import approval_open
from tasks_app.commands.services import Wanted, command_run
from tasks_app.lifecycle.transitions import Who, exact
from tasks_app.operations.answering import answer_problem, answer_question, answer_released, answer_stands
from tasks_app.operations.continuation import Continuation
from tasks_app.operations.execution import ANSWER as SEND
from tasks_app.operations.execution import NAME
from tasks_app.operations.leaving import Leaving, last_look_register
from tasks_app.operations.models import PENDING, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pauses import (
    ANSWER,
    answer_hold_back,
    answer_key,
    answer_release,
    answer_take_back,
    arguments_let_go,
    can_continue,
    continuation_current,
)
from tasks_app.operations.questions import operation_question
from tasks_app.operations.resend import is_unaccounted, resend_is_safe
from tasks_app.operations.services import send_with_time, time_anew
from tasks_app.operations.steered import SteeringRefusedError, steered, steered_note
from tasks_app.operations.sweep import chore_register
from tasks_app.people.actors import SYSTEM, actor_key
from tasks_app.people.models import User
from tasks_app.sellers.models import Seller
from tasks_app.sellers.trust import credentials_given, on_credentials
from tasks_app.troubles.rows import due_again, each_row
from tasks_app.troubles.works import work_on

_WORK = work_on("credentials_used", "operation")
_AT_ONCE = 100
_MAX_ANSWER = 64 * 1024  # characters of JSON
# Ours to say, never part of an answer.
_OURS = frozenset(
    {"idempotency_key", "push_notification_config", "context", "adcp_version", "adcp_major_version"}
)


def register() -> None:
    """Called when the application starts."""
    last_look_register(_looked_at)
    on_credentials(_renewed)
    chore_register("credentials_used", credentials_use_again)
    on_closed(_closed)
    kind_register(
        Kind(
            name=ANSWER,
            label="Answer to a seller",
            apply=_apply,
            version=_version,
            asks=_question_again,
            reopen=lambda approval: None,
            effects={
                "approve": "Sends the answer to the seller, once.",
                "reject": "Nothing is sent; the seller’s question stays open.",
                "nothing": "Nothing is sent. Waiting never approves.",
            },
            sends=frozenset({"approve"}),
            spends=True,
            outlives_job=True,
            wished=True,
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

    For a task that may move money another person releases it, where it is of no team anybody with the right
    to decide. Raises SteeringRefusedError: `stale` when another generation is current (it names it),
    `in_progress` when this one was answered, `impossible` without a verified continuation.
    """
    operation = steered(operation_id, user)
    current = _answerable(operation, generation)
    changed = _checked(operation, text.strip(), changes or {})
    why = answer_problem(operation, _request(operation, changed))
    if why:
        raise SteeringRefusedError("answer", why)
    _freeze(current, operation, actor=actor_key(user), text=text.strip(), changes=changed)
    steered_note(operation, user, f"answered pause {generation}", text.strip())
    if operation.is_mutation:
        _ask(operation, current, opened_by=user)
    else:
        _release(operation, current, actor_key(user))
    return current


def _answerable(operation: Operation, generation: int) -> Continuation:
    """Raises SteeringRefusedError."""
    if operation.status == S.TIMED_OUT:
        raise SteeringRefusedError("state", "It is overdue: decide first whether to keep waiting.")
    current = continuation_current(operation)
    if operation.status not in PENDING or current is None or not can_continue(operation):
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
    sent = _request(operation, changes)
    if operation.idempotency_key is not None:
        sent["idempotency_key"] = str(uuid.uuid4())
    current.request_text = json.dumps(sent, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    current.answer = exact({"text": text, "changes": changes}, floats=True)
    current.answered_by, current.answered_at = actor, clock.now()
    current.save(update_fields=["request_text", "answer", "answered_by", "answered_at"])


def _request(operation: Operation, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The task's arguments as people last let them go, with what the answer says otherwise."""
    return {**arguments_let_go(operation), **changes}


def _release(operation: Operation, current: Continuation, actor: str) -> None:
    """The answer is a command of its own: sent once, or waiting at a gate. A read's passes none."""
    answer_released(operation, current.arguments)
    if not operation.is_mutation:
        answer_release(operation, current.pk)
        return
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
    command_run(key=answer_key(current), wanted=wanted, actor=actor)


def _ask(operation: Operation, current: Continuation, opened_by: Who = SYSTEM) -> None:
    question = _question(operation, current)
    approval_open(question=question, requested_by=current.answered_by, opened_by=opened_by)


def _question(operation: Operation, current: Continuation) -> Question:
    answer = current.answer or {}
    question = operation_question(
        operation,
        kind=ANSWER,
        team=operation.team,
        title=f"Answer {operation.seller.name} about {operation.reference}",
        evidence={
            "seller": operation.seller.name,
            "task": operation.task_type,
            "asked_by_seller": current.asked,
            "answer": answer.get("text", ""),
            "changes": as_text(answer.get("changes", {})),
            "changes_in_words": json.dumps(answer.get("changes", {}), ensure_ascii=False, sort_keys=True),
        },
        policy="An answer may move money, one approver",
        version=current.generation,
    )
    return answer_question(operation, current.arguments, question)


def _looked_at(leaving: Leaving) -> bool:
    """Whether an answer that is about to leave still can be sent, and is what people let go; where not, it is
    none any more, people are told, and the pause may be answered anew."""
    current = continuation_current(leaving.operation)
    if not leaving.is_answer or current is None:
        return True
    why = answer_problem(leaving.operation, leaving.request)
    if not why and not _is_as_released(leaving, current):
        why = "what it is about has changed since people let it go"
    if why:
        answer_hold_back(leaving.operation, why)
    return not why


def _is_as_released(leaving: Leaving, current: Continuation) -> bool:
    asked = Approval.objects.filter(
        kind=ANSWER,
        subject_id=leaving.operation.pk,
        subject_version=current.generation,
        status=ApprovalStatus.APPROVED,
    )
    released = asked.order_by("-pk").first()
    if released is not None:
        return is_as_shown(released, _question_again(released))
    # Nobody was asked, for it is what people had approved.
    return answer_stands(leaving.operation, leaving.request)


def _question_again(approval: Approval) -> Question:
    operation = Operation.objects.select_related("seller", "team").get(pk=approval.subject_id)
    current = operation.continuations.get(generation=approval.subject_version)
    return _question(operation, current)


def _apply(approval: Approval, outcome: Outcome) -> None:
    operation = Operation.objects.select_for_update(no_key=True).get(pk=approval.subject_id)
    current = continuation_current(operation)
    if current is None or current.released_at is not None:
        return
    if outcome.answer == "approved":
        why = answer_problem(operation, current.arguments)
        if why:
            raise EffectRefusedNowError(why)
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


def _let_go(operation: Operation, current: Continuation, actor: str) -> None:
    if not operation.is_mutation or answer_stands(operation, current.arguments):
        _release(operation, current, actor)
    else:
        _ask(operation, current)


def _renewed(seller: Seller, actor: str) -> None:
    """New credentials: whatever waited for them goes on at once. One row that cannot is put back; it keeps
    neither the others nor the credentials."""
    waiting = Operation.objects.filter(seller=seller, status=S.AUTH_REQUIRED, settled_at__isnull=True)
    each_row(_WORK, waiting.order_by("pk").values_list("pk", flat=True), partial(_goes_on, actor=actor))


def credentials_use_again() -> int:
    """What could not go on when its seller's credentials came goes on now, by itself. Answers how many."""
    return each_row(_WORK, due_again(_WORK)[:_AT_ONCE], _goes_on_late)


def _goes_on_late(operation_id: uuid.UUID) -> bool:
    """In the name of who gave the credentials, and only with newer ones than its pause: what the seller has
    asked for since waits for people. Answers whether it went on."""
    operation = _waiting(operation_id)
    given = credentials_given(operation.seller) if operation else None
    if operation is None or given is None or given.at <= _paused_at(operation):
        return False
    _go_on(operation, actor=given.actor)
    return True


def _goes_on(operation_id: uuid.UUID, *, actor: str) -> bool:
    """Answers whether it still waited."""
    operation = _waiting(operation_id)
    if operation is not None:
        _go_on(operation, actor=actor)
    return operation is not None


def _waiting(operation_id: uuid.UUID) -> Operation | None:
    """What waits for credentials, held until the caller's commit."""
    waiting = Operation.objects.filter(pk=operation_id, status=S.AUTH_REQUIRED, settled_at__isnull=True)
    return waiting.select_related("seller", "team").select_for_update(of=("self",), no_key=True).first()


def _paused_at(operation: Operation) -> datetime:
    current = continuation_current(operation)
    return current.at if current is not None else operation.status_since


def _is_to_be_answered(operation: Operation, current: Continuation) -> bool:
    is_lost = operation.is_mutation and not operation.task_id and is_unaccounted(operation, current.at)
    return current.is_answerable and can_continue(operation) and not is_lost


def _go_on(operation: Operation, *, actor: str) -> None:
    """Let what waits for credentials go on, where it is what people approved; else they are asked, as about
    any answer. The time until now was not the seller's. What was sent again since it paused, and may have
    been done, is sent under its own key once more, for the answer has another."""
    current = continuation_current(operation)
    if current is not None and _is_to_be_answered(operation, current):
        _freeze(current, operation, actor=actor, text="", changes={})
        _let_go(operation, current, actor)
    elif operation.task_id:
        Operation.objects.filter(pk=operation.pk).update(next_poll_at=clock.now(), **time_anew(operation))
    elif resend_is_safe(operation):
        send_with_time(operation, at=clock.now())
