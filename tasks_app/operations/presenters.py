"""Operations in words: how old against which deadline, what happens next, and who has to act."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.commands.kill_switch import Stops, stops_shown
from tasks_app.commands.models import KillSwitch
from tasks_app.desk import text
from tasks_app.desk.export import plain
from tasks_app.desk.items import Item, lowered
from tasks_app.desk.states import face
from tasks_app.lifecycle.names import EntityName, link_to
from tasks_app.operations import policy
from tasks_app.operations.answer_stages import Answer, Answers, Stage, answers_of
from tasks_app.operations.blockers import Blocker, ShutBy, Then
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.lookup import asked_with, is_told_by_webhook
from tasks_app.operations.models import Channel, Observation, Operation, OperationStatus
from tasks_app.operations.overdue import KIND as OVERDUE
from tasks_app.operations.overdue import more_time_words, new_deadline
from tasks_app.operations.selectors import is_held, would_be_sent
from tasks_app.operations.steered import STEERED
from tasks_app.operations.steering import poll_refusal, resend_refusal, settle_refusal
from tasks_app.sellers.explain import CREDENTIALS_AWAITED

S = OperationStatus
# AdCP errors and results are shown whole below this many characters of JSON, else cut with a note.
_JSON_SHOWN = 20_000
_NOT_LATE = "Its deadline does not end it meanwhile"
_ENCODER = json.JSONEncoder(indent=2, ensure_ascii=False, default=str)


@dataclass(frozen=True, kw_only=True)
class Next:
    """What happens next, when, and what if nobody acts; `until`: its deadline, where one counts."""

    what: str
    when: str = ""
    otherwise: str = ""
    glyph: str = "running"
    stopped: bool = False  # by the kill switch
    until: datetime | None = None

    @property
    def note(self) -> str:
        """When, and what if nobody acts, as one line."""
        return "; ".join(part for part in (self.when, lowered(self.otherwise)) if part)


@dataclass(frozen=True, kw_only=True)
class OperationRow:
    """One row of the monitor. `age` stands against the deadline, or is None when it has settled (`took`)."""

    operation: Operation
    subject: EntityName | None
    age: text.Age | None
    took: str
    next: Next
    last: str
    question: Approval | None
    link: str
    may_poll: bool
    may_answer: bool
    conflict: Conflict | None


def operation_row(
    operation: Operation,
    *,
    names: Mapping[uuid.UUID, EntityName],
    last: Observation | None,
    question: Approval | None,
    may_steer: bool,
    answers: Answers | None = None,
    conflict: Conflict | None = None,
    stopped: Stops | None = None,
) -> OperationRow:
    """One operation as the monitor shows it. `answers`: to what sellers ask, read here where not given."""
    answers = answers_of([operation]) if answers is None else answers
    return OperationRow(
        operation=operation,
        subject=names.get(operation.subject_id) if operation.subject_id else None,
        age=None if operation.settled_at else operation_age(operation),
        took=operation_took(operation),
        next=operation_next(operation, question, answers=answers, stopped=stopped),
        last=observation_words(last) if last else "nothing yet",
        question=question,
        link=link_to(Operation, operation.pk),
        may_poll=may_steer and not operation.settled_at and not poll_refusal(operation),
        may_answer=may_steer and answers.may_be_given(operation),
        conflict=conflict,
    )


EXPORT_COLUMNS = (
    "Operation", "Reference", "For", "Seller", "State", "Age", "Deadline", "What happens next", "When",
    "Last observation",
)  # fmt: skip


def export_cells(row: OperationRow) -> list[str]:
    """What the monitor shows of an operation, a text for each of EXPORT_COLUMNS."""
    shown = (
        row.operation.task_type,
        row.operation.reference,
        (row.subject.part_of or row.subject.reference) if row.subject else "",
        row.operation.seller.name,
        face(row.operation.status).word,
        row.age.left if row.age else f"took {row.took}",
        text.moment(row.operation.deadline_at),
        row.next.what,
        row.next.when,
        row.last,
    )
    return [plain(cell) for cell in shown]


def operation_age(operation: Operation) -> text.Age:
    """Time since it was sent, or asked for, against the deadline of its type."""
    return text.time_used(operation.sent_at or operation.created_at, operation.deadline_at)


def operation_took(operation: Operation) -> str:
    """From sending to settling; empty while open."""
    if operation.settled_at is None:
        return ""
    return text.duration(operation.settled_at - (operation.sent_at or operation.created_at))


def operation_next(
    operation: Operation,
    question: Approval | None = None,
    *,
    answers: Answers | None = None,
    stopped: Stops | None = None,
) -> Next:
    """What happens next and when; and what if nobody acts. `answers`: to what sellers ask, and `stopped`:
    where nothing is sent, are read here where they are not given."""
    if operation.settled_at is not None:
        return _settled(operation)
    answers = answers_of([operation]) if answers is None else answers
    turn = (stopped or stops_shown()).turn(operation.team_id) if operation.is_mutation else None
    counts = answers.counts_deadline(operation, stopped=turn is not None)
    found = _open_next(operation, question, answers, turn)
    return replace(found, until=operation.deadline_at if counts else None)


def _open_next(
    operation: Operation, question: Approval | None, answers: Answers, turn: KillSwitch | None
) -> Next:
    answer = answers.of(operation)
    if turn is not None and would_be_sent(operation, answers):
        return _stopped(turn, operation, answers)
    if answer is not None:
        return _answered(operation, answer)
    if operation.status == S.TIMED_OUT:
        return _overdue(operation, question)
    if is_held(operation):
        return _held(operation, answers.blocker(operation))
    if operation.status in (S.REQUESTED, S.CALLING_ADCP):
        return _sending(operation, answers)
    waited_on = operation.status in (S.SUBMITTED, S.WORKING) and answers.may_be_given(operation)
    if operation.status == S.INPUT_REQUIRED or waited_on:
        how = " to the seller" if answers.may_be_given(operation) else ", by mail"
        return Next(
            what=f"Waits for your answer{how}",
            when=f"since {text.moment_short(operation.status_since)}",
            otherwise=_overdue_when(operation),
            glyph="person",
        )
    if operation.status == S.AUTH_REQUIRED:
        return Next(
            what=CREDENTIALS_AWAITED,
            when=f"since {text.moment_short(operation.status_since)}",
            otherwise=_NOT_LATE if answers.is_kept(operation) else _overdue_when(operation),
            glyph="person",
        )
    if operation.send_at is not None:
        return _resent(operation, answers)
    return _with_seller(operation)


def observation_words(observation: Observation) -> str:
    """poll, submitted, today 09:06."""
    said = observation.raw_status or observation.status
    if observation.kind == STEERED:
        return f"by hand, {said}, {text.moment_short(observation.at)}"
    if observation.kind != "answer":
        said = {"no_answer": "no answer", "not_sent": "could not be sent", "garbled": "no AdCP answer"}.get(
            observation.kind, observation.kind
        )
    return f"{observation.channel}, {said}, {text.moment_short(observation.at)}"


def settled_words(operation: Operation) -> str:
    """How it was settled: reply, poll, webhook; – while open."""
    if operation.settled_at is None:
        return text.DASH
    return operation.settled_by or "given up"


def counts_words(counts: Mapping[str, int], order: tuple[str, ...]) -> str:
    """submitted 2, working 1."""
    said = [f"{face(status).word.lower()} {counts[status]}" for status in order if counts.get(status)]
    return ", ".join(said) or "none"


def identities(operation: Operation) -> list[tuple[str, str]]:
    """The names it goes by, ours and the seller's; those that are not known are left out."""
    named = [
        ("Operation", str(operation.pk)),
        ("Idempotency key", operation.idempotency_key or ""),
        ("Seller’s task", operation.task_id),
        ("A2A task", operation.a2a_task_id),
        ("A2A context", operation.a2a_context_id),
        ("Seller’s context", operation.context_id),
        ("Purpose", operation.purpose),
    ]
    return [(label, value) for label, value in named if value]


