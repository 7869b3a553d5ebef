"""What people decide about an overdue operation: keep waiting, or stop (the seller may still act).

AdCP has no task cancel. An overdue read costs nothing and is given up without asking.
"""

from __future__ import annotations

from tasks_app import clock
from tasks_app.approvals.kinds import Kind, Outcome, kind_register
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.services import Question, approval_open, approval_void
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations import policy
from tasks_app.operations.deadlines import on_overdue
from tasks_app.operations.models import SETTLED, Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.publish import on_settled
from tasks_app.operations.resend import resend_is_safe
from tasks_app.people.actors import SYSTEM

KIND = "overdue"


def register() -> None:
    """Called when the application starts."""
    on_overdue(_ask)
    on_settled(_withdraw_question)
    kind_register(
        Kind(
            name=KIND,
            label="Overdue",
            apply=_apply,
            version=_version,
            reopen=_reopen,
            effects={
                "approve": "Keep waiting: a new deadline of the same length is set.",
                "reject": "Stop waiting. The seller may still act; a late answer comes back to a person.",
                "nothing": "It stays overdue, is looked at now and then, and is asked about again.",
            },
        )
    )


def _withdraw_question(operation: Operation) -> None:
    """The seller has answered after all: whether to wait on is no question any more."""
    asked = Approval.objects.filter(
        kind=KIND, subject_type="operation", subject_id=operation.pk, status=ApprovalStatus.OPEN
    )
    if operation.status in SETTLED:
        # Who is deciding at this moment finds the operation settled and changes nothing.
        for approval in asked.select_for_update(no_key=True, skip_locked=True):
            approval_void(approval=approval, reason=f"The seller answered: {operation.status}")


def _ask(operation: Operation) -> None:
    if not operation.is_mutation or operation.team is None:
        give_up(operation)
        return
    approval_open(
        question=Question(
            kind=KIND,
            team=operation.team,
            title=f"{operation.seller.name} has not answered {operation.task_type}",
            subject_type="operation",
            subject_id=operation.pk,
            subject_version=operation.version,
            evidence={
                "operation": operation.reference,
                "seller": operation.seller.name,
                "sent_at": operation.sent_at,
                "deadline_at": operation.deadline_at,
                "last_message": operation.message,
                "task_id": operation.task_id,
            },
            policy=f"Past its deadline for {operation.task_type}",
        ),
        requested_by=SYSTEM,
    )


def give_up(operation: Operation) -> None:
    """Stop waiting: the status stays `timed_out`, the upper storeys are told that nothing came."""
    Operation.objects.filter(pk=operation.pk, settled_at__isnull=True).update(settled_at=clock.now())


def _apply(approval: Approval, outcome: Outcome) -> None:
    operation = (
        Operation.objects.select_related("seller", "team")
        .select_for_update(of=("self",), no_key=True)
        .get(pk=approval.subject_id)
    )
    if operation.status != S.TIMED_OUT or operation.settled_at is not None:
        return
    if outcome.answer == "approved":
        _wait_on(operation, outcome)
    elif outcome.answer == "rejected":
        give_up(operation)
    else:
        _ask(operation)


def _wait_on(operation: Operation, outcome: Outcome) -> None:
    """A known task is looked at at once; a call without any answer is made again, with the same bytes and
    key, while the seller recognises them. What neither helps may still come by webhook."""
    now = clock.now()
    again = not operation.task_id and resend_is_safe(operation)
    transition(
        operation,
        S.SUBMITTED,
        actor=outcome.actor,
        reason=outcome.comment,
        changes={
            "deadline_at": now + policy.deadline(operation.task_type, operation.seller),
            "next_poll_at": now if operation.task_id else None,
            "send_at": now if again else None,
        },
    )


def _version(approval: Approval) -> int | None:
    found = Operation.objects.filter(pk=approval.subject_id, status=S.TIMED_OUT)
    # Held still until the decision's commit.
    return found.select_for_update(no_key=True).values_list("version", flat=True).first()


def _reopen(approval: Approval) -> None:
    operation = Operation.objects.select_related("seller", "team").get(pk=approval.subject_id)
    if operation.status == S.TIMED_OUT:
        _ask(operation)
