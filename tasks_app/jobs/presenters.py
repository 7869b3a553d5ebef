"""A job in words and boxes: what each step does, what it waits for, since when, and what comes of it."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.dateparse import parse_datetime

from tasks_app import clock
from tasks_app.approvals.models import ApprovalStatus
from tasks_app.desk import text
from tasks_app.desk.graph import Layout, Node, layered
from tasks_app.desk.items import joined, plural
from tasks_app.desk.states import COLOURS, face
from tasks_app.jobs.models import STEP_ENDED, Job, Step, StepStatus, WorkflowEvent
from tasks_app.jobs.selectors import JobRows, step_names
from tasks_app.lifecycle.names import EntityName, link_to, namer_register
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O

S = StepStatus
FOLD_ABOVE = 12
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


@dataclass(frozen=True, kw_only=True)
class StepRow:
    """One row of the table of steps; `nested` rows are items of the row above."""

    step: Step
    title: str
    name: str
    look: Look
    word: str
    nested: bool
    took: str
    outputs: list[tuple[str, str]] = field(default_factory=list)


def job_layout(rows: JobRows, notes: Mapping[str, str] | None = None) -> Layout:
    """The job's graph. Fan-outs stand as their items between predecessor and successors; more than
    FOLD_ABOVE as one box. `notes`: step key to what it came to, in a few words."""
    nodes: list[Node] = []
    boxes_of: dict[object, list[str]] = {}
    for step in rows.steps:
        if step.fan_out_id is not None:
            continue
        made = _nodes(step, rows, (notes or {}).get(step.key, ""))
        boxes_of[step.pk] = [node.id for node in made]
        nodes += made
    edges = [
        (before, after)
        for before_id, after_id in rows.edges
        for before in boxes_of.get(before_id, ())
        for after in boxes_of.get(after_id, ())
    ]
    return layered(nodes, edges)


def job_words(rows: JobRows) -> str:
    """The graph in one sentence, for those who do not see it."""
    said = [f"{_title(step).lower()} {face(step.status).word.lower()}"
            for step in rows.steps if step.fan_out_id is None]
    return f"Job graph of {rows.job.reference}: {joined(said)}."


def step_rows(rows: JobRows) -> list[StepRow]:
    """The table: each step, its items below it."""
    found: list[StepRow] = []
    for step in rows.steps:
        if step.fan_out_id is None:
            found.append(_row(step, rows, nested=False))
            found += [_row(item, rows, nested=True) for item in rows.items_of(step)]
    return found


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
        return Look(glyph="waiting", brief=f"after {before}" if before else "not started",
                    sentence=f"Waits for {before}" if before else "Not started")
    if step.status == S.QUEUED:
        return Look(glyph="waiting", brief="waits for a worker", sentence="Ready; waits for a worker")
    if step.status == S.EXECUTING:
        return Look(glyph="running", brief="running", sentence="A worker runs it now")
    return _waiting(step, rows, child)


def event_lines(events: list[WorkflowEvent]) -> list[dict[str, Any]]:
    """Events as rows: when, what, which step, which attempt."""
    return [
        {"at": event.at, "type": event.type, "step": event.correlation.get("step", ""),
         "attempt": event.correlation.get("attempt", ""), "error": event.payload.get("error", "")}
        for event in events
    ]


def _before(step: Step, rows: JobRows) -> str:
    """The predecessors still to end: `2 × book`, `recommend`."""
    wanted = {before for before, after in rows.edges if after == step.pk}
    said = []
    for one in rows.steps:
        if one.pk in wanted and one.status not in STEP_ENDED:
            still = [item for item in rows.items_of(one) if item.status not in STEP_ENDED]
            said.append(f"{len(still)} × {_title(one).lower()}" if still else _title(one).lower())
    return joined(said)


def _nodes(step: Step, rows: JobRows, note: str) -> list[Node]:
    items = rows.items_of(step)
    if len(items) > FOLD_ABOVE:
        return [_folded(step, items, rows)]
    if items:
        return [_node(item, rows, "") for item in items]
    return [_node(step, rows, note)]


def _node(step: Step, rows: JobRows, note: str) -> Node:
    look = step_look(step, rows)
    name = rows.items.get(str(step.item)) if step.fan_out_id is not None else None
    if name is not None:
        title, sub = str(name), f"{_title(step)}, {look.brief}"
    else:
        title, sub = _title(step), f"{note}, {look.brief}" if note and step.status == S.COMPLETED else look.brief
        if note and step.status == S.COMPLETED and len(sub) > 22:
            sub = note
    child = rows.children.get(step.pk)
    return Node(
        id=str(step.pk), title=title, sub=sub, glyph=look.glyph, tone=look.tone,
        done=step.status == S.COMPLETED,
        link=look.link or (link_to(Job, child.pk) if child else ""),
    )


def _folded(step: Step, items: list[Step], rows: JobRows) -> Node:
    """Many siblings as one box: Book × 40; 3 waiting, 37 done."""
    count = Counter(_bucket(step_look(item, rows).glyph) for item in items)
    told = ", ".join(f"{count[word]} {word}" for word in ("failed", "waiting", "running", "done") if count[word])
    glyph = next(g for g, word in (("failed", "failed"), ("seller", "waiting"), ("running", "running"),
                                   ("done", "done")) if count[word])
    return Node(
        id=str(step.pk), title=f"{_title(step)} × {len(items)}", sub=told, glyph=glyph, tone=COLOURS[glyph],
        done=step.status == S.COMPLETED, link=link_to(Job, rows.job.pk),
    )


def _bucket(glyph: str) -> str:
    if glyph in ("done", "differs", "stopped"):
        return "done"
    return {"failed": "failed", "running": "running"}.get(glyph, "waiting")


def _completed(step: Step, child: Job | None, glyph: str, note: str) -> Look:
    link = link_to(Job, child.pk) if child else ""
    if step.skipped:
        return Look(glyph="stopped", brief="skipped", sentence="Skipped: its condition was not met", link=link)
    if glyph in _NEWS and note:
        return Look(glyph=glyph, brief=note, sentence=note.capitalize(), link=link)
    error = (step.outputs or {}).get("error") if isinstance(step.outputs, dict) else ""
    if error:
        return Look(glyph="failed", brief="no answer", sentence=str(error), link=link)
    took = _took(step)
    tries = f", try {step.failures + 1}" if step.failures else ""
    return Look(glyph="done", brief=f"{took}{tries}" or "done", sentence=f"Done in {took}" if took else "Done",
                link=link)


def _waiting(step: Step, rows: JobRows, child: Job | None) -> Look:
    wait = step.waiting_for or {}
    kind = wait.get("type")
    if kind == "operation" and wait.get("id") in rows.operations:
        return operation_look(rows.operations[wait["id"]])
    if kind == "approvals":
        return _approvals_look(wait["ids"], rows)
    if kind == "job" and child is not None:
        return _child_look(child, rows)
    if kind == "backoff":
        when = text.moment_short(step.ready_at) if step.ready_at else "soon"
        return Look(glyph="running", brief=f"try {step.failures + 1} soon",
                    sentence=f"Tries again {when} after: {wait.get('error', '')}")
    if kind == "time":
        until = parse_datetime(str(wait.get("until", "")))
        return Look(glyph="waiting", brief=f"until {text.moment_short(until)}",
                    sentence=f"Waits until {text.moment(until)}")
    if kind == "items":
        return Look(glyph="running", brief=f"{wait.get('count', 0)} in parallel",
                    sentence=f"{plural(wait.get('count', 0), 'step')} in parallel")
    return Look(glyph="running", brief="resumes now", sentence="What it waited for has come; it resumes")


def operation_look(operation: Operation) -> Look:
    """How a step stands that waits for an operation."""
    link = link_to(Operation, operation.pk)
    seller, age = operation.seller.name, text.duration(clock.now() - (operation.sent_at or operation.created_at))
    if operation.status == O.TIMED_OUT:
        return Look(glyph="overdue", brief=f"overdue, {age}", link=link,
                    sentence=f"{seller} has not answered {operation.task_type} in time")
    if operation.status == O.INPUT_REQUIRED:
        return Look(glyph="person", brief="asks you", link=link,
                    sentence=f"{seller} asks: {operation.message or 'no question stated'}")
    if operation.status == O.AUTH_REQUIRED:
        return Look(glyph="person", brief="wants credentials", link=link, sentence=f"{seller} wants credentials")
    if operation.status in (O.REQUESTED, O.CALLING_ADCP):
        return Look(glyph="running", brief=f"calling, {age}", link=link,
                    sentence=f"{operation.task_type} is being sent to {seller}")
    return Look(glyph="seller", brief=age, link=link,
                sentence=f"{seller} has {operation.task_type} since {text.moment_short(operation.sent_at)}; "
                         f"overdue {text.moment_short(operation.deadline_at)}")


def _approvals_look(ids: list[str], rows: JobRows) -> Look:
    still = [rows.approvals[pk] for pk in ids if pk in rows.approvals
             and rows.approvals[pk].status == ApprovalStatus.OPEN]
    if not still:
        return Look(glyph="running", brief="resumes now", sentence="All decisions are in; it resumes")
    first = min(still, key=lambda approval: approval.due_at)
    return Look(
        glyph="person", brief=f"{len(still)} of {len(ids)} open",
        sentence=f"{plural(len(still), 'decision')} of {len(ids)} open; {first.reference} is due "
                 f"{text.moment_short(first.due_at)}",
        link=link_to(type(first), first.pk),
    )


def _child_look(child: Job, rows: JobRows) -> Look:
    """A nested job in one line: what its first open step waits for."""
    active = [step for step in rows.child_steps.get(child.pk, ()) if step.status not in (S.RECEIVED, S.CANCELLED)]
    if not active:
        return Look(glyph="running", brief="running", sentence=f"{child.reference} runs", link=link_to(Job, child.pk))
    inner = step_look(active[0], rows)
    return Look(glyph=inner.glyph, brief=inner.brief, link=link_to(Job, child.pk),
                sentence=f"{child.reference}, {_title(active[0]).lower()}: {inner.sentence}")


def _row(step: Step, rows: JobRows, *, nested: bool) -> StepRow:
    name = rows.items.get(str(step.item)) if nested else None
    look = step_look(step, rows)
    word = "Skipped" if step.skipped else face(step.status).word
    if step.status == S.AWAITING_TOOL:
        word = {"seller": "With the seller", "person": "Waiting for a person", "overdue": "Overdue"}.get(
            look.glyph, "Waiting")
    return StepRow(
        step=step, title=_title(step), name=str(name) if name else "", look=look, word=word, nested=nested,
        took=_took(step), outputs=_outputs(step.outputs),
    )


def _outputs(value: Any) -> list[tuple[str, str]]:
    if not isinstance(value, dict):
        return []
    return [(str(key), _short(inner)) for key, inner in value.items() if inner not in (None, "", [], {})]


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)}: " + ", ".join(_short(one) for one in value[:6]) + (" …" if len(value) > 6 else "")
    if isinstance(value, dict):
        return "; ".join(f"{key} {_short(inner)}" for key, inner in list(value.items())[:8])
    return str(value)[:200]


def _title(step: Step) -> str:
    return str(step.spec.get("title") or step.key.partition("[")[0].replace("_", " ").capitalize())


def _took(step: Step) -> str:
    ended: datetime | None = step.ended_at
    return text.duration(ended - step.started_at) if ended and step.started_at else ""


def _names(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    return {
        pk: EntityName(reference=f"{reference} {key}", link=link_to(Job, job))
        for pk, key, job, reference in step_names(ids)
    }


namer_register("step", _names)
