"""A job in words and boxes: what each step does, what it waits for, since when, and what comes of it."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise

from tasks_app.desk import text
from tasks_app.desk.graph import Layout, Node, layered
from tasks_app.desk.items import joined, plural
from tasks_app.desk.states import COLOURS, face
from tasks_app.jobs.awaited import Told
from tasks_app.jobs.critical import CriticalPath
from tasks_app.jobs.looks import Look, step_look, step_name, step_title, step_took
from tasks_app.jobs.models import STEP_ENDED, WAITING, Job, JobStatus, Step, StepStatus
from tasks_app.jobs.selectors import JobRows, step_names
from tasks_app.lifecycle.names import EntityName, link_to, namer_register

J, S = JobStatus, StepStatus
FOLD_ABOVE = 12  # siblings in the graph
ROWS_SHOWN, ITEMS_SHOWN, WAITS_SHOWN = 60, 12, 8  # in the table of steps, of a fan-out there, of waits
STEP, ITEMS = "step", "items"  # parameters of a job's page: one step's details, a list of many steps
OWN = "own"  # the recipe's own steps, as a list
# How many siblings are told of as one: a word and its glyph, what matters most first.
_FOLDED = {
    "failed": "failed",
    "waiting": "seller",
    "running": "running",
    "not begun": "waiting",
    "done": "done",
}
_COUNTED = ("done", "running", "waiting", "failed", "not begun")
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
_UNDER_WAY = (*WAITING, S.EXECUTING, S.QUEUED)
_ORDER = {status: place for place, status in enumerate((S.AWAITING_USER, S.AWAITING_TOOL, S.EXECUTING))}


@dataclass(frozen=True, kw_only=True)
class StepRow:
    """One row of the table of steps; `nested` rows are items of the row above. `tries`: try n of m, and what
    failed; `error`: of the last try, while it is open. Without a step: how many more there are, and where."""

    step: Step | None
    title: str
    name: str = ""
    look: Look | None = None
    word: str = ""
    nested: bool = False
    took: str = ""
    tries: str = ""
    error: str = ""
    critical: bool = False
    link: str = ""


@dataclass(frozen=True, kw_only=True)
class WaitLine:
    """Why the job is not done yet: one step and what it waits for; `link` leads to the step, `target` to what
    it waits for."""

    name: str
    look: Look
    link: str

    @property
    def target(self) -> str:
        return self.look.link


def job_layout(
    rows: JobRows, notes: Mapping[str, str] | None = None, path: Sequence[uuid.UUID] = ()
) -> Layout:
    """The job's graph. Fan-outs stand as their items between predecessor and successors; more than
    FOLD_ABOVE as one box. `notes`: step key to what it came to, in a few words; `path`: the steps that decide
    the end, in their order."""
    nodes: list[Node] = []
    boxes_of: dict[uuid.UUID, list[Node]] = {}
    for step in rows.own:
        made = _nodes(step, rows, (notes or {}).get(step.key, ""), step.pk in path)
        boxes_of[step.pk] = made
        nodes += made
    edges = [(a.id, b.id) for a, b in _pairs(rows.edges, boxes_of)]
    decides = {(a.id, b.id) for a, b in _pairs(pairwise(path), boxes_of) if a.critical and b.critical}
    return layered(nodes, edges, decides)


def job_words(rows: JobRows) -> str:
    """The graph in one sentence, for those who do not see it."""
    said = [f"{step_title(step).lower()} {face(step.status).word.lower()}" for step in rows.own]
    return f"Job graph of {rows.job.reference}: {joined(said)}."


def counts_words(rows: JobRows) -> str:
    """3 done, 1 waiting, 2 not begun; items counted, the steps they came from not."""
    count: Counter[str] = Counter()
    fanned_out = {pk for pk in rows.counts if pk is not None}
    for statuses in rows.counts.values():
        for status, many in statuses.items():
            count[_BUCKETS[S(status)]] += many
    for step in rows.own:
        if step.pk in fanned_out:
            count[_BUCKETS[S(step.status)]] -= 1
    return ", ".join(f"{count[word]:,} {word}" for word in _COUNTED if count[word])


def path_words(path: CriticalPath, rows: JobRows) -> str:
    """What decides, or decided, the end: the steps, how long they took, and what is known of the rest."""
    names = {step.pk: step_title(step) for step in rows.own}
    steps = [names[pk] for pk in path.steps if pk in names]
    if len(steps) < 2:
        return ""
    said = [" → ".join(steps if len(steps) <= 12 else [*steps[:6], "…", *steps[-5:]])]
    if path.measured > timedelta():
        said.append(f"{text.duration(path.measured)} {'so far' if rows.job.ended_at is None else 'in all'}")
    if rows.job.ended_at is None and path.expected > timedelta():
        said.append(f"about {text.duration(path.expected)} to go by sellers’ latest answers and set times")
    if rows.job.ended_at is None and path.unknown:
        said.append(f"{plural(path.unknown, 'step')} nobody can estimate")
    return "; ".join(said)


def waits_now(rows: JobRows) -> tuple[list[WaitLine], int]:
    """What the job waits for, step by step, people first, and how many more there are."""
    fanned_out = {pk for pk in rows.counts if pk is not None}
    steps = [one for one in rows.steps if one.status in _UNDER_WAY and one.pk not in fanned_out]
    steps.sort(key=lambda step: _ORDER.get(S(step.status), len(_ORDER)))
    total = sum(many for statuses in rows.counts.values() for s, many in statuses.items() if s in _UNDER_WAY)
    total -= sum(step.pk in fanned_out and step.status in _UNDER_WAY for step in rows.own)
    lines = [
        WaitLine(name=step_name(step, rows), look=step_look(step, rows), link=step_link(step))
        for step in steps[:WAITS_SHOWN]
    ]
    return lines, max(total - len(lines), 0)


def ended_words(job: Job) -> tuple[str, str]:
    """A glyph and a sentence on how it ended without having got through."""
    said = {
        J.FAILED: ("failed", "The job failed."),
        J.CANCELLED: ("stopped", "The job was cancelled."),
        J.EXPIRED: ("overdue", "The job ran out of time."),
    }
    return said.get(J(job.status), ("stopped", "It did not get through."))


def step_rows(
    rows: JobRows, told: Mapping[str, Told] | None = None, path: Collection[uuid.UUID] = ()
) -> list[StepRow]:
    """The table: each step, its items below it; of many the first, what matters most before the rest.
    `told`: what events tell of their tries; `path`: the steps that decide the end."""
    known = told or {}
    own = _first(rows.own, ROWS_SHOWN)
    found: list[StepRow] = []
    for step in own:
        found.append(step_row(step, rows, known.get(str(step.pk)), critical=step.pk in path))
        items = _first(rows.items_of(step), ITEMS_SHOWN)
        found += [step_row(item, rows, known.get(str(item.pk))) for item in items]
        left = rows.count_of(step).total() - len(items)
        if left > 0:
            found.append(_more(left, rows.count_of(step), items_link(step), nested=True))
    left = rows.counts.get(None, Counter()).total() - len(own)
    if left > 0:
        found.append(_more(left, rows.counts[None], f"{link_to(Job, rows.job.pk)}?{ITEMS}={OWN}"))
    return found


def step_row(step: Step, rows: JobRows, told: Told | None = None, *, critical: bool = False) -> StepRow:
    """One step as a row."""
    nested = step.fan_out_id is not None
    name = rows.items.get(str(step.item)) if nested else None
    look = step_look(step, rows)
    if told is not None and told.skipped:
        look = replace(look, sentence=f"Skipped by a person: {told.skipped}")
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
        tries=_tries(step, told or Told()),
        error=told.error if told is not None and step.status not in STEP_ENDED else "",
        critical=critical,
        link=step_link(step),
    )


def _tries(step: Step, told: Told) -> str:
    """2 of 3: the try it is at, counting those that ended in an error or with their worker, not resumes."""
    if not step.attempts:
        return ""
    most = int(step.spec.get("max_attempts", 3))
    tried = step.failures + told.lost + (step.status != S.FAILED)
    return f"{min(max(tried, 1), most)} of {most}"


def step_link(step: Step) -> str:
    """The job's page with this step's details, diagram, trail and what can be done about it."""
    return f"{link_to(Job, step.job_id)}?{STEP}={step.pk}#step"


def items_link(step: Step) -> str:
    """All items of a fan-out, as a list."""
    return f"{link_to(Job, step.job_id)}?{ITEMS}={step.pk}"


def _pairs(
    edges: Iterable[tuple[uuid.UUID, uuid.UUID]], boxes_of: Mapping[uuid.UUID, list[Node]]
) -> list[tuple[Node, Node]]:
    return [
        (one, other)
        for before, after in edges
        for one in boxes_of.get(before, ())
        for other in boxes_of.get(after, ())
    ]


def _first(steps: list[Step], limit: int) -> list[Step]:
    """At most so many, in their order: where there are more, what failed or is under way before the rest."""
    if len(steps) <= limit:
        return steps
    ranks = {S.FAILED: 0, S.AWAITING_USER: 1, S.AWAITING_TOOL: 2, S.EXECUTING: 3, S.QUEUED: 4}
    chosen = sorted(range(len(steps)), key=lambda at: (ranks.get(S(steps[at].status), 5), at))[:limit]
    return [steps[at] for at in sorted(chosen)]


def _more(left: int, counts: Counter[str], link: str, *, nested: bool = False) -> StepRow:
    said = joined([f"{many:,} {face(status).word.lower()}" for status, many in counts.most_common()])
    return StepRow(step=None, title=f"{left:,} more; in all {said}", nested=nested, link=link)


def _nodes(step: Step, rows: JobRows, note: str, critical: bool) -> list[Node]:
    items = rows.items_of(step)
    if rows.count_of(step).total() > FOLD_ABOVE:
        return [_folded(step, rows, critical)]
    if not items:
        return [_node(step, rows, note, critical)]
    decides = _last_of(items) if critical else set()
    return [_node(item, rows, "", item.pk in decides) for item in items]


def _last_of(items: list[Step]) -> set[uuid.UUID]:
    """The items that decide when their fan-out ends: those still open, else the one that ended last."""
    still = {item.pk for item in items if item.ended_at is None}
    ended = [item for item in items if item.ended_at is not None]
    return still or {max(ended, key=lambda item: (item.ended_at or item.created_at, item.pk)).pk}


def _node(step: Step, rows: JobRows, note: str, critical: bool) -> Node:
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
        link=link_to(Job, child.pk) if child else look.link or step_link(step),
        critical=critical,
    )


def _folded(step: Step, rows: JobRows, critical: bool) -> Node:
    """Many siblings as one box: Book × 40; 3 waiting, 37 done."""
    count: Counter[str] = Counter()
    for status, many in rows.count_of(step).items():
        count[_BUCKETS[S(status)]] += many
    told = ", ".join(f"{count[word]:,} {word}" for word in _FOLDED if count[word])
    glyph = next(glyph for word, glyph in _FOLDED.items() if count[word])
    return Node(
        id=str(step.pk),
        title=f"{step_title(step)} × {count.total():,}",
        sub=told,
        glyph=glyph,
        tone=COLOURS[glyph],
        done=step.status == S.COMPLETED,
        link=items_link(step),
        critical=critical,
    )


def _names(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    return {
        pk: EntityName(reference=f"{reference} {key}", link=f"{link_to(Job, job)}?{STEP}={pk}#step")
        for pk, key, job, reference in step_names(ids)
    }


namer_register("step", _names)
