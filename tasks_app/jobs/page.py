"""What the page of a job is given: what goes on, which is looked at again and again; one step; many steps."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from tasks_app import clock
from tasks_app.jobs.awaited import Told, told_of
from tasks_app.jobs.graph import GraphNode, graph_version, job_steps
from tasks_app.jobs.models import Job, Step, StepStatus
from tasks_app.jobs.presenters import (
    OWN,
    counts_words,
    ended_words,
    job_layout,
    job_words,
    path_words,
    step_row,
    step_rows,
    waits_now,
)
from tasks_app.jobs.progress import WorkflowStatus, workflow_statuses
from tasks_app.jobs.selectors import EVENTS_SHOWN, job_events, job_rows, rows_around, step_of
from tasks_app.jobs.shown import fits, shown
from tasks_app.jobs.timeline import timeline
from tasks_app.jobs.way import way_of
from tasks_app.lifecycle.names import names_of
from tasks_app.operations.presenters import pretty

LISTED = 100
_AT_LEAST_EVERY_S = 30  # ages and sellers' states are told anew, also where no event tells of them
_STANDS = {
    WorkflowStatus.RUNNING: "a worker has it, or takes it next",
    WorkflowStatus.WAITING_SINGLE: "waits for one thing, holding no worker",
    WorkflowStatus.WAITING_PARALLEL: "waits for several things, holding no worker",
    WorkflowStatus.READY_TO_RESUME: "what it waited for has come; a worker takes it next",
}


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A page of a list of steps: `steps` as nodes, whose they are, and where the next page begins."""

    title: str
    whose: str
    state: str
    nodes: list[GraphNode]
    after: str


def live_version(job: Job) -> str:
    """Changes when the live part of the page would."""
    return f"{graph_version(job)}.{int(clock.now().timestamp()) // _AT_LEAST_EVERY_S}"


def live_data(job: Job) -> dict[str, Any]:
    """What desk/job_live.html is given: at most 35 queries, whatever the job's size."""
    version = live_version(job)
    rows = job_rows(job)
    way, stands = way_of(rows), workflow_statuses([job])[job.pk]
    waits, more_waits = waits_now(rows)
    events = job_events(job)
    names = names_of(job.subject_type, [job.subject_id]) if job.subject_id else {}
    return {
        "job": job,
        "subject": names.get(job.subject_id) if job.subject_id else None,
        "retried_by": Job.objects.filter(retry_of=job).only("reference").first(),
        "version": version,
        "stands": _STANDS[stands] if stands else "",
        "ended": ended_words(job),
        "dag": job_layout(rows, path=way.steps),
        "words": job_words(rows),
        "not_drawn": rows.left_out(),
        "counts": counts_words(rows),
        "path": path_words(way, rows),
        "waits": waits,
        "more_waits": more_waits,
        "steps": step_rows(rows, told_of(job), way.steps),
        "events": timeline(events, rows),
        "earlier": events[-1].pk if len(events) == EVENTS_SHOWN else 0,
    }


def earlier_data(job: Job, before: str) -> dict[str, Any]:
    """Events older than one, for who asks for them; nothing for what is no event's id."""
    if not before.isdecimal() or len(before) > 18:
        return {}
    events = job_events(job, int(before))
    rows = rows_around(job, {str(event.correlation.get("step_id", "")) for event in events})
    more = events[-1].pk if len(events) == EVENTS_SHOWN else 0
    return {"earlier_events": timeline(events, rows), "earlier_still": more}


def values_data(job: Job) -> dict[str, Any]:
    """The job's own inputs and outputs as JSON, secrets hidden; what is too large is said to be."""
    return {
        "inputs": _json(job.inputs) if fits(job.inputs) else "",
        "outputs": _json(job.outputs) if fits(job.outputs) else "",
        "too_large": [name for name in ("inputs", "outputs") if not fits(getattr(job, name))],
    }


def step_data(step: Step) -> dict[str, Any]:
    """What desk/job_step.html is given of one step, beside its diagram and trail."""
    (node,) = job_steps(step.job, Step.objects.filter(pk=step.pk))
    rows = rows_around(step.job, {str(step.pk)})
    return {
        "step": step,
        "node": node,
        "row": step_row(step, rows, Told(key=step.key, skipped=node.skip_reason)),
        "inputs": _json(node.inputs),
        "outputs": _json(node.outputs),
    }


def listed_data(job: Job, asked: Mapping[str, str]) -> Listed | None:
    """A page of the items of a fan-out (`items`: its id), or of the recipe's own steps (`own`), all or of one
    `state`, after a place (`after`). None for what is not asked for rightly."""
    whose, state, after = asked.get("items", ""), asked.get("state", ""), asked.get("after", "")
    if state and state not in StepStatus.values:
        return None
    rows: QuerySet[Step] = Step.objects.filter(job=job)
    if state:
        rows = rows.filter(status=state)
    if whose == OWN:
        return _own_listed(job, rows, state, after)
    whole = step_of(job, whose)
    if whole is None or (after and not (after.isdecimal() and len(after) < 9)):
        return None
    rows = rows.filter(fan_out=whole).order_by("item_index")
    if after:
        rows = rows.filter(item_index__gt=int(after))
    nodes = job_steps(job, rows[: LISTED + 1], values=False)
    last = str(nodes[LISTED - 1].item_index) if len(nodes) > LISTED else ""
    title = str(whole.spec.get("title") or whole.key)
    return Listed(title=title, whose=whose, state=state, nodes=nodes[:LISTED], after=last)


def _own_listed(job: Job, rows: QuerySet[Step], state: str, after: str) -> Listed | None:
    rows = rows.filter(fan_out=None).order_by("id")
    if after:
        behind = _uuid(after)
        if behind is None:
            return None
        rows = rows.filter(pk__gt=behind)
    nodes = job_steps(job, rows[: LISTED + 1], values=False)
    last = str(nodes[LISTED - 1].id) if len(nodes) > LISTED else ""
    return Listed(title="All steps", whose=OWN, state=state, nodes=nodes[:LISTED], after=last)


def _json(value: Any) -> str:
    return pretty(shown(value))


def _uuid(written: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(written)
    except ValueError:
        return None
