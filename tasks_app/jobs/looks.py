"""How a step stands: done, running, or what it waits for, in a glyph and in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils.dateparse import parse_datetime

from tasks_app import clock
from tasks_app.approvals.models import ApprovalStatus
from tasks_app.desk import text
from tasks_app.desk.items import joined, plural
from tasks_app.desk.states import COLOURS
from tasks_app.jobs.models import STEP_ENDED, Job, Step, StepStatus
from tasks_app.jobs.selectors import JobRows
from tasks_app.jobs.waits import Awaited, wait_of
from tasks_app.lifecycle.names import link_to
from tasks_app.operations.answer_stages import Answers
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.presenters import sending_words
from tasks_app.operations.selectors import is_held

S = StepStatus
_COME = "What it waited for has come; it resumes"
_AT_ONCE = timedelta(milliseconds=50)
_IDLE = (S.RECEIVED, S.COMPLETED, S.CANCELLED)
_NEWS = frozenset({"differs", "failed", "stopped"})


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a step stands: glyph, a few words for its box, a sentence for the table, and where that leads."""

    glyph: str
    brief: str
    sentence: str = ""
    link: str = ""

    @property
    def tone(self) -> str:
        return COLOURS[self.glyph]


def step_look(step: Step, rows: JobRows) -> Look:
    """How a step stands now."""
    child = rows.children.get(step.pk)
    name = rows.items.get(str(step.item)) if step.fan_out_id is not None else None
    if step.status == S.COMPLETED:
        return _completed(step, child, name.glyph if name else "", name.note if name else "")
    if step.status == S.FAILED:
        return Look(glyph="failed", brief="failed", sentence=step.error)
    if step.status == S.CANCELLED:
        return Look(glyph="stopped", brief="not needed", sentence="What it depends on failed")
    if step.status == S.RECEIVED:
        before = _before(step, rows)
        return Look(
            glyph="waiting",
            brief=f"after {before}" if before else "not started",
            sentence=f"Waits for {before}" if before else "Not started",
        )
    if step.status == S.QUEUED:
        return Look(glyph="waiting", brief="waits for a worker", sentence="Ready; waits for a worker")
    if step.status == S.EXECUTING:
        return Look(glyph="running", brief="running", sentence="A worker runs it now")
    return _waiting(step, rows, child)


def step_title(step: Step) -> str:
    """The step's title in its recipe."""
    return str(step.spec.get("title") or step.key.partition("[")[0].replace("_", " ").capitalize())


def step_name(step: Step, rows: JobRows) -> str:
    """The step's title; of an item of a fan-out with what it is about: Book, Norrland Digital."""
    if step.fan_out_id is None:
        return step_title(step)
    name = rows.items.get(str(step.item))
    return f"{step_title(step)}, {name}" if name else f"{step_title(step)} {(step.item_index or 0) + 1}"


def step_took(step: Step) -> str:
    """From its first start to its end; empty while it runs, and where it took no time."""
    ended: datetime | None = step.ended_at
    if ended is None or step.started_at is None or (ended - step.started_at) < _AT_ONCE:
        return ""
    return text.duration(ended - step.started_at)


def _before(step: Step, rows: JobRows) -> str:
    """The predecessors still to end: `2 × book`, `recommend`."""
    wanted = {before for before, after in rows.edges if after == step.pk}
    said = []
    for one in rows.steps:
        if one.pk in wanted and one.status not in STEP_ENDED:
            still = sum(count for status, count in rows.count_of(one).items() if status not in STEP_ENDED)
            said.append(f"{still} × {step_title(one).lower()}" if still else step_title(one).lower())
    return joined(said)


def _completed(step: Step, child: Job | None, glyph: str, note: str) -> Look:
    link = link_to(Job, child.pk) if child else ""
    outputs = step.outputs if isinstance(step.outputs, dict) else {}
    if step.skipped:
        unmet = step.spec.get("condition") and not step.attempts
        why = "Skipped: its condition was not met" if unmet else "Skipped by a person"
        return Look(glyph="stopped", brief="skipped", sentence=why, link=link)
    if outputs.get("outcome") == "refused":
        return Look(glyph="stopped", brief="refused", sentence=f"Refused: {outputs.get('note', '')}")
    if glyph in _NEWS and note:
        return Look(glyph=glyph, brief=note, sentence=note.capitalize(), link=link)
    error = outputs.get("error")
    if error:
        return Look(glyph="failed", brief="no answer", sentence=str(error), link=link)
    took = step_took(step)
    tries = f", try {step.failures + 1}" if step.failures else ""
    return Look(
        glyph="done",
        brief=f"{took or 'done'}{tries}",
        sentence=f"Done in {took}" if took else "Done",
        link=link,
    )


