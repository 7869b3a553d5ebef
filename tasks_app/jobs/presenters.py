"""A job in words and boxes: what each step does, what it waits for, since when, and what comes of it."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks_app.desk.graph import Layout, Node, layered
from tasks_app.desk.items import joined
from tasks_app.desk.states import COLOURS, face
from tasks_app.jobs.looks import Look, step_look, step_title, step_took
from tasks_app.jobs.models import JOB_ENDED, Job, JobStatus, Step, StepStatus, WorkflowEvent
from tasks_app.jobs.selectors import JobRows, step_names
from tasks_app.lifecycle.names import EntityName, link_to, namer_register
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_JOB

J, S = JobStatus, StepStatus
FOLD_ABOVE = 12
STEP = "step"  # the parameter of a job's page that asks for one step's diagram and trail
# How many siblings are told of as one: a word and its glyph, what matters most first.
_FOLDED = {
    "failed": "failed",
    "waiting": "seller",
    "running": "running",
    "not begun": "waiting",
    "done": "done",
}
_BUCKETS = {
    S.FAILED: "failed",
    S.AWAITING_TOOL: "waiting",
    S.AWAITING_USER: "waiting",
    S.EXECUTING: "running",
    S.QUEUED: "not begun",
    S.RECEIVED: "not begun",
    S.COMPLETED: "done",
    S.CANCELLED: "done",
}


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
    for step in rows.own:
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
    said = [f"{step_title(step).lower()} {face(step.status).word.lower()}" for step in rows.own]
    return f"Job graph of {rows.job.reference}: {joined(said)}."


def ended_words(job: Job) -> tuple[str, str]:
    """A glyph and a sentence on how it ended without having got through."""
    said = {
        J.FAILED: ("failed", "The job failed."),
        J.CANCELLED: ("stopped", "The job was cancelled."),
        J.EXPIRED: ("overdue", "The job ran out of time."),
    }
    return said.get(J(job.status), ("stopped", "It did not get through."))


def steering_of(job: Job, rows: JobRows, who: User) -> dict[str, Any] | None:
    """What `who` can do about the job: cancel, hide, retry, and the `steps` to retry from; None: nothing."""
    if not who.has_perm(STEER_JOB) or job.status == J.DELETED:
        return None
    over = job.status in JOB_ENDED
    failed = job.status in (J.FAILED, J.EXPIRED) and job.parent_step_id is None
    retry = failed and not Job.objects.filter(retry_of=job).exists()
    done = [step for step in rows.own if step.status == S.COMPLETED]
    steps = [{"key": step.key, "title": step_title(step)} for step in done] if retry else []
    return {"cancel": not over, "hide": over, "retry": retry, "steps": steps}


def step_rows(rows: JobRows) -> list[StepRow]:
    """The table: each step, its items below it."""
    found: list[StepRow] = []
    for step in rows.own:
        found.append(_row(step, rows, nested=False))
        found += [_row(item, rows, nested=True) for item in rows.items_of(step)]
    return found


def event_lines(events: list[WorkflowEvent]) -> list[dict[str, Any]]:
    """Events as rows: when, what, which step, which attempt."""
    return [
        {
            "at": event.at,
            "type": event.type,
            "step": event.correlation.get("step", ""),
            "attempt": event.correlation.get("attempt", ""),
            "error": event.payload.get("error", ""),
        }
        for event in events
    ]


def _nodes(step: Step, rows: JobRows, note: str) -> list[Node]:
    items = rows.items_of(step)
    if rows.count_of(step).total() > FOLD_ABOVE:
        return [_folded(step, rows)]
    if items:
        return [_node(item, rows, "") for item in items]
    return [_node(step, rows, note)]


def _node(step: Step, rows: JobRows, note: str) -> Node:
    look = step_look(step, rows)
    name = rows.items.get(str(step.item)) if step.fan_out_id is not None else None
    if name is not None:
        title, sub = str(name), f"{step_title(step)}, {look.brief}"
    else:
        title, sub = (
            step_title(step),
            f"{note}, {look.brief}" if note and step.status == S.COMPLETED else look.brief,
        )
        if note and step.status == S.COMPLETED and len(sub) > 22:
            sub = note
    child = rows.children.get(step.pk)
    return Node(
        id=str(step.pk),
        title=title,
        sub=sub,
        glyph=look.glyph,
        tone=look.tone,
        done=step.status == S.COMPLETED,
        link=look.link or (link_to(Job, child.pk) if child else ""),
    )


def _folded(step: Step, rows: JobRows) -> Node:
    """Many siblings as one box: Book × 40; 3 waiting, 37 done."""
    count: Counter[str] = Counter()
    for status, many in rows.count_of(step).items():
        count[_BUCKETS[S(status)]] += many
    told = ", ".join(f"{count[word]} {word}" for word in _FOLDED if count[word])
    glyph = next(glyph for word, glyph in _FOLDED.items() if count[word])
    return Node(
        id=str(step.pk),
        title=f"{step_title(step)} × {count.total()}",
        sub=told,
        glyph=glyph,
        tone=COLOURS[glyph],
        done=step.status == S.COMPLETED,
        link=step_link(step),
    )


def step_link(step: Step) -> str:
    """The job's page with this step's diagram, trail and what can be done about it."""
    return f"{link_to(Job, step.job_id)}?{STEP}={step.pk}#step"


def _row(step: Step, rows: JobRows, *, nested: bool) -> StepRow:
    name = rows.items.get(str(step.item)) if nested else None
    look = step_look(step, rows)
    word = "Skipped" if step.skipped else face(step.status).word
    if step.status == S.AWAITING_TOOL:
        word = {"seller": "With the seller", "person": "Waiting for a person", "overdue": "Overdue"}.get(
            look.glyph, "Waiting"
        )
    return StepRow(
        step=step,
        title=step_title(step),
        name=str(name) if name else "",
        look=look,
        word=word,
        nested=nested,
        took=step_took(step),
        outputs=_outputs(step.outputs),
    )


def _outputs(value: Any) -> list[tuple[str, str]]:
    if not isinstance(value, dict):
        return []
    return [(str(key), _short(inner)) for key, inner in value.items() if inner not in (None, "", [], {})]


def _short(value: Any) -> str:
    if isinstance(value, list):
        return (
            f"{len(value)}: " + ", ".join(_short(one) for one in value[:6]) + (" …" if len(value) > 6 else "")
        )
    if isinstance(value, dict):
        return "; ".join(f"{key} {_short(inner)}" for key, inner in list(value.items())[:8])
    return str(value)[:200]


def _names(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    return {
        pk: EntityName(reference=f"{reference} {key}", link=f"{link_to(Job, job)}?{STEP}={pk}#step")
        for pk, key, job, reference in step_names(ids)
    }


namer_register("step", _names)
