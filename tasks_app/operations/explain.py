"""Why an operation, or a contradiction about one, stands as it does."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from tasks_app.approvals.explain import Pending, question_about, question_answers, question_mover
from tasks_app.desk import text
from tasks_app.desk.explain import (
    NOBODY,
    Answers,
    Explainer,
    Mover,
    Standing,
    explainer_register,
    page_link,
    stands,
)
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.operations.selectors import conflicts_of, conflicts_open, operations_of
from tasks_app.people.roles import STEER_OPERATION

S = OperationStatus
_VIEW = "tasks_app.view_operation"
_WORKER = "A worker"
_ENDED = {
    S.COMPLETED: "Nothing: the seller did it.",
    S.FAILED: "Nothing: it failed, and is not tried again by itself.",
    S.CANCELED: "Nothing: it was canceled.",
    S.REJECTED: "Nothing: the seller refused it, and what a seller refuses is never sent again.",
}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """An operation's facts. `held`: nothing is to be sent; `given_up`: settled while overdue; `question`: the
    open approval about it, what it was for or its contradiction; `conflict`: the open contradiction's
    reference."""

    status: str
    task: str = "its task"
    seller: str = "The seller"
    deadline_at: datetime | None = None
    next_poll_at: datetime | None = None
    send_at: datetime | None = None
    held: bool = False
    given_up: bool = False
    message: str = ""
    question: Pending | None = None
    conflict: str = ""


def operation_answers(seen: Seen) -> Answers:
    """The answers for every status of an operation. Raises KeyError for another."""
    return _STATES[S(seen.status)](seen)


def _ended(seen: Seen) -> Answers:
    if seen.conflict:
        return Answers(
            waiting=f"{_ENDED[S(seen.status)]} But the seller has said otherwise since: {seen.conflict}.",
            movers=(question_mover(seen.question),) if seen.question else (_writes(),),
            otherwise="What was first stands.",
            deadline=seen.question.due_at if seen.question else None,
        )
    if seen.question:
        asked = question_answers(seen.question)
        about = f"{seen.question.reference}, “{seen.question.title}”"
        return replace(asked, waiting=f"{_ENDED[S(seen.status)]} But people are asked: {about}.")
    return Answers(waiting=_ENDED[S(seen.status)], otherwise=NOBODY)


def _requested(seen: Seen) -> Answers:
    if seen.held and seen.question:
        return question_answers(seen.question)
    if seen.held:
        return Answers(
            waiting="It is held: it is sent once a person lets it, or the gate in front of it opens.",
            movers=(Mover(right=STEER_OPERATION, does="decide what becomes of it"),),
            otherwise="Nothing is sent.",
            deadline=seen.deadline_at,
        )
    return Answers(
        waiting=f"It waits for {seen.task} to be sent to {seen.seller}, {_when(seen.send_at)}.",
        movers=(Mover(who=_WORKER, does="sends it when a slot of the seller is free"), _steers()),
        otherwise=_deadline(seen, "it fails, for nothing reached the seller"),
        deadline=seen.deadline_at,
    )


def _calling(seen: Seen) -> Answers:
    return Answers(
        waiting=f"{seen.seller} is being called, or its answer to {seen.task} was lost on the way.",
        movers=(
            Mover(who=_WORKER, does="takes the answer, or sends the same bytes under the same key again"),
            Mover(who=seen.seller, does="answers"),
            _steers(),
        ),
        otherwise=_deadline(seen, "the seller is asked whether it knows it, and people decide"),
        deadline=seen.deadline_at,
    )


def _with_seller(seen: Seen) -> Answers:
    verb = "works on" if seen.status == S.WORKING else "has queued"
    polled = f"; it is asked again {_when(seen.next_poll_at)}" if seen.next_poll_at else ""
    return Answers(
        waiting=f"{seen.seller} {verb} {seen.task}{polled}.",
        movers=(Mover(who=seen.seller, does="answers, by webhook or when it is asked"), _steers()),
        otherwise=_deadline(seen, "it is overdue: nothing is undone, and people decide whether to wait on"),
        deadline=seen.deadline_at,
    )


def _input(seen: Seen) -> Answers:
    if seen.question:
        return question_answers(seen.question)
    asks = f": “{_short(seen.message)}”" if seen.message else "."
    return Answers(
        waiting=f"{seen.seller} asks before it goes on with {seen.task}{asks}",
        movers=(
            Mover(right=STEER_OPERATION, does="answer the seller, or say that it goes on"),
            Mover(who=seen.seller, does="may go on by itself"),
        ),
        otherwise=_deadline(seen, "it is overdue and people decide whether to wait on"),
        deadline=seen.deadline_at,
    )


def _auth(seen: Seen) -> Answers:
    return Answers(
        waiting=f"{seen.seller} wants credentials before it goes on with {seen.task}.",
        movers=(
            Mover(right="tasks_app.change_seller", does="give the seller's page new credentials"),
            Mover(who=seen.seller, does="may go on by itself"),
        ),
        otherwise=_deadline(seen, "it is overdue and people decide whether to wait on"),
        deadline=seen.deadline_at,
    )


def _overdue(seen: Seen) -> Answers:
    if seen.given_up:
        return Answers(
            waiting="Nothing: it is overdue and was given up. The seller may still act.",
            movers=(Mover(who=seen.seller, does="may still answer; then people decide what becomes of it"),),
            otherwise=NOBODY,
        )
    if seen.question:
        return question_answers(seen.question)
    return Answers(
        waiting=f"{seen.seller} has not answered {seen.task} by its deadline; people will be asked.",
        movers=(Mover(who=seen.seller, does="may still answer"), _steers()),
        otherwise="It stays overdue, is looked at now and then, and people are asked.",
        deadline=seen.deadline_at,
    )


_STATES: dict[S, Callable[[Seen], Answers]] = {
    S.REQUESTED: _requested,
    S.CALLING_ADCP: _calling,
    S.SUBMITTED: _with_seller,
    S.WORKING: _with_seller,
    S.INPUT_REQUIRED: _input,
    S.AUTH_REQUIRED: _auth,
    S.TIMED_OUT: _overdue,
    **dict.fromkeys(_ENDED, _ended),
}


def conflict_answers(*, resolved: bool, kept: bool, seller: str, question: Pending | None) -> Answers:
    """The answers about a contradiction, open or resolved."""
    if resolved:
        stood = "what was first was kept" if kept else "what came second was taken"
        return Answers(waiting=f"Nothing: {stood}.", otherwise=NOBODY)
    if question:
        return question_answers(question)
    return Answers(
        waiting=f"{seller} said two different things about what is no team’s: nobody is asked which holds.",
        movers=(_writes(),),
        otherwise="What was first stands.",
    )


def register() -> None:
    """Called when the application starts."""
    explainer_register(
        "operation",
        Explainer(
            label="Operation",
            model=Operation,
            prefix="OP",
            right=_VIEW,
            rows=lambda viewer: operations_of(viewer).select_related("seller", "team"),
            answers=_operation,
            standing=stands,
            title=lambda operation: f"{operation.task_type} with {operation.seller.name}",
            link=page_link("tasks_app_operation"),
        ),
    )
    explainer_register(
        "conflict",
        Explainer(
            label="Conflict",
            model=Conflict,
            prefix="CFL",
            right=_VIEW,
            rows=lambda viewer: conflicts_of(viewer).defer("first", "second"),
            answers=_conflict,
            standing=_conflict_standing,
            title=lambda conflict: f"{conflict.get_kind_display()}: {conflict.operation.seller.name}",
            link=page_link("tasks_app_conflict"),
        ),
    )


def _operation(operation: Operation) -> Answers:
    unsettled = operation.settled_at is None
    conflict = None if unsettled else conflicts_open([operation]).get(operation.pk)
    return operation_answers(
        Seen(
            status=operation.status,
            task=operation.task_type,
            seller=operation.seller.name,
            deadline_at=operation.deadline_at,
            next_poll_at=operation.next_poll_at,
            send_at=operation.send_at,
            held=operation.send_at is None,
            given_up=not unsettled,
            message=operation.message,
            question=question_about(_asked_about(operation, conflict)),
            conflict=conflict.reference if conflict else "",
        )
    )


def _asked_about(operation: Operation, conflict: Conflict | None) -> list[tuple[str, uuid.UUID | None]]:
    """What an open question that it waits for is about. Of a settled one what it was for goes on by itself,
    unless the seller was too late."""
    if conflict is not None:
        return [("conflict", conflict.pk)]
    own: list[tuple[str, uuid.UUID | None]] = [("operation", operation.pk)]
    if operation.settled_at is None or operation.overdue_at is not None:
        own.append((operation.subject_type, operation.subject_id))
    return own


def _conflict(conflict: Conflict) -> Answers:
    resolved = conflict.resolved_at is not None
    pairs = [("conflict", conflict.pk), ("operation", conflict.operation_id)]
    return conflict_answers(
        resolved=resolved,
        kept=conflict.resolution == Conflict.Resolution.KEPT,
        seller=conflict.operation.seller.name,
        question=None if resolved else question_about(pairs),
    )


def _conflict_standing(conflict: Conflict) -> Standing:
    is_open = conflict.resolved_at is None
    return Standing(
        status="open" if is_open else "resolved",
        word="Open" if is_open else conflict.get_resolution_display(),
        glyph="differs" if is_open else "done",
        since=conflict.at if is_open else conflict.resolved_at,
        team_id=conflict.team_id,
    )


def _writes() -> Mover:
    return Mover(right=STEER_OPERATION, does="write to the seller")


def _steers() -> Mover:
    return Mover(right=STEER_OPERATION, does="ask the seller now, or stop waiting")


def _deadline(seen: Seen, effect: str) -> str:
    if seen.deadline_at is None:
        return f"It has no deadline: it waits on. Past one, {effect}."
    return f"At its deadline, {text.moment(seen.deadline_at)}, {effect}."


def _when(at: datetime | None) -> str:
    return text.moment_short(at) if at else "at once"


def _short(said: str) -> str:
    """A seller's words, at most 200 characters of them."""
    return said if len(said) <= 200 else f"{said[:199]}…"