def _waiting(step: Step, rows: JobRows, child: Job | None) -> Look:
    wait = step.waiting_for or {}
    kind = wait.get("type")
    if step.ready_at is not None and step.ready_at <= clock.now():
        return Look(glyph="running", brief="resumes now", sentence=_COME)
    if kind == "operation" and wait.get("id") in rows.operations:
        operation = rows.operations[wait["id"]]
        return _operation_look(operation, rows.answers)
    if kind == "approvals":
        return _approvals_look(wait["ids"], rows)
    if kind == "job" and child is not None:
        return _child_look(child, rows)
    if kind == "backoff":
        when = text.moment_short(step.ready_at) if step.ready_at else "soon"
        return Look(
            glyph="running",
            brief=f"try {step.failures + 1} soon",
            sentence=f"Tries again {when} after: {wait.get('error', '')}",
        )
    if kind == "time":
        until = parse_datetime(str(wait.get("until", "")))
        return Look(
            glyph="waiting",
            brief=f"until {text.moment_short(until)}",
            sentence=f"Waits until {text.moment(until)}",
        )
    if kind == "event":
        return _event_look(wait)
    if kind == "items":
        return Look(
            glyph="running",
            brief=f"{wait.get('count', 0)} in parallel",
            sentence=f"{plural(wait.get('count', 0), 'step')} in parallel",
        )
    other = wait_of(step, Awaited())
    if other is None:
        return Look(glyph="running", brief="resumes now", sentence=_COME)
    return Look(glyph="seller", brief=f"waits for {other.name or other.type}", sentence=other.words)


def _event_look(wait: dict[str, Any]) -> Look:
    """How a step stands that waits for an event from outside."""
    name = f"{wait.get('name', '')} {wait.get('correlation', '')}".strip()
    until = parse_datetime(str(wait.get("until") or ""))
    limit = f", until {text.moment(until)}" if until else ""
    return Look(
        glyph="waiting", brief=f"event {wait.get('name', '')}", sentence=f"Waits for the event {name}{limit}"
    )


def _operation_look(operation: Operation, answers: Answers) -> Look:
    """How a step stands that waits for an operation."""
    link, answer = link_to(Operation, operation.pk), answers.of(operation)
    seller, age = (
        operation.seller.name,
        text.duration(clock.now() - (operation.sent_at or operation.created_at)),
    )
    if operation.status == O.TIMED_OUT:
        return Look(
            glyph="overdue",
            brief=f"overdue, {age}",
            link=link,
            sentence=f"{seller} has not answered {operation.task_type} in time",
        )
    if answer is not None:
        glyph = "person" if answer.needs_people else "seller"
        return Look(glyph=glyph, brief="answered", link=link, sentence=f"{seller} asked. {answer.sentence}")
    if operation.status == O.INPUT_REQUIRED:
        return Look(
            glyph="person",
            brief="asks you",
            link=link,
            sentence=f"{seller} asks: {operation.message or 'no question stated'}",
        )
    if operation.status == O.AUTH_REQUIRED:
        return Look(
            glyph="person", brief="wants credentials", link=link, sentence=f"{seller} wants credentials"
        )
    sending = sending_words(operation, answers)
    if sending:
        blocker = answers.blocker(operation)
        kept = blocker is not None or is_held(operation)
        unsent = "not sent" if operation.status == O.REQUESTED else "not sent again"
        return Look(
            glyph="person" if is_held(operation) else "waiting" if kept else "running",
            brief=f"{unsent if kept else 'calling'}, {age}",
            link=link,
            sentence=sending,
        )
    return Look(
        glyph="seller",
        brief=age,
        link=link,
        sentence=f"{seller} has {operation.task_type} since {text.moment_short(operation.sent_at)}; "
        f"overdue {text.moment_short(operation.deadline_at)}",
    )


def _approvals_look(ids: list[str], rows: JobRows) -> Look:
    still = [
        rows.approvals[pk]
        for pk in ids
        if pk in rows.approvals and rows.approvals[pk].status == ApprovalStatus.OPEN
    ]
    if not still:
        return Look(glyph="running", brief="resumes now", sentence="All decisions are in; it resumes")
    first = min(still, key=lambda approval: approval.due_at)
    return Look(
        glyph="person",
        brief=f"{len(still)} of {len(ids)} open",
        sentence=f"{plural(len(still), 'decision')} of {len(ids)} open; {first.reference} is due "
        f"{text.moment_short(first.due_at)}",
        link=link_to(type(first), first.pk),
    )


def _child_look(child: Job, rows: JobRows) -> Look:
    """A nested job in one line: what its first open step waits for."""
    active = [step for step in rows.child_steps.get(child.pk, ()) if step.status not in _IDLE]
    if not active:
        return Look(
            glyph="running", brief="running", sentence=f"{child.reference} runs", link=link_to(Job, child.pk)
        )
    inner = step_look(active[0], rows)
    return Look(
        glyph=inner.glyph,
        brief=inner.brief,
        link=link_to(Job, child.pk),
        sentence=f"{child.reference}, {step_title(active[0]).lower()}: {inner.sentence}",
    )