def overdue_choices(operation: Operation, question: Approval | None) -> list[Item]:
    """What can be done about an overdue operation, and what each does."""
    choices = []
    if not poll_refusal(operation):
        choices.append(
            Item(
                glyph="running",
                text="Poll now",
                note="Reads the task’s status once. Changes nothing at the seller.",
                link=link_to(Operation, operation.pk),
            )
        )
    page = link_to(Operation, operation.pk)
    if not resend_refusal(operation):
        key = f"key {operation.idempotency_key[:8]}…" if operation.idempotency_key else "a read"
        choices.append(
            Item(
                glyph="running",
                text="Resend, same key",
                link=f"{page}#resend",
                note=f"Same bytes, {key}: cannot buy twice. It is waited for again.",
            )
        )
    if not settle_refusal(operation):
        choices.append(
            Item(
                glyph="person",
                text="Settle by hand",
                link=f"{page}#settle",
                note="With a reason and evidence, such as the seller’s letter. Somebody else approves it.",
            )
        )
    if question is not None and question.kind == OVERDUE:
        page = link_to(Approval, question.pk)
        choices += [
            Item(
                glyph="seller",
                text="Keep waiting",
                link=page,
                note=f"Sets a new deadline of {more_time_words(operation)}, until "
                f"{text.moment_short(new_deadline(operation))}. Approve {question.reference}.",
            ),
            Item(
                glyph="stopped",
                text="Stop waiting",
                link=page,
                note="The seller may still act; a late answer comes back to a person. "
                f"Reject {question.reference}.",
            ),
        ]
    return choices


