"""Why an operation stands as it does: its facts are read here, `explain_words` puts them into sentences."""

from __future__ import annotations

import uuid

from tasks_app.approvals.explain import question_about
from tasks_app.commands.kill_switch import stops_shown
from tasks_app.desk.explain import Answers, Explainer, Mover, explainer_register, page_link, stands
from tasks_app.operations.answer_stages import Answer, answers_of
from tasks_app.operations.answer_stages import Answers as OurAnswers
from tasks_app.operations.blockers import Blocker, Then, blocker_movers
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.corrections import anew_words, correction_refusal, sellers_words
from tasks_app.operations.explain_words import Seen, operation_answers
from tasks_app.operations.lookup import asked_with, is_told_by_webhook
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.selectors import (
    commands_at_gate,
    conflicts_open,
    is_held,
    operations_of,
    would_be_sent,
)
from tasks_app.operations.steering import poll_refusal, stop_refusal
from tasks_app.sellers.explain import credentials_movers

S = OperationStatus
VIEW = "tasks_app.view_operation"
_REFUSED = (S.FAILED, S.CANCELED, S.REJECTED)


def register() -> None:
    """Called when the application starts."""
    explainer_register(
        "operation",
        Explainer(
            label="Operation",
            model=Operation,
            prefix="OP",
            right=VIEW,
            rows=lambda viewer: operations_of(viewer).select_related("seller", "team"),
            answers=_operation,
            standing=stands,
            title=lambda operation: f"{operation.task_type} with {operation.seller.name}",
            link=page_link("tasks_app_operation"),
        ),
    )


def _operation(operation: Operation) -> Answers:
    unsettled = operation.settled_at is None
    conflict = None if unsettled else conflicts_open([operation]).get(operation.pk)
    answers = answers_of([operation])
    answer, kept = answers.of(operation), answers.is_kept(operation)
    blocker = answers.blocker(operation)
    return operation_answers(
        Seen(
            status=operation.status,
            task=operation.task_type,
            is_read=not operation.is_mutation,
            seller=operation.seller.name,
            deadline_at=operation.deadline_at,
            next_poll_at=operation.next_poll_at,
            send_at=operation.send_at,
            held=is_held(operation),
            kept=kept,
            stopped=_stopped_by(operation, answers),
            steers=_acts(operation) if unsettled else (),
            given_up=not unsettled,
            message=operation.message,
            question=question_about(_asked_about(operation, conflict, answer)),
            conflict=conflict.reference if conflict else "",
            answerable=answers.may_be_given(operation),
            answer=answer,
            said=_said(operation) if operation.status in _REFUSED else "",
            correctable=not correction_refusal(operation),
            renews=credentials_movers(operation.seller) if operation.status == S.AUTH_REQUIRED else (),
            told_by=asked_with(operation),
            hooked=is_told_by_webhook(operation),
            opens=_opens(operation, answer) if answer is not None and answer.is_shut else (),
            blocker=blocker,
            clears=blocker_movers(blocker, operation.seller, operation.account) if blocker else (),
        )
    )


def _opens(operation: Operation, answer: Answer) -> tuple[Mover, ...]:
    """Who opens what is shut to our answer."""
    if answer.shut_by is None:
        return ()
    shut = Blocker(by=answer.shut_by, why=answer.shut, then=Then.WAITS)
    return blocker_movers(shut, operation.seller, operation.account)


def _stopped_by(operation: Operation, answers: OurAnswers) -> str:
    """Who stopped what would leave for it, when and why; also where it, or our answer, waits for people."""
    answer, kept = answers.of(operation), answers.is_kept(operation)
    waits = answer is not None and not answer.has_left
    again = operation.status == S.INPUT_REQUIRED and operation.send_at is not None and answer is None
    if kept or (operation.is_mutation and (waits or again)) or would_be_sent(operation, answers):
        return stops_shown().words(operation.team_id)
    return ""


def _said(operation: Operation) -> str:
    return f"{sellers_words(operation)} {anew_words(operation)}".strip()


def _asked_about(
    operation: Operation, conflict: Conflict | None, answer: Answer | None
) -> list[tuple[str, uuid.UUID | None]]:
    """What an open question that it waits for is about. Of a settled one what it was for goes on by itself,
    unless the seller was too late."""
    if conflict is not None:
        return [("conflict", conflict.pk)]
    own: list[tuple[str, uuid.UUID | None]] = [("operation", operation.pk)]
    unsettled = operation.settled_at is None
    if operation.is_mutation and unsettled and not operation.task_id:
        own += [("command", pk) for pk in commands_at_gate([operation]).values()]
    own += [("command", pk) for pk in (answer.commands if answer else ())]
    if unsettled or operation.overdue_at is not None:
        own.append((operation.subject_type, operation.subject_id))
    return own


def _acts(operation: Operation) -> tuple[str, ...]:
    """What who steers it would not be refused now."""
    acts = {"ask the seller now": poll_refusal, "stop waiting": stop_refusal}
    return tuple(does for does, refusal in acts.items() if not refusal(operation))
