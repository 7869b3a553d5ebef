"""What people decide about an overdue operation: keep waiting, or stop (the seller may still act).

AdCP has no task cancel. An overdue read costs nothing and is given up without asking.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tasks_app import clock
from tasks_app.approvals.kinds import Kind, Outcome, kind_register
from tasks_app.approvals.models import Approval
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import approval_open
from tasks_app.approvals.subjects import questions_review, questions_withdraw
from tasks_app.desk import text
from tasks_app.lifecycle.transitions import Who, transition
from tasks_app.operations import policy
from tasks_app.operations.deadlines import on_overdue
from tasks_app.operations.models import SETTLED, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.pauses import answer_let_leave, answer_waits, continuation_current
from tasks_app.operations.publish import on_settled
from tasks_app.operations.questions import operation_question
from tasks_app.operations.resend import resend_is_safe
from tasks_app.people.actors import SYSTEM
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.hours import deadline_after, hours_of

KIND = "overdue"


def register() -> None:
    """Called when the application starts."""
    on_overdue(overdue_ask)
    on_overdue(_review_answers)
    on_settled(_review_questions)
    kind_register(
        Kind(
            name=KIND,
            label="Overdue",
            apply=_apply,
            version=_version,
            asks=lambda approval: _question(_operation(approval), _why(approval)),
            reopen=_reopen,
            effects={
                "approve": "Keep waiting: a new deadline of the same length is set, "
                "in the seller's business hours where they are known.",
                "reject": "Stop waiting. The seller may still act; a late answer comes back to a person.",
                "nothing": "It stays overdue, and is asked about again.",
            },
            outlives_job=True,
            decided={"approved": "it is waited for longer", "rejected": "nobody waits for it any more"},
        )
    )


def new_deadline(operation: Operation) -> datetime:
    """Until when waiting on from now would be: the type's time, in the seller's business hours if known."""
    span = policy.deadline(operation.task_type, operation.seller)
    return deadline_after(clock.now(), span, hours_of(operation.seller.business_hours))


def more_time_words(operation: Operation) -> str:
    """24 h; or 24 h of its business hours, Mon-Fri 09:00-17:00 America/New_York."""
    span = f"{policy.deadline(operation.task_type, operation.seller).total_seconds() / 3600:g}{text.SPACE}h"
    hours = hours_of(operation.seller.business_hours)
    return f"{span} of its business hours, {hours}" if hours else span


def overdue_ask(
    operation: Operation, requested_by: Who = SYSTEM, why: str = "", opened_by: Who = SYSTEM
) -> None:
    """Ask people whether to go on waiting for an operation that is `timed_out`; a read is given up at once.

    Args:
        operation: The operation. If it has no team, anybody with the right decides.
        requested_by: Who asked to stop waiting.
        why: Their reason.
        opened_by: Who acted; the system if its deadline passed.
    """
    if not operation.is_mutation:
        give_up(operation)
        return
    approval_open(question=_question(operation, why), requested_by=requested_by, opened_by=opened_by)


def _question(operation: Operation, why: str) -> Question:
    current = continuation_current(operation)
    evidence: dict[str, Any] = {
        "seller": operation.seller.name,
        "sent_at": operation.sent_at,
        "deadline_at": operation.deadline_at,
        "last_message": operation.message,
        "task_id": operation.task_id,
        "more_time": more_time_words(operation),
    }
    if current is not None and current.dispatched_at is not None:
        evidence["answer_left_at"] = current.dispatched_at  # whether it arrived is not known
    return operation_question(
        operation,
        kind=KIND,
        team=operation.team,
        title=f"{operation.seller.name} has not answered {operation.task_type}",
        evidence={**evidence, "stop_because": why} if why else evidence,
        policy=f"Past its deadline for {operation.task_type}" if not why else "Asked to stop waiting",
    )


def give_up(operation: Operation) -> None:
    """Stop waiting: the status stays `timed_out`, the upper storeys are told that nothing came."""
    Operation.objects.filter(pk=operation.pk, settled_at__isnull=True).update(settled_at=clock.now())


def wait_on(operation: Operation, *, actor: Who, reason: str, send_again: bool) -> None:
    """timed_out → submitted with a new deadline; looked at, or (`send_again`) sent, at once.

    Raises InvalidTransitionError for who has no right to it.
    """
    now = clock.now()
    transition(
        operation,
        S.SUBMITTED,
        actor=actor,
        reason=reason,
        changes={
            "deadline_at": new_deadline(operation),
            # Without a task's name it is looked up, unless it is sent again.
            "next_poll_at": now if operation.task_id or not send_again else None,
            "send_at": now if send_again else None,
        },
    )


def overdue_withdraw(operation: Operation, reason: str, actor: Who = SYSTEM) -> None:
    """The question whether to wait on has become idle. Who is deciding at this moment finds that it has, and
    changes nothing."""
    questions_withdraw(
        "operation", operation.pk, kinds=(KIND,), reason=reason, actor=actor, rights=(STEER_OPERATION,)
    )


def _review_answers(operation: Operation) -> None:
    """It waits for no answer of ours any more: what people are asked about one needs nobody."""
    questions_review("operation", [operation.pk], reason="It is overdue")


def _review_questions(operation: Operation) -> None:
    """Of what people are asked about an operation, most is answered by its end."""
    if operation.status in SETTLED:
        questions_review("operation", [operation.pk], reason=f"The seller answered: {operation.status}")


def _apply(approval: Approval, outcome: Outcome) -> None:
    operation = (
        Operation.objects.select_related("seller", "team")
        .select_for_update(of=("self",), no_key=True)
        .get(pk=approval.subject_id)
    )
    if operation.status != S.TIMED_OUT or operation.settled_at is not None:
        return
    if outcome.answer == "approved":
        unanswered = not operation.task_id and not answer_let_leave(operation)
        again = answer_waits(operation) or (unanswered and resend_is_safe(operation))
        wait_on(operation, actor=outcome.actor, reason=outcome.comment, send_again=again)
    elif outcome.answer == "rejected":
        give_up(operation)
    else:
        _ask_again(approval, operation)


def _ask_again(approval: Approval, operation: Operation) -> None:
    """The same, by whoever asked, with their reason."""
    overdue_ask(operation, requested_by=approval.requested_by, why=_why(approval))


def _why(approval: Approval) -> str:
    """A person's reason, which the question alone holds."""
    return str(approval.evidence.get("stop_because", ""))


def _version(approval: Approval) -> int | None:
    found = Operation.objects.filter(pk=approval.subject_id, status=S.TIMED_OUT, settled_at__isnull=True)
    # Held still until the decision's commit.
    return found.select_for_update(no_key=True).values_list("version", flat=True).first()


def _reopen(approval: Approval) -> None:
    operation = _operation(approval)
    if operation.status == S.TIMED_OUT:
        _ask_again(approval, operation)


def _operation(approval: Approval) -> Operation:
    return Operation.objects.select_related("seller", "team").get(pk=approval.subject_id)