def pretty(value: Any) -> str:
    """JSON for people, cut at 20,000 characters; not more is written out (what nests deeply is many times as
    long on a page)."""
    if value in (None, {}, []):
        return ""
    parts, room = [], _JSON_SHOWN
    for part in _ENCODER.iterencode(value):
        parts.append(part[:room])
        room -= len(part)
        if room < 0:
            return f"{''.join(parts)}\n… (the rest is not shown)"
    return "".join(parts)


def sending_words(operation: Operation, answers: Answers) -> str:
    """How one stands that is to be sent, or sent again, as a sentence without its end; empty of one that is
    with its seller."""
    task, seller = operation.task_type, operation.seller.name
    blocker = answers.blocker(operation)
    if is_held(operation):
        then = f"; let go, {blocker.once_let_go}" if blocker else ""
        return f"{task} to {seller} waits for a decision{then}"
    if blocker is not None:
        again = "" if operation.status == S.REQUESTED else " again"
        return f"{_SAID[blocker.then].format(task=task, seller=seller, again=again)}: {blocker.why}"
    if operation.status == S.REQUESTED:
        return f"{task} is to be sent to {seller}"
    if operation.status != S.CALLING_ADCP:
        return f"{task} is sent to {seller} again" if _is_sent_again(operation) else ""
    if operation.send_at is None and operation.next_poll_at is not None:
        return f"{seller} is asked whether it has {task}"
    return f"{task} is being sent to {seller}"


def _is_sent_again(operation: Operation) -> bool:
    again = operation.send_at is not None and not (operation.task_id or operation.a2a_task_id)
    return again and operation.status in (S.SUBMITTED, S.WORKING)


_SAID = {
    Then.WAITS: "{task} is not sent to {seller}{again} yet",
    Then.ENDS: "{task} ends without being sent to {seller}{again}",
    Then.ASKS: "People are asked before {task} is sent to {seller}{again}",
    Then.LOOKS: "{seller} is asked whether it has {task}",
}


def _settled(operation: Operation) -> Next:
    when = text.moment_short(operation.settled_at)
    if operation.status == S.TIMED_OUT:
        late = "A late answer comes back to a person" if operation.is_mutation else ""
        return Next(what="Given up", when=when, otherwise=late, glyph="stopped")
    return Next(
        what=f"Settled by {operation.settled_by or 'us'}", when=when, glyph=face(operation.status).glyph
    )


def _stopped(turn: KillSwitch, operation: Operation, answers: Answers) -> Next:
    """What may be had at its seller already is late all the same; what we hold is not. What is come upon
    before the kill switch, and not waited for, ends all the same."""
    answer, blocker = answers.of(operation), answers.blocker(operation)
    if answer is None and blocker is not None and blocker.is_over:
        return _kept_back(operation, blocker, late=answers.counts_deadline(operation, stopped=True))
    nothing = "Nothing is sent while it is on; it goes by itself once that is let go"
    if answer is not None and answer.is_shut:
        nothing = f"Nothing is sent while it is on, and once that is let go it waits still: {answer.shut}"
    elif answer is None and blocker is not None:
        nothing = f"Nothing is sent while it is on; once that is let go, {blocker.once_let_go}"
    held = answer is not None or operation.status == S.REQUESTED or answers.is_kept(operation)
    return Next(
        what="Stopped by the kill switch",
        when=f"since {text.moment_short(turn.at)}: {turn.reason}",
        otherwise=nothing if held else f"{nothing}. {_overdue_when(operation)}",
        glyph="person",
        stopped=True,
    )


def _answered(operation: Operation, answer: Answer) -> Next:
    """Of a seller's question that we answered."""
    since = f"since {text.moment_short(answer.left_at or answer.given_at)}"
    return Next(
        what=answer.words,
        when=(answer.kept_by or _in(operation.send_at)) if answer.stage is Stage.TO_SEND else since,
        otherwise=_NOT_LATE if answer.kept else _overdue_when(operation),
        glyph="person" if answer.needs_people else "seller" if answer.has_left else "running",
    )


def _overdue(operation: Operation, question: Approval | None) -> Next:
    since = f"since {text.moment_short(operation.overdue_at or operation.status_since)}"
    if not operation.is_mutation:
        return Next(what="Overdue", when=since, otherwise="It is given up next", glyph="overdue")
    looked_at = " and is looked at now and then" if asked_with(operation) else ""
    what = "Overdue" if question is None else "Waits for a person"
    return Next(what=what, when=since, glyph="overdue", otherwise=f"It stays overdue{looked_at}")


def _held(operation: Operation, blocker: Blocker | None) -> Next:
    sent = operation.status != S.REQUESTED
    then = f"; let go, {blocker.once_let_go}" if blocker else ""
    return Next(
        what="Waits for a decision",
        when=f"since {text.moment_short(operation.created_at)}" if not sent else "it may have left once",
        otherwise=f"{'It is not sent again before it' if sent else 'Nothing is sent before it'}{then}",
        glyph="person",
    )


def _kept_back(operation: Operation, blocker: Blocker, *, late: bool) -> Next:
    """It is due to be sent (again), and something beside gates and people is in its way."""
    what = _THEN[blocker.then]
    otherwise = _overdue_when(operation) if operation.status != S.REQUESTED else _fails_when(operation)
    return Next(
        what=what.format("" if operation.status == S.REQUESTED else " again"),
        when=blocker.why,
        otherwise=otherwise if late else _NOT_LATE,
        glyph=_GLYPHS.get(blocker.by, "person"),
    )


_GLYPHS = {ShutBy.ALONE: "seller", ShutBy.KEY: "running"}
_THEN = {
    Then.WAITS: "Waits to be sent{}",
    Then.ENDS: "Ends without being sent{}",
    Then.ASKS: "People are asked before it is sent{}",
    Then.LOOKS: "The seller is asked whether it knows it",
}


def _resent(operation: Operation, answers: Answers) -> Next:
    """What people wait on for, and have sent again."""
    blocker = answers.blocker(operation)
    if blocker is not None:
        return _kept_back(operation, blocker, late=answers.counts_deadline(operation, stopped=False))
    return Next(
        what="The request is sent again, safely",
        when=_in(operation.send_at),
        otherwise=_overdue_when(operation),
    )


def _sending(operation: Operation, answers: Answers) -> Next:
    blocker = answers.blocker(operation)
    if blocker is not None:
        return _kept_back(operation, blocker, late=answers.counts_deadline(operation, stopped=False))
    attempt = f"attempt {max(operation.attempts, 1)} of {policy.max_attempts(operation.seller)}"
    again = operation.send_at
    if operation.attempts and again is not None:
        return Next(what="Waiting for the reply; resends safely if lost", when=f"{attempt}, {_in(again)}")
    if operation.status == S.CALLING_ADCP and again is None and operation.next_poll_at is not None:
        return Next(what="The seller is asked whether it knows it", when=_in(operation.next_poll_at))
    if operation.status == S.REQUESTED:
        slot = "waits for a free slot of the seller"
        return Next(what="Is sent at once", when=slot, otherwise=_fails_when(operation))
    return Next(what="The call is out", when=attempt, otherwise="After a crash the same bytes are sent again")


def _with_seller(operation: Operation) -> Next:
    hooked = is_told_by_webhook(operation)
    tool = asked_with(operation)
    if not tool:
        what, when = "Webhook" if hooked else "Word from the seller", "whenever it comes"
    else:
        asks = f"Poll {tool}" if operation.task_id else f"Look for it with {tool}"
        what, when = "Webhook, or poll" if hooked else asks, _in(operation.next_poll_at)
    return Next(what=what, when=when, otherwise=_overdue_when(operation), glyph="seller")


def _fails_when(operation: Operation) -> str:
    if operation.deadline_at is None:
        return ""
    return f"It fails {text.moment_short(operation.deadline_at)}, if it could not be sent until then"


def _overdue_when(operation: Operation) -> str:
    if operation.deadline_at is None:
        return ""
    then = "a person is asked" if operation.is_mutation else "it is given up"
    return f"Overdue {text.moment_short(operation.deadline_at)}; then {then}"


def _in(moment: datetime | None) -> str:
    if moment is None:
        return "no poll is due"
    left = moment - clock.now()
    return f"in {text.duration(left)}" if left.total_seconds() > 0 else "now"


CHANNELS = tuple(channel.value for channel in Channel)
